//! The `weir` program: one module per command, this file chooses.

mod allocator;
mod command_line;
mod error;
mod diagnostics;
mod output;
mod log;
mod clock;
mod admin_client;

mod serve;
mod reload;
mod events;
mod watch;
mod start;
mod supervisor;
mod check;
mod plan;
mod ctl;
mod sessions;
mod explain;
mod why;
mod top;
mod profile;
mod demo;
mod lab;
mod completions;
mod manual;
mod reference;

#[cfg(test)]
mod commands_page;

use std::process::ExitCode;

use clap::Parser as _;

use command_line::{CommandLine, Subcommand};

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().subcommand {
        Subcommand::Serve(arguments) => serve::run(&arguments),
        Subcommand::Check(arguments) => check::run(&arguments),
        Subcommand::Ctl(arguments) => ctl::run(&arguments),
        Subcommand::Plan(arguments) => plan::run(&arguments),
        Subcommand::Explain(arguments) => explain::run(&arguments),
        Subcommand::Why(arguments) => why::run(&arguments),
        Subcommand::Top(arguments) => top::run(&arguments),
        Subcommand::Demo(arguments) => demo::run(&arguments),
        Subcommand::Lab(arguments) => lab::run(&arguments),
        Subcommand::Completions(arguments) => completions::run(&arguments),
        Subcommand::Man(arguments) => manual::run(&arguments),
        Subcommand::Reference => reference::run_reference(),
        Subcommand::Schema => reference::run_schema(),
    };
    log::flush();
    outcome.unwrap_or_else(|error| error.report())
}
