//! The `weir` program: one module per command, in rooms by what commands are about; this file chooses. Below the commands are the modules that they share.

mod command_line;

mod serve;
mod kubernetes;
mod configs;
mod running;
mod demo;
mod companions;
mod documents;

mod foreign;
mod start;
mod log;
mod allocator;
mod clock;
mod error;
mod diagnostics;
mod features;
mod output;
mod help_text;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use command_line::{CommandLine, Subcommand};

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().subcommand {
        Subcommand::Serve(arguments) => serve::run(&arguments),
        Subcommand::Check(arguments) => configs::check::run(&arguments),
        Subcommand::Import(arguments) => configs::import::run(&arguments),
        Subcommand::Ctl(arguments) => running::ctl::run(&arguments),
        Subcommand::Upgrade(arguments) => running::upgrade::run(&arguments),
        Subcommand::Kubernetes(arguments) => kubernetes::controller::run(&arguments),
        Subcommand::Ingress(arguments) => kubernetes::ingress::run(&arguments),
        Subcommand::Plan(arguments) => configs::plan::run(&arguments),
        Subcommand::Explain(arguments) => configs::explain::run(&arguments),
        Subcommand::Why(arguments) => running::why::run(&arguments),
        Subcommand::Report(arguments) => running::report::run(&arguments),
        Subcommand::Top(arguments) => running::top::run(&arguments),
        Subcommand::Demo(arguments) => demo::run(&arguments),
        Subcommand::Lab(arguments) => companions::lab::run(&arguments),
        Subcommand::Completions(arguments) => documents::completions::run(&arguments, CommandLine::command()),
        Subcommand::Man(arguments) => documents::manual::run(&arguments, CommandLine::command()),
        Subcommand::Reference => documents::reference::run_reference(),
        Subcommand::Schema => documents::reference::run_schema(),
    };
    log::flush();
    outcome.unwrap_or_else(|error| error.report())
}
