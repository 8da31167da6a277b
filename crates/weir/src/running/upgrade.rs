//! `weir upgrade`: has a running Weir start its program anew and leave its connections to that process.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::output;
use crate::running::admin_client::AdminArguments;
use weir_control::UPGRADE_TIME_MAX;

const EXAMPLES: &str = "\
Examples:
  weir upgrade --config /etc/weir/weir.toml
  weir upgrade --admin unix:/run/weir/weir.sock";

const EXIT_CODES: &str = "\
Exit codes:
  0  the new process serves, and the one before ends after its last connection
  1  the new process did not start and the running one continues as before, or Weir cannot be reached
  2  the command line or the config cannot be used";

/// More than the new process may take to start.
const TIME_MAX: Duration = UPGRADE_TIME_MAX.saturating_add(Duration::from_secs(10));

/// Replace a running Weir by the program that is installed now, without losing a connection.
///
/// The running process starts its program anew, with the same arguments. The new process reads the config, takes over every listening socket,
/// the modes and changed values of servers and what health checks have found, and accepts connections. Then the one before accepts no more,
/// and ends after its last exchange; tunnels may continue for `process.reload_grace`. If the new process does not start, nothing has changed.
/// SIGUSR2 does the same. `admin.socket_changes` and `admin.changes` permit it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct UpgradeArguments {
    #[command(flatten)]
    admin: AdminArguments,
}

pub(crate) fn run(arguments: &UpgradeArguments) -> Result<ExitCode, CommandError> {
    let client = arguments.admin.client()?.within(TIME_MAX);
    let answer = client.post("/api/upgrade", "application/json", b"")?;
    let outcome: Value = serde_json::from_str(&answer.accepted()?)?;
    let version = outcome["version"].as_str().unwrap_or_default();
    output::print(&format!("process {} serves now, with version {version}\n", outcome["process"]))?;
    Ok(ExitCode::SUCCESS)
}
