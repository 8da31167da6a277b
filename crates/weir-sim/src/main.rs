//! The program `weir-sim`: reads its command line; everything else is in the library.

use std::process::ExitCode;

use clap::Parser;
use weir_sim::{SimulateArgs, simulate};
use weir_stats::terminal::{INTERRUPTED, watch_for_interrupts};

/// Simulates Weir's balancing, queue, health checks and retries, and compares variants of the config.
#[derive(Debug, Parser)]
#[command(
    name = "weir-sim",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Examples:\n  weir-sim crates/weir-sim/simulations/queue-single-slot.toml --seed 1\n  \
                  weir-sim crates/weir-sim/simulations/server-hangs.toml --seed 1 --out figures"
)]
struct Cli {
    #[command(flatten)]
    args: SimulateArgs,
}

fn main() -> ExitCode {
    match run(&Cli::parse().args) {
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

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
