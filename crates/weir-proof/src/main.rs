//! `weir-proof`: whether an imported config answers as the original does. `cargo xtask import-proof` builds the program and starts this one.
//!
//! Both programs run in turn in a network and a file system of their own, in which every name and address leads to servers of this process.
//! So neither file is changed: ports, hosts and paths are those that stand there. `docs/import-proof.md` says what is compared.

mod cli;
mod run;
mod arguments;

// Where it runs.
mod namespaces;
mod world;
mod file_system;
mod program;

// What differs, and whether it is meant.
mod logs;
mod report;
mod rules;
mod compare;

// What is asked: requests made from the facts of the original.
mod client;
mod requests;
mod original;
mod samples;

// Who answers.
mod servers;
mod names;
mod wire;
mod clock;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
