//! What became of each statement: exact, equal by default, approximated, not supported, without meaning here.

use std::fmt;

use crate::source::{Position, SourceFormat};

mod ledger;

pub use ledger::{Ledger, StatementWords};

/// What became of a statement. The order is that of severity: of several outcomes the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ImportOutcome {
    /// It has no meaning for Weir, and nothing is different without it.
    Meaningless,
    /// Weir does it anyway.
    Default,
    /// The config says it in the words of Weir.
    Exact,
    /// The config says nearly the same; the notes say what would tell the difference.
    Approximated,
    /// The config does not say it.
    Unsupported,
}

/// One statement and what became of it.
#[derive(Clone, Debug)]
pub struct ImportFinding {
    /// Where it begins.
    pub at: Position,
    /// The statement on one line.
    pub statement: String,
    /// What became of it.
    pub outcome: ImportOutcome,
    /// Why, what would tell the difference, what to do; sentences without a full stop.
    pub notes: Vec<String>,
}

/// What became of each statement, in the order of the files.
#[derive(Clone, Debug)]
pub struct ImportReport {
    format: SourceFormat,
    findings: Vec<ImportFinding>,
}

impl ImportOutcome {
    /// The worst first, but for what is of little interest.
    pub const ALL: [ImportOutcome; 5] = [
        ImportOutcome::Unsupported,
        ImportOutcome::Approximated,
        ImportOutcome::Exact,
        ImportOutcome::Default,
        ImportOutcome::Meaningless,
    ];

    /// In words.
    pub const fn title(self) -> &'static str {
        match self {
            ImportOutcome::Meaningless => "without meaning here",
            ImportOutcome::Default => "equal by default",
            ImportOutcome::Exact => "exact",
            ImportOutcome::Approximated => "approximated",
            ImportOutcome::Unsupported => "not supported",
        }
    }
}

impl ImportReport {
    /// Each statement.
    pub fn findings(&self) -> &[ImportFinding] {
        &self.findings
    }

    /// How many statements have this outcome.
    pub fn count(&self, outcome: ImportOutcome) -> usize {
        self.findings.iter().filter(|finding| finding.outcome == outcome).count()
    }

    /// The worst outcome; exact for a file without statements.
    pub fn worst(&self) -> ImportOutcome {
        self.findings.iter().map(|finding| finding.outcome).max().unwrap_or(ImportOutcome::Exact)
    }

    /// As JSON: the counts, and each statement.
    pub fn to_json(&self) -> serde_json::Value {
        let findings: Vec<_> = self.findings.iter().map(ImportFinding::to_json).collect();
        let counts: serde_json::Map<_, _> = ImportOutcome::ALL
            .iter()
            .map(|outcome| (outcome.title().to_owned(), self.count(*outcome).into()))
            .collect();
        serde_json::json!({ "product": self.format.product(), "counts": counts, "statements": findings })
    }
}

impl ImportFinding {
    fn to_json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": &*self.at.file, "line": self.at.line, "column": self.at.column,
            "statement": self.statement, "outcome": self.outcome.title(), "notes": self.notes,
        })
    }
}

/// For a person: the counts, then what differs, then what has no meaning; what is exact is not listed.
impl fmt::Display for ImportReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = ImportOutcome::ALL
            .iter()
            .rev()
            .map(|outcome| format!("{} {}", self.count(*outcome), outcome.title()))
            .collect();
        writeln!(f, "{} statements: {}", self.findings.len(), counts.join(", "))?;
        for outcome in ImportOutcome::ALL.into_iter().filter(|outcome| *outcome != ImportOutcome::Exact) {
            let mut findings = self.findings.iter().filter(|finding| finding.outcome == outcome).peekable();
            if findings.peek().is_some() {
                writeln!(f, "\n{}:", outcome.title())?;
            }
            for finding in findings {
                writeln!(f, "  {}  {}", finding.at, finding.statement)?;
                finding.notes.iter().try_for_each(|note| writeln!(f, "      {note}"))?;
            }
        }
        Ok(())
    }
}
