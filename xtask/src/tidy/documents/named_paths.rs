//! Checks that the paths that ARCHITECTURE.md and CONTRIBUTING.md name are there: a map of a tree that has changed misleads.
//!
//! A path is inline code that begins like one from the root. Of one with a pattern (`crates/*/tests`, `docs/{a,b}.md`), the folder before the
//! pattern is checked. Other code that ends like a folder or a source (`exchange/stages/`, `heads/cors.rs`) has to be the end of some path: a map
//! says once where its folders are. Code blocks are not checked: they have commands and what these print.

use pulldown_cmark::{Event, Parser};

use super::links::{line_of, options};
use crate::tidy::finding::Finding;
use crate::tidy::rule::HouseRule;
use crate::tidy::tree::{SourceTree, TextFile};

const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];

/// How paths from the root begin.
const ROOTS: &[&str] = &["crates/", "xtask/", "lab/", "docs/", "fuzz/"];

/// What stands for several names.
const PATTERN: &[char] = &['*', '{', '<'];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let maps = tree.files().iter().filter(|file| MAPS.contains(&file.path.as_str()));
    maps.flat_map(|map| missing(tree, map)).collect()
}

fn missing(tree: &SourceTree, map: &TextFile) -> Vec<Finding> {
    let events = Parser::new_ext(&map.text, options()).into_offset_iter();
    let code = events.filter_map(|(event, range)| match event {
        Event::Code(code) => Some((code, range.start)),
        _ => None,
    });
    let missing = code.filter(|(code, _)| match (is_from_root(code), is_relative(code)) {
        (true, _) => !tree.has(certain(code)),
        (false, true) => !is_an_end(tree, code),
        (false, false) => false,
    });
    missing
        .map(|(path, at)| {
            let message = format!("there is no {path}");
            Finding::new(HouseRule::NamedPath, &map.path, line_of(&map.text, at), &path, message)
        })
        .collect()
}

fn is_from_root(code: &str) -> bool {
    ROOTS.iter().any(|root| code.starts_with(root)) && !code.contains(char::is_whitespace)
}

/// Whether it is a folder or a source below a folder that the text names.
fn is_relative(code: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '.');
    let begins_inside = code.starts_with(|c: char| c.is_ascii_lowercase());
    begins_inside && code.chars().all(plain) && (code.ends_with('/') || code.ends_with(".rs"))
}

/// Whether the path of some file ends so, or goes through such a folder.
fn is_an_end(tree: &SourceTree, code: &str) -> bool {
    let inside = format!("/{code}");
    tree.files().iter().any(|file| match code.ends_with('/') {
        true => file.path.starts_with(code) || file.path.contains(&inside),
        false => file.path == code || file.path.ends_with(&inside),
    })
}

/// The path without a pattern and what follows it, and without the slash at its end.
fn certain(path: &str) -> &str {
    let before = match path.find(PATTERN) {
        Some(at) => path[..at].rsplit_once('/').map_or("", |(folder, _)| folder),
        None => path,
    };
    before.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(map: &str, text: &str) -> Vec<(String, usize)> {
        let files = [(map, text), ("crates/a/src/lib.rs", "//! A.\n"), ("docs/b.md", "")];
        let findings = check(&SourceTree::of(&files));
        findings.into_iter().map(|finding| (finding.item, finding.line)).collect()
    }

    #[test]
    fn paths_that_are_named_are_there() {
        let fine = "`crates/a`, `crates/a/`, `crates/a/src/lib.rs` and `docs/b.md`\n";
        assert_eq!(found("ARCHITECTURE.md", fine), []);
        let gone = "x\n\n| `crates/a/src` | `crates/a/src/gone.rs` |\n";
        assert_eq!(found("ARCHITECTURE.md", gone), [("crates/a/src/gone.rs".to_owned(), 3)]);
        assert_eq!(found("CONTRIBUTING.md", "`lab/x`\n"), [("lab/x".to_owned(), 1)]);
        assert_eq!(found("docs/other.md", gone), [], "guides may name what a user has to make");
    }

    #[test]
    fn a_pattern_is_checked_up_to_its_folder() {
        assert_eq!(found("ARCHITECTURE.md", "`crates/*/src`, `crates/a/src/{x,y}.rs`, `docs/NAME<x>`\n"), []);
        assert_eq!(found("ARCHITECTURE.md", "`crates/b/*.rs`\n"), [("crates/b/*.rs".to_owned(), 1)]);
    }

    #[test]
    fn other_folders_and_sources_are_ends_of_paths() {
        assert_eq!(
            found("ARCHITECTURE.md", "`src/`, `a/src/lib.rs`, `lib.rs`, `docs/`, `mod::name`, `/metrics/`\n"),
            []
        );
        let gone = "`old/`, `rc/lib.rs`, `ib.rs`\n";
        assert_eq!(found("ARCHITECTURE.md", gone).len(), 3);
    }

    #[test]
    fn commands_and_blocks_are_no_paths() {
        assert_eq!(found("ARCHITECTURE.md", "`docs/x and more`, `x/docs/y`\n\n```\ncrates/x\n```\n"), []);
    }
}
