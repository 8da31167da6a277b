//! Checks on `docs/decisions`: each record has a heading and a date, and the index lists each exactly once.
//!
//! A row of the index is `| 17 | [title](0017-retries.md) | in short |`, in the table of an area. Records that another one replaces are
//! in the table below "Replaced", and no others. Lists outside of tables, such as what to read first, are not the index.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::tidy::finding::Finding;
use crate::tidy::rule::HouseRule;
use crate::tidy::tree::{SourceTree, TextFile};

const FOLDER: &str = "docs/decisions/";
const INDEX: &str = "docs/decisions/README.md";
const REPLACED: &str = "## Replaced";

static DATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\b20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])\b").expect("the pattern is constant")
});

static ROW: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\| (\d+) \| \[.+\]\(([^)/]+\.md)\) \|").expect("the pattern is constant"));

/// The line of a record that another one replaces as a whole.
static SUCCESSOR: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^(?:Superseded by|Merged into) \[decision \d+\]").expect("the pattern is constant")
});

/// A row of the index.
struct IndexRow {
    line: usize,
    number: String,
    below_replaced: bool,
}

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let records: Vec<&TextFile> =
        super::all(tree).filter(|file| file.path.starts_with(FOLDER) && file.path != INDEX).collect();
    let mut findings: Vec<Finding> = records.iter().flat_map(|record| form(record)).collect();
    findings.extend(numbers(&records));
    if let Some(index) = tree.files().iter().find(|file| file.path == INDEX) {
        findings.extend(listed(&records, index));
    }
    findings
}

fn form(record: &TextFile) -> Vec<Finding> {
    let found = |message| Finding::new(HouseRule::Decision, &record.path, 1, "", message);
    let mut findings = Vec::new();
    if !record.text.starts_with("# ") {
        findings.push(found("a decision opens with a heading: what was decided"));
    }
    if !record.text.lines().take(10).any(|line| DATE.is_match(line)) {
        findings.push(found("a decision has its date (year-month-day) in its first ten lines"));
    }
    findings
}

/// The name of a record within its folder, and its number as text.
fn name_and_number(record: &TextFile) -> (&str, &str) {
    let name = &record.path[FOLDER.len()..];
    let digits = name.split('-').next().unwrap_or_default();
    (name, digits.trim_start_matches('0'))
}

/// Two decisions with one number could not be told apart where they are cited.
fn numbers(records: &[&TextFile]) -> Vec<Finding> {
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    let mut findings = Vec::new();
    for record in records {
        let (name, number) = name_and_number(record);
        if let Some(other) = first.insert(number, name) {
            let message = format!("decision {number} is {other} as well: take the next free number");
            findings.push(Finding::new(HouseRule::Decision, &record.path, 1, "", message));
        }
    }
    findings
}

fn rows(index: &TextFile) -> BTreeMap<String, Vec<IndexRow>> {
    let mut rows: BTreeMap<String, Vec<IndexRow>> = BTreeMap::new();
    let mut below_replaced = false;
    for (at, line) in index.text.lines().enumerate() {
        if line.starts_with("## ") {
            below_replaced = line == REPLACED;
        }
        if let Some(row) = ROW.captures(line) {
            let number = row[1].to_owned();
            let row_of_index = IndexRow { line: at + 1, number, below_replaced };
            rows.entry(row[2].to_owned()).or_default().push(row_of_index);
        }
    }
    rows
}

fn listed(records: &[&TextFile], index: &TextFile) -> Vec<Finding> {
    let rows = rows(index);
    let found = |line, message: String| Finding::new(HouseRule::Decision, INDEX, line, "", message);
    let mut findings = Vec::new();
    for record in records {
        let (name, number) = name_and_number(record);
        let Some(of_record) = rows.get(name) else {
            findings.push(found(0, format!("{name} has no row: add one to the table of its area")));
            continue;
        };
        findings.extend(of_record[1..].iter().map(|row| found(row.line, format!("{name} has two rows"))));
        let row = &of_record[0];
        if row.number != number {
            findings.push(found(row.line, format!("the number of {name} is {number}, not {}", row.number)));
        }
        match (SUCCESSOR.is_match(&record.text), row.below_replaced) {
            (true, false) => {
                findings
                    .push(found(row.line, format!("{name} is replaced: its row belongs below {REPLACED}")));
            }
            (false, true) => {
                let message = format!("{name} does not say in a line of its own which decision replaces it");
                findings.push(found(row.line, message));
            }
            _ => {}
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: (&str, &str) = ("docs/decisions/0001-x.md", "# 1. X\n\n2025-03-04\n");
    const TWO: (&str, &str) =
        ("docs/decisions/0002-y.md", "# 2. Y\n\n2025-03-04\n\nMerged into [decision 1](0001-x.md).\n");
    const ROW_ONE: &str = "| 1 | [X](0001-x.md) | x |\n";
    const ROW_TWO: &str = "| 2 | [Y](0002-y.md) | merged into 1 |\n";

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&SourceTree::of(files)).into_iter().map(|finding| (finding.message, finding.line)).collect()
    }

    fn indexed(index: &str) -> Vec<(String, usize)> {
        found(&[ONE, TWO, (INDEX, index)])
    }

    #[test]
    fn records_have_heading_and_date() {
        let with = |text| found(&[("docs/decisions/0001-x.md", text)]).len();
        assert_eq!(with("# One worker per core\n\n2025-03-04, measured.\n"), 0);
        assert_eq!(with("# One worker per core\n"), 1);
        assert_eq!(with("2025-03-04\n"), 1);
        assert_eq!(with("# One worker per core\n\n2025-13-04\n"), 1);
        assert_eq!(found(&[(INDEX, "All of them.\n"), ("docs/x.md", "")]), []);
    }

    #[test]
    fn each_is_listed_once() {
        let first = "- 1: [X](0001-x.md): read this first\n";
        let whole = format!("{first}\n## Area\n\n{ROW_ONE}\n{REPLACED}\n\n{ROW_TWO}");
        assert_eq!(indexed(&whole), []);
        let twice = whole.replace(ROW_ONE, &ROW_ONE.repeat(2));
        assert_eq!(indexed(&twice), [("0001-x.md has two rows".to_owned(), 6)]);
        let without = whole.replace(ROW_ONE, "");
        assert_eq!(indexed(&without)[0].0, "0001-x.md has no row: add one to the table of its area");
        let misnumbered = whole.replace("| 1 |", "| 7 |");
        assert_eq!(indexed(&misnumbered), [("the number of 0001-x.md is 1, not 7".to_owned(), 5)]);
    }

    #[test]
    fn those_that_are_replaced_are_apart() {
        let mixed = indexed(&format!("## Area\n\n{ROW_ONE}{ROW_TWO}"));
        assert_eq!(mixed, [("0002-y.md is replaced: its row belongs below ## Replaced".to_owned(), 4)]);
        let unsaid = indexed(&format!("{REPLACED}\n\n{ROW_ONE}{ROW_TWO}"));
        assert_eq!(
            unsaid,
            [("0001-x.md does not say in a line of its own which decision replaces it".to_owned(), 3)]
        );
        let after = indexed(&format!("{REPLACED}\n\n{ROW_TWO}\n## Area\n\n{ROW_ONE}"));
        assert_eq!(after, [], "another heading ends the section");
    }

    #[test]
    fn a_number_is_for_one_decision() {
        let same = ("docs/decisions/0001-z.md", ONE.1);
        assert_eq!(
            found(&[ONE, same]),
            [("decision 1 is 0001-x.md as well: take the next free number".to_owned(), 1)]
        );
    }
}
