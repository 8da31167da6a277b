//! The command: read the file, run its variants under one seed, print the results.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use clap::Parser;
use weir_stats::terminal::say;

use crate::model::{self, Model};
use crate::report::{self, Report};
use crate::run;
use crate::tally::RequestTally;

/// Simulates Weir's balancing, queue, health checks and retries, and compares variants of the config.
#[derive(Debug, Parser)]
#[command(
    name = "weir-sim",
    version,
    about,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Examples:\n  weir-sim lab/weir-sim/simulations/queue-single-slot.toml --seed 1\n  \
                  weir-sim lab/weir-sim/simulations/server-hangs.toml --seed 1 --out figures"
)]
pub struct SimulateArgs {
    /// The simulation: a .toml file, described in docs/simulator.md; some are in lab/weir-sim/simulations.
    file: PathBuf,
    /// The seed: the same one gives the same figures. Without it a random one is drawn, and printed.
    #[arg(long)]
    seed: Option<u64>,
    /// Write report, raw data and plots into this folder.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Simulates and prints; writes files when a folder is given. Once `interrupted` is set it only prints the variants that are
/// finished, and returns false.
///
/// # Errors
/// When the file cannot be read or has mistakes, or the results cannot be written.
pub fn simulate(args: &SimulateArgs, interrupted: &AtomicBool) -> anyhow::Result<bool> {
    let path = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file).with_context(|| format!("cannot read {path}"))?;
    let mut model = match model::read(&path, &text) {
        Ok(model) => model,
        Err(mistakes) => bail!("cannot simulate\n\n{mistakes}"),
    };
    // Half of the bits are enough, and shorter to type.
    let seed = args.seed.unwrap_or_else(|| u64::from(fastrand::Rng::new().u32(..)));
    let finished = run_variants(&model, seed, interrupted);
    let all = model.variants.len();
    let mut index = 0..;
    model.variants.retain(|_| index.next().is_some_and(|index| finished.contains_key(&index)));
    let is_whole = finished.len() == all;
    let tallies: Vec<RequestTally> = finished.into_values().collect();
    let name = name_of(&args.file);
    let report = Report::new(&name, &model, seed, &tallies);
    if !tallies.is_empty() {
        say(&report::text::findings(&report))?;
    }
    say(&format!("seed {seed}"))?;
    if !is_whole {
        eprintln!(
            "weir-sim: interrupted when {} of {all} variants were finished; nothing is saved",
            tallies.len()
        );
        return Ok(false);
    }
    if let Some(folder) = &args.out {
        report::files::write(folder, &report, &tallies, &text)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        say(&format!("saved in {}", folder.display()))?;
    }
    Ok(true)
}

fn name_of(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// All variants by their place in the file, as many at a time as there are CPUs; they share nothing. Once `interrupted` is set,
/// only the finished ones.
fn run_variants(model: &Model, seed: u64, interrupted: &AtomicBool) -> BTreeMap<usize, RequestTally> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(model.variants.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(variant) = model.variants.get(index) else { return done };
            let Some(tally) = run::run(model, variant, seed, interrupted) else { return done };
            done.push((index, tally));
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        running.into_iter().flat_map(|thread| thread.join().expect("a simulation does not panic")).collect()
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        super::SimulateArgs::command().debug_assert();
    }
}
