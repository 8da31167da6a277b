//! The `weir` program: one module per command, this file chooses. Below the commands are the modules that they share.

mod command_line;

mod upgrade;
mod serve;
mod controller;
mod check;
mod explain;
mod why;
mod plan;
mod ingress;
mod ctl;
mod report;
mod top;
mod demo;
mod lab;
mod completions;
mod manual;
mod reference;

mod start;
#[cfg(feature = "kubernetes")]
mod election;
mod kubernetes_arguments;
mod log;
mod admin_client;
mod allocator;
mod clock;
mod error;
mod diagnostics;
mod features;
mod output;
mod help_text;

#[cfg(test)]
mod commands_page;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use command_line::{CommandLine, Subcommand};

fn main() -> ExitCode {
    let outcome = match CommandLine::parse().subcommand {
        Subcommand::Serve(arguments) => serve::run(&arguments),
        Subcommand::Check(arguments) => check::run(&arguments),
        Subcommand::Ctl(arguments) => ctl::run(&arguments),
        Subcommand::Upgrade(arguments) => upgrade::run(&arguments),
        Subcommand::Kubernetes(arguments) => controller::run(&arguments),
        Subcommand::Ingress(arguments) => ingress::run(&arguments),
        Subcommand::Plan(arguments) => plan::run(&arguments),
        Subcommand::Explain(arguments) => explain::run(&arguments),
        Subcommand::Why(arguments) => why::run(&arguments),
        Subcommand::Report(arguments) => report::run(&arguments),
        Subcommand::Top(arguments) => top::run(&arguments),
        Subcommand::Demo(arguments) => demo::run(&arguments),
        Subcommand::Lab(arguments) => lab::run(&arguments),
        Subcommand::Completions(arguments) => completions::run(&arguments, CommandLine::command()),
        Subcommand::Man(arguments) => manual::run(&arguments, CommandLine::command()),
        Subcommand::Reference => reference::run_reference(),
        Subcommand::Schema => reference::run_schema(),
    };
    log::flush();
    outcome.unwrap_or_else(|error| error.report())
}
