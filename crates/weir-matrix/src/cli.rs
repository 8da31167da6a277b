//! The command line: which cases run, how many at a time, and what is printed of them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, ensure};
use clap::Args;
use clap::Parser;

use crate::array::{Case, Coverage, cover};
use crate::oracle::{OracleFinding, judge};
use crate::peer::PeerCertificates;
use crate::run::{Observation, Setting, run as run_case};
use crate::{config, reproduction};
use crate::{former, plant};

/// Tries combinations of protocols, features, bodies and events on the real program
#[derive(Parser)]
#[command(name = "weir-matrix")]
pub struct MatrixToolArguments {
    /// The program that is tried
    #[arg(long, default_value = "target/debug/weir")]
    program: PathBuf,
    /// The folder for scripts of failing cases
    #[arg(long, default_value = "target/matrix")]
    failed: PathBuf,
    /// The folder with the patches of former faults; `program` was built with them
    #[arg(long, value_name = "FOLDER")]
    former_faults: Option<PathBuf>,
    /// What to run
    #[command(flatten)]
    choice: MatrixChoice,
}

/// Which cases run
#[derive(Args, Default, Clone)]
pub struct MatrixChoice {
    /// Every triple of values that exists, in place of every pair
    #[arg(long)]
    triples: bool,
    /// Where chance starts when the cases are chosen
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run one case, by its name
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Cases at a time, by default two for each processor
    #[arg(long)]
    jobs: Option<usize>,
    /// Print the cases and run none
    #[arg(long)]
    list: bool,
    /// Print every pair of factors with how many combinations of their values are covered
    #[arg(long)]
    coverage: bool,
}

/// Searches for former faults at a time: most of the time of one passes in waiting for what does not come.
const FAULTS_AT_A_TIME: usize = 6;

/// How a case ended.
struct Judged {
    observation: Observation,
    findings: Vec<OracleFinding>,
}

/// Runs the cases; whether all is as it should be.
///
/// # Errors
/// The program cannot be started, or a case has no such name.
pub fn run(arguments: &MatrixToolArguments) -> anyhow::Result<bool> {
    let choice = &arguments.choice;
    let (cases, coverage) = chosen(choice)?;
    if let Some(coverage) = &coverage {
        print_coverage(coverage, choice);
    }
    if choice.list {
        cases.iter().for_each(|case| println!("{case}"));
        return Ok(true);
    }
    ensure!(arguments.program.is_file(), "there is no program {}", arguments.program.display());
    let program = std::path::absolute(&arguments.program)?;
    let files = tempfile::tempdir()?;
    config::write_files(files.path())?;
    let setting = Setting {
        program: &program,
        files: files.path(),
        certificates: PeerCertificates::read(files.path())?,
        fault: None,
    };
    if let Some(faults) = &arguments.former_faults {
        return former::run(faults, &cases, &setting, choice.jobs.unwrap_or(FAULTS_AT_A_TIME));
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let judged = run_all(&cases, &setting, choice.jobs.unwrap_or(2 * processors));
    let failed: Vec<&Judged> = judged.iter().flatten().filter(|judged| !judged.findings.is_empty()).collect();
    for (index, judged) in failed.iter().enumerate() {
        print_failure(judged, &arguments.failed.join(format!("{}", index + 1)), files.path())?;
    }
    let broken = judged.iter().filter(|judged| judged.is_none()).count();
    let is_sound = plant_all(&judged, coverage.is_some());
    println!("{} cases, {} failed, {broken} could not be run.", cases.len(), failed.len());
    Ok(failed.is_empty() && broken == 0 && is_sound)
}

fn chosen(choice: &MatrixChoice) -> anyhow::Result<(Vec<Case>, Option<Coverage>)> {
    if choice.cases.is_empty() {
        let coverage = cover(if choice.triples { 3 } else { 2 }, choice.seed);
        return Ok((coverage.cases.clone(), Some(coverage)));
    }
    let named = |name: &String| Case::named(name).with_context(|| format!("no case is called {name}"));
    Ok((choice.cases.iter().map(named).collect::<anyhow::Result<_>>()?, None))
}

fn print_coverage(coverage: &Coverage, choice: &MatrixChoice) {
    let what = if choice.triples { "triples" } else { "pairs" };
    println!(
        "{} cases (seed {}) have {} of {} {what} of values that exist.",
        coverage.cases.len(),
        choice.seed,
        coverage.covered,
        coverage.existing
    );
    if choice.coverage {
        coverage.by_factors.iter().for_each(|line| println!("  {line}"));
    }
}

/// Runs all cases, so many at a time; `None` for one that could not be run.
fn run_all(cases: &[Case], setting: &Setting<'_>, jobs: usize) -> Vec<Option<Judged>> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(case) = cases.get(index) else { return };
                    let judged = match run_case(*case, setting) {
                        Ok(observation) => {
                            let findings = judge(&observation);
                            println!("{} {case}", if findings.is_empty() { "ok    " } else { "FAILED" });
                            Some(Judged { observation, findings })
                        }
                        Err(error) => {
                            println!("ERROR  {case}: {error:#}");
                            None
                        }
                    };
                    done.lock().expect("no holder panics").push((index, judged));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no holder panics");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, judged)| judged).collect()
}

/// Prints what is wrong with a case, its config, and where the script is that shows it.
fn print_failure(judged: &Judged, folder: &Path, files: &Path) -> anyhow::Result<()> {
    let Judged { observation, findings } = judged;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let script = folder.join("replay.py");
    std::fs::write(&script, reproduction::script(observation, findings, files)?)?;
    std::fs::write(folder.join("weir.toml"), &observation.config)?;
    std::fs::write(folder.join("weir.log"), &observation.log)?;
    println!("\n== {} ==", observation.case);
    findings.iter().for_each(|finding| println!("{finding}"));
    println!(
        "-- weir.toml\n{}-- again: cargo xtask matrix --case '{}'",
        observation.config, observation.case
    );
    println!("-- without this tool: python3 {} PROGRAM", script.display());
    Ok(())
}

/// Plants every fault into every sound observation that can show it; whether all were found.
fn plant_all(judged: &[Option<Judged>], is_whole: bool) -> bool {
    let sound: Vec<&Observation> =
        judged.iter().flatten().filter(|it| it.findings.is_empty()).map(|it| &it.observation).collect();
    let (mut shown, mut is_sound) = (BTreeSet::new(), true);
    for fault in plant::FAULTS {
        let outcomes: Vec<(bool, Case)> = sound
            .iter()
            .filter_map(|observation| Some((plant::is_found(fault, observation)?, observation.case)))
            .collect();
        let found = outcomes.iter().filter(|(is_found, _)| *is_found).count();
        if !outcomes.is_empty() {
            shown.insert(fault.name);
            println!(
                "planted: {}: found in {found} of {} cases that can show it",
                fault.name,
                outcomes.len()
            );
        }
        for (_, case) in outcomes.iter().filter(|(is_found, _)| !is_found) {
            println!("NOT FOUND in {case}");
            is_sound = false;
        }
    }
    // Cases that fail can show nothing.
    let is_whole = is_whole && sound.len() == judged.len();
    for name in plant::not_shown(&shown).into_iter().filter(|_| is_whole) {
        println!("planted: {name}: NO CASE could show it");
        is_sound = false;
    }
    is_sound
}
