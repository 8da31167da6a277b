//! `weir-lab prove`: the lab measures quantities with known results, and reports whether it has found them.
//!
//! `measure` runs the lab on its own relay and with other clients, `claims` holds the figures against what is claimed, and this file
//! tells and saves the outcome. What is proven is the lab on this machine, now: nothing about any product.

mod measure;
mod claims;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Args;
use serde::{Deserialize, Serialize};
use weir_stats::terminal::say;

use crate::clock;
use crate::load::tool::LoadTool;
use crate::machine::Machine;
use crate::placement::read_cpus;
use crate::process::Launcher;
use crate::run::Options;
use crate::scenario::RunLength;
use crate::target::search::ProgramSearch;
use measure::DisturbedCount;

pub use claims::ProofClaim;

/// The options of the command.
#[derive(Debug, Args)]
pub struct ProveArgs {
    /// Shorter windows and fewer rounds: a few minutes.
    #[arg(long)]
    short: bool,
    /// CPU of client and origin, and CPU of the target, such as `0,1`.
    #[arg(long, value_parser = read_cpus)]
    cpus: Option<(usize, usize)>,
    /// Save claims and figures in a new folder below this one.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "lab/runs")]
    save: Option<PathBuf>,
}

/// All claims, and the machine on which they were tested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Proof {
    /// When it began.
    pub started: jiff::Timestamp,
    /// Where.
    pub machine: Machine,
    /// Version of the lab.
    pub version: String,
    /// With shorter windows and fewer rounds.
    pub short: bool,
    /// The lab was built for debugging.
    pub debug_build: bool,
    /// Measurements, and how many of them were disturbed by other processes on the machine.
    pub measurements: usize,
    /// See there.
    pub disturbed: usize,
    /// The claims.
    pub claims: Vec<ProofClaim>,
}

/// Checks every claim, prints and saves the results; returns whether none failed.
///
/// # Errors
/// When something cannot be measured, was interrupted, or cannot be saved.
pub fn prove(args: &ProveArgs, launcher: &Launcher, interrupted: &Arc<AtomicBool>) -> anyhow::Result<bool> {
    let options = Options {
        launcher: launcher.clone(),
        targets: None,
        rounds: None,
        window: None,
        length: RunLength::Full,
        peers_optional: false,
        programs: ProgramSearch::usual(),
        url: None,
        tool: LoadTool::Driver,
        cpus: args.cpus,
        profile: false,
        interrupted: Arc::clone(interrupted),
    };
    let extent = if args.short { measure::SHORT } else { measure::FULL };
    let mut disturbed = DisturbedCount::default();
    let (started, machine) = (clock::today(), Machine::look());
    let mut claims = vec![measure::slowdown(&options, extent, &mut disturbed)?];
    claims.push(measure::agreement(&options, extent, LoadTool::Wrk, false, &mut disturbed)?);
    claims.push(measure::agreement(&options, extent, LoadTool::Vegeta, true, &mut disturbed)?);
    claims.extend(measure::repeats(&options, extent, &mut disturbed)?);
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let proof = Proof {
        started,
        machine,
        version,
        short: args.short,
        debug_build: cfg!(debug_assertions),
        measurements: disturbed.of,
        disturbed: disturbed.count,
        claims,
    };
    say(&proof.text())?;
    if let Some(root) = &args.save {
        say(&format!("Saved in {}", proof.save(root)?.display()))?;
    }
    Ok(proof.claims.iter().all(|claim| claim.holds != Some(false)))
}

impl Proof {
    /// A line for each claim.
    pub fn text(&self) -> String {
        let mut text = format!(
            "# What the lab finds of what it knows, {}\n\n",
            self.started.strftime("%Y-%m-%d %H:%M UTC")
        );
        if self.debug_build {
            text.push_str("> The lab was built for debugging: these figures mean nothing.\n\n");
        }
        if self.disturbed * 2 > self.measurements {
            text.push_str(&format!(
                "> {} of {} measurements were disturbed by what else ran on this machine: repeat on a quiet one.\n\n",
                self.disturbed, self.measurements
            ));
        }
        for ProofClaim { claim, found, holds, .. } in &self.claims {
            let word = match holds {
                Some(true) => "HOLDS",
                Some(false) => "FAILS",
                None => "not judged",
            };
            text.push_str(&format!("- {word}: {claim}. Found: {found}.\n"));
        }
        text.push_str(&format!("\n{}\n", self.machine.sentence()));
        text
    }

    /// Writes `prove.md` and `prove.json`; says where.
    fn save(&self, root: &Path) -> anyhow::Result<PathBuf> {
        let name = format!("{}-prove", self.started.strftime("%Y-%m-%d"));
        let numbered = (2_u32..).map(|number| root.join(format!("{name}-{number}")));
        let folder = std::iter::once(root.join(&name)).chain(numbered).find(|path| !path.exists());
        let folder = folder.context("some number is free")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        std::fs::write(folder.join("prove.md"), self.text())?;
        std::fs::write(folder.join("prove.json"), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(folder)
    }
}
