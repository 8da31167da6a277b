//! Many scenarios, one after the other, each saved in a folder of its own, with one page above them all.
//!
//! A scenario that fails is named and does not keep the others from running; what is there already is not run again, so a suite that was
//! interrupted is resumed. Measures nothing itself.

mod command;
mod index;
mod headline;
mod costs;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;

use crate::clock;
use crate::report::verdict::{BarVerdict, verdicts};
use crate::report::{folder, summary};
use crate::results::run::Run;
use crate::run::{self, Options};
use crate::scenario::{RunLength, Scenario};
use crate::target::search::{self, Catalogue};

pub(crate) use command::SuiteArgs;

/// The outcome of one scenario.
#[derive(Debug)]
enum SuiteOutcome {
    /// It was run, now or before. Judged once, for the intervals of its ratios take their time.
    Run(Box<Run>, Vec<BarVerdict>),
    /// It could not be run.
    Failed(String),
}

/// One scenario of a suite and its outcome.
#[derive(Debug)]
struct SuiteEntry {
    scenario: Scenario,
    outcome: SuiteOutcome,
}

/// The outcome of a suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The page above all reports.
    pub page: PathBuf,
    /// Scenarios that could not be run, and targets that failed.
    pub failures: usize,
    /// Bars that were missed.
    pub missed: usize,
}

/// Runs `scenarios` into folders below `root`; `tell` is called when each begins and ends.
///
/// # Errors
/// When nothing can be written, or it was interrupted.
pub fn run(
    scenarios: Vec<Scenario>,
    options: &Options,
    root: &Path,
    tell: &dyn Fn(&str),
) -> anyhow::Result<Summary> {
    std::fs::create_dir_all(root).with_context(|| format!("cannot create {}", root.display()))?;
    let products = search::find_products(&options.programs)?;
    let before: Vec<Option<Run>> =
        scenarios.iter().map(|scenario| of_before(root, scenario, options.length)).collect();
    let mut left: Vec<Duration> = scenarios
        .iter()
        .zip(&before)
        .filter(|(_, before)| before.is_none())
        .map(|(scenario, _)| expected(scenario, options, &products))
        .collect();
    let (count, mut pace) = (scenarios.len(), SuitePace::default());
    tell(&format!(
        "{count} scenarios, of which {} are to be run: about {}",
        left.len(),
        duration_text(&left, pace.ratio())
    ));
    let mut entries = Vec::new();
    for (index, (scenario, before)) in scenarios.into_iter().zip(before).enumerate() {
        let name = scenario.name.clone();
        let place = format!("[{}/{count}] {name}", index + 1);
        let outcome = match before {
            Some(run) => {
                tell(&format!("{place}: there already"));
                judged(run)
            }
            None => {
                let time = duration_text(&left[..1], pace.ratio());
                tell(&format!(
                    "{place}: {} (about {time}, all that is left {})",
                    scenario.question,
                    duration_text(&left, pace.ratio())
                ));
                let (start, expected) = (clock::now(), left.remove(0));
                let outcome = run_one(&scenario, options, root);
                // A lack of the machine would affect the other scenarios as well; a scenario that failed at once says nothing.
                if matches!(outcome, SuiteOutcome::Run(..)) {
                    pace.spent += start.elapsed();
                    pace.thought += expected;
                }
                outcome
            }
        };
        anyhow::ensure!(!options.is_interrupted(), "interrupted; the same command resumes with {name}");
        if let SuiteOutcome::Failed(why) = &outcome {
            tell(&format!("{name} could not be run: {why}"));
        }
        entries.push(SuiteEntry { scenario, outcome });
        // After each, so that there is a page however far it comes.
        index::write(root, &entries, count)?;
    }
    Ok(Summary { page: root.join(index::FILE), failures: failures(&entries), missed: missed(&entries) })
}

/// The time that this machine has needed so far, and the estimate for it.
#[derive(Debug, Clone, Copy, Default)]
struct SuitePace {
    spent: Duration,
    thought: Duration,
}

impl SuitePace {
    /// How many times as long as was thought; 1 as long as nothing is known.
    fn ratio(self) -> f64 {
        if self.thought.is_zero() { 1.0 } else { self.spent.as_secs_f64() / self.thought.as_secs_f64() }
    }
}

/// How long `scenario` takes with these options, on the products that are there.
fn expected(scenario: &Scenario, options: &Options, products: &Catalogue) -> Duration {
    let mut scenario = scenario.clone();
    let _said_by_the_run = run::fit(&mut scenario);
    let mut scenario = options.length.of(&scenario);
    scenario.rounds.count = options.rounds.unwrap_or(scenario.rounds.count);
    let targets: Vec<_> = match &options.targets {
        Some(targets) => targets.clone(),
        None => scenario.targets.iter().chain(&scenario.optional).copied().collect(),
    };
    let is_there = |product: crate::topology::product::Product| {
        !product.is_program() || products.contains_key(product.name())
    };
    scenario.expected(targets.iter().filter(|target| is_there(target.product)).count())
}

/// The sum of times, in minutes, on a machine that needs `pace` times as long as was thought.
fn duration_text(times: &[Duration], pace: f64) -> String {
    let seconds = times.iter().sum::<Duration>().as_secs_f64() * pace;
    if seconds < 90.0 {
        format!("{:.0} s", seconds.max(1.0))
    } else {
        format!("{:.0} min", (seconds / 60.0).ceil())
    }
}

/// A run of the same scenario that is there already, unless it was of the other length.
fn of_before(root: &Path, scenario: &Scenario, length: RunLength) -> Option<Run> {
    let run = folder::load(&root.join(&scenario.name)).ok()?;
    (run.short == (length == RunLength::Trial) && run.brief == (length == RunLength::Brief)).then_some(run)
}

fn run_one(scenario: &Scenario, options: &Options, root: &Path) -> SuiteOutcome {
    let folder = root.join(&scenario.name);
    let saved = run::run(scenario, options).and_then(|run| {
        folder::save_as(&run, &folder).context("cannot save the run")?;
        Ok(run)
    });
    match saved {
        Ok(run) => judged(run),
        Err(error) => SuiteOutcome::Failed(format!("{error:#}")),
    }
}

fn judged(run: Run) -> SuiteOutcome {
    let verdicts = verdicts(&run, &summary::rows(&run));
    SuiteOutcome::Run(Box::new(run), verdicts)
}

fn failures(entries: &[SuiteEntry]) -> usize {
    entries
        .iter()
        .map(|entry| match &entry.outcome {
            SuiteOutcome::Run(run, _) => run.failed.len(),
            SuiteOutcome::Failed(_) => 1,
        })
        .sum()
}

fn missed(entries: &[SuiteEntry]) -> usize {
    let of_entry = |entry: &SuiteEntry| match &entry.outcome {
        SuiteOutcome::Run(_, verdicts) => {
            verdicts.iter().filter(|verdict| verdict.is_met == Some(false)).count()
        }
        SuiteOutcome::Failed(_) => 0,
    };
    entries.iter().map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::scenario::catalogue;

    pub(super) fn machine() -> Machine {
        Machine {
            cpu: "Test CPU".to_owned(),
            cpus: 2,
            memory: 8 << 30,
            kernel: "6.1.0".to_owned(),
            is_virtual: true,
            descriptors: 1024,
            settings: Vec::new(),
            load: 0.5,
        }
    }

    #[test]
    fn existing_runs_are_not_repeated() {
        let root = tempfile::tempdir().unwrap();
        let scenario = catalogue::find("l7-keepalive").unwrap();
        assert!(of_before(root.path(), &scenario, RunLength::Trial).is_none());
        let run = Run::new(&scenario, machine(), None, RunLength::Trial);
        folder::save_as(&run, &root.path().join("l7-keepalive")).unwrap();
        assert_eq!(of_before(root.path(), &scenario, RunLength::Trial), Some(run));
        assert!(
            of_before(root.path(), &scenario, RunLength::Brief).is_none(),
            "a trial does not count as a brief run"
        );
    }

    #[test]
    fn the_short_suite_of_the_reports_ends_in_time() {
        let targets = |scenario: &Scenario| scenario.targets.len() + scenario.optional.len();
        let seconds = |scenario: &Scenario| scenario.brief().expected(targets(scenario)).as_secs_f64();
        let scenarios = catalogue::REPORTS.iter().map(|name| catalogue::find(name).unwrap());
        let sum: f64 = scenarios.map(|scenario| seconds(&scenario)).sum();
        assert!(sum < 40.0 * 60.0, "{:.1} minutes with every product", sum / 60.0);
        assert_eq!(
            [
                duration_text(&[Duration::from_secs(30); 2], 1.0),
                duration_text(&[Duration::from_secs(100)], 1.3)
            ],
            ["60 s", "3 min"]
        );
    }

    #[test]
    fn the_page_has_every_scenario_with_its_answer() {
        let root = tempfile::tempdir().unwrap();
        let [one, other] = ["l7-keepalive", "l7-short"].map(|name| catalogue::find(name).unwrap());
        let mut run = Run::new(&one, machine(), None, RunLength::Trial);
        run.failed.insert("nginx".to_owned(), "it <died>".to_owned());
        let entries = [
            SuiteEntry { scenario: one.clone(), outcome: judged(run) },
            SuiteEntry { scenario: other.clone(), outcome: SuiteOutcome::Failed("no CPU".to_owned()) },
        ];
        index::write(root.path(), &entries, 3).unwrap();
        let page = std::fs::read_to_string(root.path().join(index::FILE)).unwrap();
        for part in [
            &*one.question,
            &*other.question,
            "l7-keepalive/report.html",
            "no CPU",
            "it &lt;died&gt;",
            "1 of 3",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert_eq!((failures(&entries), missed(&entries)), (2, 0));
    }
}
