//! How much a folder of sources holds: a reader finds the room that they need from a list that they can take in.

use std::collections::{BTreeMap, BTreeSet};

use super::finding::Finding;
use super::rule::HouseRule;
use super::tree::SourceTree;

/// More are several concerns in one folder.
const ENTRIES_MAX: usize = 20;

/// Tables of contents, which do not count.
const CONTENTS: [&str; 3] = ["lib.rs", "main.rs", "mod.rs"];

/// The folders of the crates of the balancer.
pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut folders: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for source in tree.sources().iter().filter(|source| source.path.starts_with("crates/")) {
        let ends = source.path.match_indices('/').map(|(end, _)| end);
        for end in ends {
            let (folder, inside) = (&source.path[..end], &source.path[end + 1..]);
            let entry = inside.split('/').next().unwrap_or(inside);
            if is_of_crate(folder) && !CONTENTS.contains(&entry) {
                folders.entry(folder).or_default().insert(entry);
            }
        }
    }
    let full = folders.iter().filter(|(_, entries)| entries.len() > ENTRIES_MAX);
    full.map(|(folder, entries)| {
        let message = format!("{} entries, {ENTRIES_MAX} are the most: group them", entries.len());
        Finding::new(HouseRule::FolderLength, folder, 0, "", message)
    })
    .collect()
}

/// Whether a folder is in one of `src` or `tests`, or one of these.
fn is_of_crate(folder: &str) -> bool {
    matches!(folder.split('/').nth(2), Some("src" | "tests"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(folder: &str, count: usize) -> Vec<String> {
        let named = |number: usize| format!("crates/a/{folder}/a{number}.rs");
        let mut paths: Vec<String> = (0..count).map(named).collect();
        paths.extend(CONTENTS.map(|name| format!("crates/a/{folder}/{name}")));
        paths.extend(["b", "c"].map(|name| format!("crates/a/{folder}/room/{name}.rs")));
        let files: Vec<(&str, &str)> = paths.iter().map(|path| (&**path, "//! A.\n")).collect();
        check(&SourceTree::of(&files)).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_folder_has_what_can_be_taken_in() {
        let none: [&str; 0] = [];
        assert_eq!(found("src", 19), none, "with a folder they are 20");
        assert_eq!(found("src", 20), ["crates/a/src"]);
        assert_eq!(found("tests/e2e/x", 20), ["crates/a/tests/e2e/x"]);
        assert_eq!(found("benches", 20), none);
    }
}
