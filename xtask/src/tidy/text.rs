//! Checks on any text: white space at line ends, words that mark unfinished work, paths of one machine.

use std::path::Path;
use std::sync::LazyLock;

use regex::Regex;

use super::finding::Finding;
use super::rule::HouseRule;
use super::tree::{SourceTree, TextFile};

/// Made by tools or by others, or bytes that matter as they are: their spaces and words are not ours to change.
const FOREIGN: &[&str] = &["Cargo.lock", "LICENSE-", "fuzz/corpus/", "lab/Cargo.lock", "lab/runs/"];

/// What other programs printed, kept for tests to read.
const FIXTURES: &str = "/fixtures/";

/// Put together here so that this file passes its own check.
static UNFINISHED: LazyLock<Regex> = LazyLock::new(|| {
    let words = [["TO", "DO"], ["FIX", "ME"], ["XX", "X"], ["HA", "CK"]].map(|halves| halves.concat());
    Regex::new(&format!(r"\b(?:{})\b", words.join("|"))).expect("the pattern is constant")
});

/// Homes of users on machines of the usual kinds.
static HOME: LazyLock<Regex> = LazyLock::new(|| {
    let start = r#"(?:^|[\s"'`(=:,])"#;
    let homes = ["/home/", "/Users/"].map(|folder| format!("{folder}[a-z][a-z0-9_.-]*/"));
    Regex::new(&format!("{start}({}|{})", homes.join("|"), "/root/[.a-z]")).expect("the pattern is constant")
});

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    tree.files()
        .iter()
        .filter(|file| !is_foreign(&file.path))
        .flat_map(|file| {
            let mut findings = white_space(file);
            findings.extend(unfinished(file));
            findings
        })
        .collect()
}

fn is_foreign(path: &str) -> bool {
    FOREIGN.iter().any(|prefix| path.starts_with(prefix)) || path.contains(FIXTURES)
}

fn white_space(file: &TextFile) -> Vec<Finding> {
    let found = |line, message| Finding::new(HouseRule::WhiteSpace, &file.path, line, "", message);
    let trailing = |line: &str| line.ends_with([' ', '\t', '\r']);
    let lines = file.text.split('\n').enumerate().filter(|(_, line)| trailing(line));
    let mut findings: Vec<Finding> =
        lines.map(|(at, _)| found(at + 1, "white space at the line's end")).collect();
    if !file.text.is_empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")) {
        findings.push(found(file.text.lines().count(), "the file does not end in exactly one line end"));
    }
    findings
}

fn unfinished(file: &TextFile) -> Vec<Finding> {
    let lines = file.text.lines().enumerate();
    let found = lines.filter_map(|(at, line)| Some((at, UNFINISHED.find(line)?.as_str())));
    found
        .map(|(at, word)| {
            let message = format!("{word}: finish it, or open an issue");
            Finding::new(HouseRule::Unfinished, &file.path, at + 1, word, message)
        })
        .collect()
}

/// The paths that betray this machine: the checkout and the user's home.
pub(super) fn machine_paths(root: &Path) -> Vec<String> {
    let home = std::env::var("HOME").unwrap_or_default();
    let specific = |path: &String| path.matches('/').count() >= 2;
    [root.to_string_lossy().into_owned(), home].into_iter().filter(specific).collect()
}

pub(super) fn check_machine_paths(tree: &SourceTree, machine: &[String]) -> Vec<Finding> {
    let betrayed = |line: &str| {
        let named = machine.iter().find(|path| line.contains(path.as_str())).cloned();
        named.or_else(|| Some(HOME.captures(line)?[1].to_owned()))
    };
    let lines =
        tree.files().iter().flat_map(|file| file.text.lines().enumerate().map(move |line| (file, line)));
    lines
        .filter_map(|(file, (at, line))| {
            let path = betrayed(line)?;
            let message = format!("{path} is a path of one machine");
            Some(Finding::new(HouseRule::MachinePath, &file.path, at + 1, &path, message))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(HouseRule, usize)> {
        check(&SourceTree::of(&[(path, text)])).iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn white_space_at_the_end() {
        assert_eq!(found("a.md", "a\n  b\n"), []);
        assert_eq!(found("a.md", ""), []);
        assert_eq!(found("a.md", "a \nb\n\tc\t\n"), [(HouseRule::WhiteSpace, 1), (HouseRule::WhiteSpace, 3)]);
        assert_eq!(found("a.md", "a\r\nb\n"), [(HouseRule::WhiteSpace, 1)]);
        assert_eq!(found("a.md", "a\nb"), [(HouseRule::WhiteSpace, 2)]);
        assert_eq!(found("a.md", "a\n\n"), [(HouseRule::WhiteSpace, 2)]);
    }

    #[test]
    fn words_that_mark_unfinished_work() {
        let word = |halves: [&str; 2]| halves.concat();
        assert_eq!(
            found("a.rs", &format!("fn a() {{}} // {}: b\n", word(["TO", "DO"]))),
            [(HouseRule::Unfinished, 1)]
        );
        assert_eq!(found("a.sh", &format!("\n# {}\n", word(["XX", "X"]))), [(HouseRule::Unfinished, 2)]);
        assert_eq!(found("a.sh", "mktemp weir.XXXXXX # todos\n"), []);
    }

    #[test]
    fn what_others_made_is_left_alone() {
        assert_eq!(found("Cargo.lock", "a \n"), []);
        assert_eq!(found("lab/runs/1/raw.txt", "a "), []);
        assert_eq!(found("crates/a/src/fixtures/ab.txt", "a \n"), []);
        assert_eq!(found("lab/scenarios/a.toml", "a \n"), [(HouseRule::WhiteSpace, 1)]);
    }

    #[test]
    fn paths_of_one_machine() {
        let machine = ["/build/weir".to_owned()];
        let home = |user: &str| format!("{}{user}", ["/ho", "me/"].concat());
        let cases = [
            ("see /build/weir/target\n".to_owned(), 1),
            (format!("\"{}\"\n", home("ada/.cargo")), 1),
            (format!("GET {} HTTP/1.1\n", home("")), 0),
            (format!("https://example.com{}\n", home("ada/x")), 0),
            ("/etc/weir/weir.toml and /usr/share\n".to_owned(), 0),
        ];
        for (text, expected) in cases {
            let tree = SourceTree::of(&[("a.md", &text)]);
            assert_eq!(check_machine_paths(&tree, &machine).len(), expected, "{text}");
        }
    }

    #[test]
    fn short_roots_betray_nothing() {
        assert!(!machine_paths(Path::new("/src")).contains(&"/src".to_owned()));
        assert!(machine_paths(Path::new("/src/weir")).contains(&"/src/weir".to_owned()));
    }
}
