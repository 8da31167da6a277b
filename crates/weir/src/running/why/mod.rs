//! `weir why`: explains an exchange, from the flight recorder of a running Weir; one in progress from its connection.
//!
//! Queries the record and renders it as text; what is recorded is decided there.

mod report;
mod failures;
mod values;
#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::output;
use crate::running::admin_client::{AdminArguments, AdminResponse, path_segment};

const EXAMPLES: &str = "\
Examples:
  weir why 4f9d2c61b8a07e35d1c4b6a29e8f7053 --admin 127.0.0.1:9000
  weir why 0-1841 --config weir.toml --json
  weir why --config weir.toml";

const EXIT_CODES: &str = "\
Exit codes:
  0  the exchange is explained, whether it failed or not
  1  no exchange with this id is known, or Weir cannot be reached
  2  the command line or the config cannot be used";

/// Failures that are listed when no id is given.
const LISTED: usize = 20;

/// Explain the outcome of an exchange, and for a failure what to change.
///
/// A running Weir keeps the most recent exchanges and failures, and has those in progress. The id of a request is in the log, on the error
/// page for the client, and in the header for the server. Without an id, the most recent failures are listed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct WhyArguments {
    /// The id of the request, the number of the exchange in the list of failures, or a connection of `weir ctl connections`.
    id: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    admin: AdminArguments,
}

pub(crate) fn run(arguments: &WhyArguments) -> Result<ExitCode, CommandError> {
    let client = arguments.admin.client()?;
    let target = match &arguments.id {
        Some(id) => format!("/api/exchanges/{}", path_segment(id)),
        None => format!("/api/failures?limit={LISTED}"),
    };
    let answer = client.get(&target)?;
    let response = read(&answer).ok_or_else(|| {
        let error = anyhow!("{} has no {target} ({})", client.endpoint, answer.status);
        let help = "an older Weir, or something else than Weir, seems to listen there".to_owned();
        CommandError::Failed { error, help: Some(help) }
    })?;
    if answer.status != 200 {
        let id = arguments.id.as_deref().unwrap_or_default();
        return Err(CommandError::Failed { error: anyhow!(failures::unknown(id, &response)), help: None });
    }
    let text = match (arguments.json, &arguments.id) {
        (true, _) => format!("{response:#}\n"),
        (false, Some(_)) => reports(&response),
        (false, None) => failures::list(&response),
    };
    output::print_answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The content of the response, if it is one of the recorder.
fn read(answer: &AdminResponse) -> Option<Value> {
    let response: Value = serde_json::from_slice(&answer.body).ok().filter(Value::is_object)?;
    match answer.status {
        200 => Some(response),
        404 if response["error"] == "unknown" => Some(response),
        _ => None,
    }
}

/// One report, or several of the same id.
fn reports(response: &Value) -> String {
    let exchanges = response["exchanges"].as_array().map_or(&[][..], Vec::as_slice);
    let mut text = String::new();
    if exchanges.len() > 1 {
        text.push_str(&format!(
            "{} go by this name; the last one first.\n\n",
            output::counted(exchanges.len(), "exchange")
        ));
    }
    let all: Vec<String> = exchanges.iter().map(report::text).collect();
    text.push_str(&all.join("\n"));
    text
}
