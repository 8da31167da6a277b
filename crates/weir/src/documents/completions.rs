//! `weir completions`: what a shell needs to complete the command line, made from its definition.

use std::process::ExitCode;

use clap::{Args, Command};
use clap_complete::Shell;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  weir completions bash > /usr/share/bash-completion/completions/weir
  weir completions zsh > /usr/share/zsh/site-functions/_weir
  weir completions fish > ~/.config/fish/completions/weir.fish";

const EXIT_CODES: &str = "\
Exit codes:
  0  printed
  2  the command line cannot be used";

/// Print completions for a shell.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Prints the completions for the command line `root`.
pub(crate) fn run(arguments: &CompletionsArguments, mut root: Command) -> Result<ExitCode, CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut root, "weir", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(ExitCode::SUCCESS)
}
