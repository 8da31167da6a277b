//! `weir lab`: hands the rest of the command line to the lab, a program of its own that measures Weir from outside.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

use clap::Args;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;

const EXAMPLES: &str = "\
Examples:
  weir lab list
  weir lab run l7-keepalive --short
  weir lab plan --rate 25000 --clients 5000 --body 1k";

const EXIT_CODES: &str = "\
Exit codes:
  0  the lab succeeded
  1  the lab is missing, or it failed
  2  the command line cannot be used";

/// The lab's program.
const PROGRAM: &str = "weir-lab";

/// Compare Weir with other balancers on this machine: the same as `weir-lab`.
///
/// The program is searched next to `weir`, then on the PATH. `weir lab --help` prints its help.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES), disable_help_flag = true)]
pub(crate) struct LabArguments {
    /// The arguments of the lab.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Becomes the lab; comes back only when there is none.
pub(crate) fn run(arguments: &LabArguments) -> Result<ExitCode, CommandError> {
    let Some(program) = super::find(PROGRAM) else {
        return Err(CommandError::Failed {
            error: anyhow::anyhow!("there is no {PROGRAM}, neither beside weir nor on the PATH"),
            help: Some(format!(
                "it is built from Weir's sources: cargo build --profile dist --manifest-path lab/Cargo.toml \
                 --target-dir target -p {PROGRAM}"
            )),
        });
    };
    let error = Command::new(&program).args(&arguments.arguments).exec();
    Err(anyhow::Error::new(error).context(format!("cannot run {}", program.display())).into())
}
