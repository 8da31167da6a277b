//! `weir top`: the upstreams and servers of a running Weir, live in the terminal.
//!
//! The command line is the same in every build. The terminal UI needs the feature `top`, since its dependencies are a noticeable
//! part of the build; without it the command names the feature.

#[cfg(feature = "top")]
mod terminal;
#[cfg(feature = "top")]
mod screen;
#[cfg(feature = "top")]
mod table;

use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::running::admin_client::AdminArguments;

const EXAMPLES: &str = "\
Examples:
  weir top --admin 127.0.0.1:9000
  weir top --config weir.toml --sort p99";

const EXIT_CODES: &str = "\
Exit codes:
  0  ended by a key or a signal
  1  Weir cannot be reached, or there is no terminal
  2  the command line or the config cannot be used";

/// Show the upstreams and servers of a running Weir, live.
///
/// Keys: `r` sorts by requests per second, `p` by P99, `w` by requests waiting or in progress, `f` by failures, `n` by name; `u` hides the servers; the arrows,
/// `PgUp` and `PgDn` scroll; `q` quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct TopArguments {
    /// The initial order of upstreams and servers.
    #[arg(long, value_enum, default_value = "rate")]
    sort: RowOrder,
    /// Seconds between two updates.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=3600))]
    interval: u64,
    #[command(flatten)]
    admin: AdminArguments,
}

/// By what rows are sorted; the most first, names in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowOrder {
    /// Requests per second
    Rate,
    /// 99 % of the response times do not exceed it
    P99,
    /// Requests waiting for a server or in progress on it
    Waiting,
    /// Failures per second
    Failures,
    /// Name
    Name,
}

#[cfg(feature = "top")]
pub(crate) fn run(arguments: &TopArguments) -> Result<ExitCode, CommandError> {
    terminal::run(arguments)
}

#[cfg(not(feature = "top"))]
pub(crate) fn run(_: &TopArguments) -> Result<ExitCode, CommandError> {
    Err(CommandError::without_feature("`weir top`", crate::features::TOP))
}
