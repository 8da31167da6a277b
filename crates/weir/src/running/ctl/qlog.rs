//! `weir ctl qlog`: what happens to one connection of HTTP/3, for tools that read qlog.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_observe::printable;

use crate::error::CommandError;
use crate::output;
use crate::running::admin_client::{AdminClient, path_segment};

/// How much longer than the time itself the answer may take.
const GRACE: Duration = Duration::from_secs(10);

/// What begins each record.
const RECORD: char = '\u{1e}';

/// Which connection, and for how long.
#[derive(Debug, Args)]
pub(crate) struct QlogArguments {
    /// The connection, as `weir ctl connections` shows it, such as `s0-17`.
    id: String,
    /// For how long, 1 to 60 s; the end of the connection and 1 MiB end it as well.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The output file, whose name tools expect to end in `.sqlog`. Without it, standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Asks for it, waits, and writes it where it is wanted.
///
/// # Errors
/// When there is none, or it cannot be written.
pub(crate) fn run(client: AdminClient, arguments: &QlogArguments) -> Result<ExitCode, CommandError> {
    let client = client.within(Duration::from_secs(arguments.seconds) + GRACE);
    let target =
        format!("/api/connections/{}/qlog?seconds={}", path_segment(&arguments.id), arguments.seconds);
    let text = client.post(&target, "text/plain", b"")?.accepted()?;
    match &arguments.output {
        None => output::print(&shown(&text))?,
        Some(file) => {
            std::fs::write(file, &text).with_context(|| format!("cannot write {}", file.display()))?;
            output::note(&format!("written to {}", file.display()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The records without anything that steers a terminal, but for the byte that begins each of them (RFC 7464).
fn shown(text: &str) -> String {
    let records = text.split(RECORD).skip(1);
    records.map(|record| format!("{RECORD}{}", printable::shown_json(record))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_stay_apart_and_steer_no_terminal() {
        assert_eq!(
            shown("\u{1e}{\"a\":1}\n\u{1e}{\"b\":\"\u{9b}\"}\n"),
            "\u{1e}{\"a\":1}\n\u{1e}{\"b\":\"\\u009b\"}\n"
        );
    }
}
