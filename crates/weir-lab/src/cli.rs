//! The command line: `run`, `list`, `targets`, `origin`, and the guard behind every child process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::origin::Origin;
use crate::place;
use crate::process::{Job, Launcher, guard};

/// Compares Weir with other balancers on this machine.
#[derive(Debug, Parser)]
#[command(name = "weir-lab", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the origin alone: the server that stands behind every target.
    Origin {
        /// Address to listen on; port 0 takes any free port.
        #[arg(long, default_value = "127.0.0.1:9000")]
        listen: SocketAddr,
        /// Event loops that share the address.
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// Start a program and end its process tree when standard input closes.
    #[command(hide = true)]
    Guard {
        /// File for the program's output.
        #[arg(long)]
        log: PathBuf,
        /// CPU it may run on; may be repeated.
        #[arg(long = "cpu")]
        cpus: Vec<usize>,
        /// The program and its arguments.
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// Runs the command line `args`; `launcher` starts the same program again.
pub fn main(args: impl Iterator<Item = String>, launcher: &Launcher) -> ExitCode {
    let _ = launcher;
    let cli = Cli::parse_from(args);
    let result = match cli.command {
        Command::Origin { listen, threads } => serve_origin(listen, threads),
        Command::Guard { log, cpus, command } => run_guard(log, cpus, command),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn serve_origin(listen: SocketAddr, threads: usize) -> anyhow::Result<ExitCode> {
    place::raise_descriptor_limit();
    let origin = Origin::start(listen, threads)?;
    println!("listening on {}", origin.addr());
    origin.wait();
    Ok(ExitCode::SUCCESS)
}

fn run_guard(log: PathBuf, cpus: Vec<usize>, command: Vec<String>) -> anyhow::Result<ExitCode> {
    let mut words = command.into_iter();
    let program = words.next().map(PathBuf::from).unwrap_or_default();
    guard::run(&Job { program, args: words.collect(), cpus, log })?;
    Ok(ExitCode::SUCCESS)
}
