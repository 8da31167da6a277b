//! The program `weir-sim`: runs the simulation that its command line names; everything else is in the library.

use std::process::ExitCode;

use clap::Parser as _;
use weir_sim::{SimulateArgs, simulate};
use weir_stats::terminal::{INTERRUPTED, watch_for_interrupts};

fn main() -> ExitCode {
    match run(&SimulateArgs::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("weir-sim: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &SimulateArgs) -> anyhow::Result<ExitCode> {
    let interrupted = watch_for_interrupts()?;
    let is_complete = simulate(args, &interrupted)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::from(INTERRUPTED) })
}
