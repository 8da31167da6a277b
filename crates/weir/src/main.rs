//! The `weir` program: one module per command, this file chooses.

mod commands;
mod log;
mod serve;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match commands::Cli::parse().command {
        commands::Command::Serve(arguments) => serve::run(&arguments),
    }
}
