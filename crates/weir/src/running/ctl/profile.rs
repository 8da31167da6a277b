//! `weir ctl profile`: where the CPU time and the memory of a running Weir go.
//!
//! Requests the profile and writes it to a file; Weir profiles itself. Must not need any tool on the machine that it runs on.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::error::CommandError;
use crate::output;
use crate::running::admin_client::{AdminClient, AdminResponse};

/// How much longer than the profile itself its answer may take: names are looked up when it is over.
const GRACE: Duration = Duration::from_secs(60);

/// What is wanted of a profile.
#[derive(Debug, Args)]
pub(crate) struct ProfileArguments {
    /// The resource to profile.
    what: ProfileKind,
    /// The duration of sampling CPU time, 1 to 60 s.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// The format of a CPU profile.
    #[arg(long, value_enum, default_value_t = ProfileFormat::Svg)]
    format: ProfileFormat,
    /// Print a memory profile as JSON.
    #[arg(long)]
    json: bool,
    /// The output file. Without it, standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfileKind {
    /// CPU time: a flame graph.
    Cpu,
    /// Memory by kind.
    Memory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ProfileFormat {
    /// A flame graph, for a browser.
    Svg,
    /// Folded stacks, one per line, for other tools.
    Folded,
}

/// Asks for it, and writes it where it is wanted.
///
/// # Errors
/// When there is none, or it cannot be written.
pub(crate) fn run(client: AdminClient, arguments: &ProfileArguments) -> Result<ExitCode, CommandError> {
    let text = match arguments.what {
        ProfileKind::Cpu => cpu(client, arguments)?,
        ProfileKind::Memory => memory(&client, arguments.json)?,
    };
    match &arguments.output {
        None => output::print_answer(&text)?,
        Some(file) => write(file, &text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn cpu(client: AdminClient, arguments: &ProfileArguments) -> Result<String, CommandError> {
    let format = if arguments.format == ProfileFormat::Folded { "folded" } else { "svg" };
    let client = client.within(Duration::from_secs(arguments.seconds) + GRACE);
    let target = format!("/api/profile/cpu?seconds={}&format={format}", arguments.seconds);
    Ok(given(&client, &client.post(&target, "text/plain", b"")?)?.text())
}

fn memory(client: &AdminClient, as_json: bool) -> Result<String, CommandError> {
    let answer = client.post("/api/profile/memory", "text/plain", b"")?;
    let said: Value =
        serde_json::from_slice(&given(client, &answer)?.body).context("the answer is not JSON")?;
    Ok(if as_json { format!("{said:#}\n") } else { table(&said) })
}

/// The answer, if it is a profile.
fn given<'a>(client: &AdminClient, answer: &'a AdminResponse) -> Result<&'a AdminResponse, CommandError> {
    if answer.status == 200 {
        return Ok(answer);
    }
    let said = answer.text();
    let error = anyhow!("{} gives no profile ({}): {}", client.endpoint, answer.status, said.trim());
    let help = match answer.status {
        403 => Some(
            "set `admin.changes = true` in the config of that Weir (`admin.socket_changes` for its socket)"
                .to_owned(),
        ),
        404 | 405 => Some("an older Weir, or something else than Weir, seems to listen there".to_owned()),
        409 => Some("wait for the other one to end".to_owned()),
        _ => None,
    };
    Err(CommandError::Failed { error, help })
}

fn write(file: &Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    output::note(&format!("written to {}", file.display()));
    Ok(())
}

/// A profile of memory, for people.
fn table(said: &Value) -> String {
    let mut text = String::new();
    let mut line = |name: &str, bytes: &Value, more: &str| {
        writeln!(text, "{name:<26} {:>12}  {more}", mebibytes(bytes.as_f64()))
            .expect("a String takes every write");
    };
    let rows = |key: &str| said[key].as_array().cloned().unwrap_or_default();
    line("resident", &said["resident_bytes"], "in memory now");
    for kind in rows("kinds") {
        let name = format!("  {}", kind["name"].as_str().unwrap_or_default());
        line(&name, &kind["resident_bytes"], kind["what"].as_str().unwrap_or_default());
    }
    line("swapped", &said["swapped_bytes"], "");
    line("accounted", &said["accounted_bytes"], "what Weir knows to have taken of the heap");
    for class in rows("classes") {
        let name = format!("  {}", class["name"].as_str().unwrap_or_default());
        line(&name, &class["bytes"], &format!("{} of {} bytes", class["count"], class["each_bytes"]));
    }
    line(
        "unaccounted",
        &said["unaccounted_bytes"],
        "of the heap, in no class: TLS, the event loop, the config, what is free",
    );
    text
}

fn mebibytes(bytes: Option<f64>) -> String {
    format!("{:.2} MiB", bytes.unwrap_or_default() / (1024.0 * 1024.0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_a_table() {
        let said = json!({
            "resident_bytes": 3 << 20, "swapped_bytes": 0, "mapped_bytes": 5 << 20,
            "kinds": [{ "name": "heap", "what": "what the allocator has", "resident_bytes": 2 << 20 }],
            "classes": [{ "name": "buffers kept", "count": 64, "each_bytes": 16384, "bytes": 1 << 20 }],
            "accounted_bytes": 1 << 20, "unaccounted_bytes": -(1 << 19),
        });
        let lines = [
            "resident                       3.00 MiB  in memory now",
            "  heap                         2.00 MiB  what the allocator has",
            "swapped                        0.00 MiB  ",
            "accounted                      1.00 MiB  what Weir knows to have taken of the heap",
            "  buffers kept                 1.00 MiB  64 of 16384 bytes",
            "unaccounted                   -0.50 MiB  of the heap, in no class: TLS, the event loop, the config, what is free",
            "",
        ];
        assert_eq!(table(&said), lines.join("\n"));
    }
}
