//! Many scenarios, one after the other, each saved in a folder of its own, with one page above them all.
//!
//! A scenario that fails is named and does not keep the others from running; what is there already is not run again, so a suite that was
//! interrupted goes on where it stood. Measures nothing itself.

mod index;

use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::report::verdict::verdicts;
use crate::report::{Run, folder, summary};
use crate::run::{self, Options};
use crate::scenario::Scenario;

/// What became of one scenario.
#[derive(Debug)]
enum Outcome {
    /// It was run, now or before.
    Run(Box<Run>),
    /// It could not be run.
    Failed(String),
}

/// One scenario of a suite and what became of it.
#[derive(Debug)]
struct Entry {
    scenario: Scenario,
    outcome: Outcome,
}

/// What a suite came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The page above all reports.
    pub page: PathBuf,
    /// Scenarios that could not be run, and targets that failed.
    pub failures: usize,
    /// Bars that were missed.
    pub missed: usize,
}

/// Runs `scenarios` into folders below `root`; `tell` hears about each as it begins and ends.
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
    let count = scenarios.len();
    let mut entries = Vec::new();
    for (index, scenario) in scenarios.into_iter().enumerate() {
        let name = scenario.name.clone();
        let outcome = match of_before(root, &scenario, options.short) {
            Some(run) => {
                tell(&format!("[{}/{count}] {name}: there already", index + 1));
                Outcome::Run(Box::new(run))
            }
            None => {
                tell(&format!("[{}/{count}] {name}: {}", index + 1, scenario.question));
                run_one(&scenario, options, root)
            }
        };
        anyhow::ensure!(!options.is_interrupted(), "interrupted; the same command goes on with {name}");
        if let Outcome::Failed(why) = &outcome {
            tell(&format!("{name} could not be run: {why}"));
        }
        entries.push(Entry { scenario, outcome });
        // After each, so that there is a page however far it comes.
        index::write(root, &entries, count)?;
    }
    Ok(Summary { page: root.join(index::FILE), failures: failures(&entries), missed: missed(&entries) })
}

/// A run of the same scenario that is there already, unless it was of the other length.
fn of_before(root: &Path, scenario: &Scenario, short: bool) -> Option<Run> {
    let run = folder::load(&root.join(&scenario.name)).ok()?;
    (run.short == short).then_some(run)
}

fn run_one(scenario: &Scenario, options: &Options, root: &Path) -> Outcome {
    let folder = root.join(&scenario.name);
    let saved = run::run(scenario, options).and_then(|run| {
        folder::save_as(&run, &folder).context("cannot save the run")?;
        Ok(run)
    });
    match saved {
        Ok(run) => Outcome::Run(Box::new(run)),
        Err(error) => Outcome::Failed(format!("{error:#}")),
    }
}

fn failures(entries: &[Entry]) -> usize {
    entries
        .iter()
        .map(|entry| match &entry.outcome {
            Outcome::Run(run) => run.failed.len(),
            Outcome::Failed(_) => 1,
        })
        .sum()
}

fn missed(entries: &[Entry]) -> usize {
    let of_entry = |entry: &Entry| match &entry.outcome {
        Outcome::Run(run) => {
            let verdicts = verdicts(run, &summary::rows(run));
            verdicts.iter().filter(|verdict| verdict.is_met == Some(false)).count()
        }
        Outcome::Failed(_) => 0,
    };
    entries.iter().map(of_entry).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::scenario::catalogue;

    fn machine() -> Machine {
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
    fn what_is_there_is_not_run_again() {
        let root = tempfile::tempdir().unwrap();
        let scenario = catalogue::find("l7-keepalive").unwrap();
        assert!(of_before(root.path(), &scenario, true).is_none());
        let run = Run::new(&scenario, machine(), None, true);
        folder::save_as(&run, &root.path().join("l7-keepalive")).unwrap();
        assert_eq!(of_before(root.path(), &scenario, true), Some(run));
        assert!(
            of_before(root.path(), &scenario, false).is_none(),
            "a short run does not stand for a whole one"
        );
    }

    #[test]
    fn the_page_has_every_scenario_with_its_answer() {
        let root = tempfile::tempdir().unwrap();
        let [one, other] = ["l7-keepalive", "l7-short"].map(|name| catalogue::find(name).unwrap());
        let mut run = Run::new(&one, machine(), None, true);
        run.failed.insert("nginx".to_owned(), "it <died>".to_owned());
        let entries = [
            Entry { scenario: one.clone(), outcome: Outcome::Run(Box::new(run)) },
            Entry { scenario: other.clone(), outcome: Outcome::Failed("no CPU".to_owned()) },
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
