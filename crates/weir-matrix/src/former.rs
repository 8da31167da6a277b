//! Former faults of the program, which patches restore in a copy of its sources (`faults/`), each behind a switch in the environment: the cases that
//! are to find each of them run on that program with it, and without any.
//!
//! The head of a patch says what to look for; everything behind it is for `git apply`.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail, ensure};

use crate::array::{Case, CaseFilter};
use crate::oracle::{OracleFinding, judge};
use crate::run::{Setting, run as run_case};

/// Cases that are tried for one filter: the first ones that match it.
const TRIED_MAX: usize = 6;

/// One fault, by the head of its patch.
#[derive(Debug, Default)]
struct FormerFault {
    what: String,
    /// What turns it on.
    switch: String,
    /// Each of them has to have a case that finds it.
    filters: Vec<CaseFilter>,
    /// What the oracle may call it.
    found_as: Vec<String>,
}

/// Tries all faults of the patches in `folder`; whether each was found, and every case that finds one passes without it.
///
/// # Errors
/// A patch cannot be read, has no head, or no case matches what it says.
pub(crate) fn run(folder: &Path, cases: &[Case], setting: &Setting<'_>, jobs: usize) -> anyhow::Result<bool> {
    let faults = read_all(folder)?;
    let mut searches = Vec::new();
    for fault in &faults {
        for filter in &fault.filters {
            let matching: Vec<Case> =
                cases.iter().filter(|case| filter.matches(case)).take(TRIED_MAX).copied().collect();
            ensure!(!matching.is_empty(), "{}: no case of the matrix is {filter}", fault.switch);
            searches.push((fault, filter, matching));
        }
    }
    let (next, lines) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                while let Some((fault, filter, matching)) = searches.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let outcome = search(fault, matching, setting);
                    match &outcome {
                        Ok(found) => println!("found: {}\n    by {found}", fault.what),
                        Err(why) => {
                            println!("NOT FOUND: {} ({}; {filter})\n{why:#}", fault.what, fault.switch);
                        }
                    }
                    lines.lock().expect("no holder panics").push(outcome.is_ok());
                }
            });
        }
    });
    let found = lines.into_inner().expect("no holder panics");
    let count = found.iter().filter(|it| **it).count();
    println!("{} former faults: {count} of {} searches found theirs.", faults.len(), found.len());
    Ok(count == searches.len())
}

/// The case that finds the fault, and how.
fn search(fault: &FormerFault, cases: &[Case], setting: &Setting<'_>) -> anyhow::Result<String> {
    let mut seen = String::new();
    for case in cases {
        let findings = judged(*case, &Setting { fault: Some(&fault.switch), ..setting.clone() })?;
        let is_it = |finding: &&OracleFinding| fault.found_as.contains(&format!("{:?}", finding.broken));
        if let Some(finding) = findings.iter().find(is_it) {
            let others = judged(*case, setting)?;
            ensure!(others.is_empty(), "{case} fails without the fault, too: {}", others[0]);
            return Ok(format!("{case}: {finding}"));
        }
        seen += &format!("       {case}: {findings:?}\n");
    }
    bail!("{seen}")
}

fn judged(case: Case, setting: &Setting<'_>) -> anyhow::Result<Vec<OracleFinding>> {
    Ok(judge(&run_case(case, setting).with_context(|| format!("{case} cannot be run"))?))
}

fn read_all(folder: &Path) -> anyhow::Result<Vec<FormerFault>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        paths.push(entry?.path());
    }
    paths.sort();
    let mut faults = Vec::new();
    for path in paths.iter().filter(|path| path.extension().is_some_and(|it| it == "patch")) {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let read = read_head(&text).with_context(|| format!("the head of {}", path.display()))?;
        for fault in &read {
            ensure!(
                text.contains(&format!("\"{}\"", fault.switch)),
                "{}: no line has the switch {:?}",
                path.display(),
                fault.switch
            );
        }
        faults.extend(read);
    }
    ensure!(!faults.is_empty(), "no patch in {} has a fault", folder.display());
    Ok(faults)
}

/// The faults of a patch: lines `Fault: WHAT`, each with `Switch:`, `Found-as:` and one or several `Cases:` behind it.
fn read_head(text: &str) -> anyhow::Result<Vec<FormerFault>> {
    let mut faults: Vec<FormerFault> = Vec::new();
    let head = text.lines().take_while(|line| !line.starts_with("diff --git "));
    for (key, rest) in head.filter_map(|line| line.split_once(": ")) {
        match (key, faults.last_mut()) {
            ("Fault", _) => faults.push(FormerFault { what: rest.to_owned(), ..FormerFault::default() }),
            ("Switch", Some(fault)) => rest.clone_into(&mut fault.switch),
            ("Found-as", Some(fault)) => fault.found_as = rest.split(' ').map(str::to_owned).collect(),
            ("Cases", Some(fault)) => fault.filters.push(rest.parse()?),
            // Words for the reader.
            _ => {}
        }
    }
    for fault in &faults {
        let is_whole = !fault.filters.is_empty() && !fault.found_as.is_empty() && !fault.switch.is_empty();
        ensure!(is_whole, "`{}` has no `Switch:`, no `Cases:` or no `Found-as:`", fault.what);
    }
    Ok(faults)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::cover;

    #[test]
    fn every_fault_has_cases_among_all_pairs() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults");
        let cases = cover(2, 1).cases;
        for fault in read_all(&folder).unwrap() {
            for filter in &fault.filters {
                assert!(cases.iter().any(|case| filter.matches(case)), "{}: {filter}", fault.switch);
            }
        }
    }

    #[test]
    fn heads_that_say_too_little_are_errors() {
        let [switch, found, cases] = ["Switch: a", "Found-as: Wire Body", "Cases: +cache -basic"];
        let head = |lines: &[&str]| read_head(&format!("Fault: x\n{}\n", lines.join("\n")));
        assert!(
            head(&[switch, found]).is_err()
                && head(&[switch, cases]).is_err()
                && head(&[found, cases]).is_err()
        );
        assert!(head(&[switch, found, cases, "Cases: x=y"]).is_err());
        assert_eq!(head(&[switch, found, cases]).unwrap()[0].found_as, ["Wire", "Body"]);
        assert!(read_head("A program of its own.\n\ndiff --git a/x b/x\n+Fault: no").unwrap().is_empty());
    }
}
