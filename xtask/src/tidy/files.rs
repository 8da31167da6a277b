//! Checks on a source file as a whole: how it opens, how it is called, how long it is.

use super::finding::Finding;
use super::rule::HouseRule;
use super::test_code::lines_of_tests;
use super::tree::{RustFile, SourceTree};
use super::words::is_empty_word;

/// More is several concerns in one file.
const LINES_MAX: usize = 800;
/// Most files stay below.
const LINES_USUAL: usize = 500;

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let checks = [opening, name, length];
    tree.sources().iter().flat_map(|source| checks.iter().filter_map(|check| check(source))).collect()
}

fn opening(source: &RustFile) -> Option<Finding> {
    let opens = source.text.starts_with("//! ");
    (!opens).then(|| {
        let message = "the file does not open with `//!`: what it is, where it stands, what it must not do";
        Finding::new(HouseRule::Opening, &source.path, 1, "", message)
    })
}

fn name(source: &RustFile) -> Option<Finding> {
    let path = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let word = path.split(['/', '_', '-']).find(|word| is_empty_word(word))?;
    Some(Finding::new(
        HouseRule::Name,
        &source.path,
        0,
        word,
        format!("`{word}` says nothing: name what is inside"),
    ))
}

fn length(source: &RustFile) -> Option<Finding> {
    if source.test {
        return None;
    }
    let lines = source.text.lines().count() - source.syntax.as_ref().map_or(0, lines_of_tests);
    let (rule, bound) = if lines > LINES_MAX {
        (HouseRule::FileLength, format!("{LINES_MAX} are the most"))
    } else if lines > LINES_USUAL {
        (HouseRule::FileLengthSoft, format!("{LINES_USUAL} are usual"))
    } else {
        return None;
    };
    Some(Finding::new(rule, &source.path, 0, "", format!("{lines} lines without tests, {bound}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<HouseRule> {
        check(&SourceTree::of(&[(path, text)])).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn every_source_says_what_it_is() {
        assert_eq!(found("a.rs", "//! A.\nfn a() {}\n"), []);
        assert_eq!(found("a.rs", "fn a() {}\n"), [HouseRule::Opening]);
        assert_eq!(found("a.rs", "\n//! A.\n"), [HouseRule::Opening]);
        assert_eq!(found("a.rs", "// A.\n"), [HouseRule::Opening]);
        assert_eq!(found("a.py", "pass\n"), []);
    }

    #[test]
    fn names_that_say_nothing() {
        for path in
            ["a/src/util.rs", "a/helpers/x.rs", "a/src/request_context.rs", "crates/weir-core/src/lib.rs"]
        {
            assert_eq!(found(path, "//! A.\n"), [HouseRule::Name], "{path}");
        }
        for path in ["a/src/score.rs", "a/src/utility_pole.rs", "a/src/cores.rs"] {
            assert_eq!(found(path, "//! A.\n"), [], "{path}");
        }
    }

    #[test]
    fn length_counts_without_tests() {
        let code = |lines: usize| format!("//! A.\n{}", "const _: () = ();\n".repeat(lines - 1));
        let tests = |lines: usize| {
            format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "const _: () = ();\n".repeat(lines - 3))
        };
        assert_eq!(found("a.rs", &code(500)), []);
        assert_eq!(found("a.rs", &code(501)), [HouseRule::FileLengthSoft]);
        assert_eq!(found("a.rs", &code(800)), [HouseRule::FileLengthSoft]);
        assert_eq!(found("a.rs", &code(801)), [HouseRule::FileLength]);
        assert_eq!(found("a.rs", &(code(500) + &tests(900))), []);
        assert_eq!(found("a.rs", &(code(501) + &tests(900))), [HouseRule::FileLengthSoft]);
        assert_eq!(found("a/tests.rs", &code(2_000)), []);
    }
}
