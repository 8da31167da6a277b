//! What was counted before: a committed file, and the verdict on a new count.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// Growth in percent that passes: repeated counts differ by far less, a real regression seldom does.
const GROWTH_PERCENT_MAX: u64 = 5;

const HEADING: &str = "\
# Instructions of user code per exchange, counted under valgrind by `cargo xtask instructions --record`.
# `cargo xtask ci` fails when a count grows by more than 5 %.

";

/// Instructions per exchange by program, and the compiler that made the code.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    compiler: String,
    instructions: BTreeMap<String, u64>,
}

/// A new count beside the old one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CountChange {
    Unrecorded,
    Kept,
    /// By more than what passes.
    Grown {
        percent: u64,
    },
    /// By so much that the baseline would hide a later regression.
    Shrunk {
        percent: u64,
    },
}

impl Baseline {
    pub(super) fn new(compiler: String, instructions: BTreeMap<String, u64>) -> Self {
        Self { compiler, instructions }
    }

    pub(super) fn read(workspace: &Workspace) -> anyhow::Result<Self> {
        let file = file(workspace);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is no baseline", file.display()))
    }

    pub(super) fn write(&self, workspace: &Workspace) -> anyhow::Result<()> {
        let file = file(workspace);
        fs::create_dir_all(file.parent().expect("the file is in a folder"))?;
        let text = format!("{HEADING}{}", toml::to_string(self)?);
        fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
        println!("{} programs recorded in {}", self.instructions.len(), file.display());
        Ok(())
    }

    pub(super) fn compiler(&self) -> &str {
        &self.compiler
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.instructions.keys().map(String::as_str)
    }

    pub(super) fn count(&self, name: &str) -> Option<u64> {
        self.instructions.get(name).copied()
    }

    /// Whether this count is within the baseline.
    pub(super) fn allows(&self, name: &str, now: u64) -> bool {
        !matches!(self.verdict(name, now), CountChange::Grown { .. } | CountChange::Unrecorded)
    }

    pub(super) fn verdict(&self, name: &str, now: u64) -> CountChange {
        let Some(before) = self.count(name) else { return CountChange::Unrecorded };
        let difference_percent = now.abs_diff(before) * 100;
        let percent = difference_percent.div_ceil(before.max(1));
        match difference_percent > GROWTH_PERCENT_MAX * before {
            false => CountChange::Kept,
            true if now > before => CountChange::Grown { percent },
            true => CountChange::Shrunk { percent },
        }
    }
}

fn file(workspace: &Workspace) -> PathBuf {
    workspace.root().join("lab").join("baselines").join("instructions.toml")
}

impl fmt::Display for CountChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrecorded => write!(f, "not recorded yet"),
            Self::Kept => write!(f, "ok"),
            Self::Grown { percent } => write!(f, "GROWN by {percent} %, {GROWTH_PERCENT_MAX} % pass"),
            Self::Shrunk { percent } => write!(f, "ok, and {percent} % less: worth recording"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        Baseline::new(
            "rustc 1".to_owned(),
            BTreeMap::from([("head".to_owned(), 1_000), ("tiny".to_owned(), 3)]),
        )
    }

    #[test]
    fn five_percent_pass_and_not_one_instruction_more() {
        let cases = [
            (1_000, CountChange::Kept),
            (1_050, CountChange::Kept),
            (1_051, CountChange::Grown { percent: 6 }),
            (950, CountChange::Kept),
            (949, CountChange::Shrunk { percent: 6 }),
            (0, CountChange::Shrunk { percent: 100 }),
        ];
        for (now, expected) in cases {
            assert_eq!(baseline().verdict("head", now), expected, "{now}");
        }
        assert_eq!(baseline().verdict("tiny", 4), CountChange::Grown { percent: 34 });
        assert_eq!(baseline().verdict("body", 1), CountChange::Unrecorded);
    }

    #[test]
    fn a_baseline_survives_being_written() {
        let text = format!("{HEADING}{}", toml::to_string(&baseline()).unwrap());
        let read: Baseline = toml::from_str(&text).unwrap();
        assert_eq!(read.compiler(), "rustc 1");
        assert_eq!(read.names().collect::<Vec<_>>(), ["head", "tiny"]);
        assert_eq!(read.count("head"), Some(1_000));
    }
}
