//! Wordings that make a reader translate, each with what to write: those that documents and the reference had, so that they stay away.
//!
//! Checked are the documents in the root and in `docs/`, and the texts of config keys, from which the reference is made. Decisions and the
//! results of the lab are records, and keep the words of their time.

use std::sync::LazyLock;

use regex::Regex;

use crate::tidy::finding::Finding;
use crate::tidy::rule::HouseRule;
use crate::tidy::tree::{SourceTree, TextFile};

/// What is not written, as a regular expression without regard to case, and what is written instead.
const WORDINGS: &[(&str, &str)] = &[
    (r"could be read in two ways", "rejects ambiguous requests (request smuggling)"),
    (r"need not believe", "reproduce every number here with one command"),
    (r"who could have had it|who broke it off", "candidate servers; cause of the failure"),
    (r"a client came to an end with", "answered every completed request"),
    (r"hold(?:s|ing)? nobody up", "time out without delaying other clients"),
    (r"does it belong to a server\?", "session affinity"),
    (r"two judges", "two independent mechanisms"),
    (r"who has waited longer", "on timeout the request is answered 503"),
    (r"speaks against what holds", "interval while the state is changing"),
    (r"who knocks", "rejected admin requests"),
    (r"nothing is kept to know", "connections report their state on demand"),
    (r"what a route wants proved", "authentication"),
    (r"more than relaying happens", "response interception and buffering"),
    (r"what there is not", "not available yet"),
    (r"program has \d+ MB", "the binary is 19 MB"),
    (r"built twice, the same", "reproducible builds"),
    (r"what is believed", "stale and empty answers"),
    (r"the word of another server", "external authorization"),
    (r"each text that this comes to", "key; each distinct value has its own limit"),
    (r"comes to something other than nothing", "any value that is non-empty and not `0`"),
    (r"of all that is beside", "everything except listeners and upstreams"),
    (r"by the reason against", "by reason"),
    (r"they keep none alive", "copies do not delay shutdown"),
    (r"ways of their own", "per-target settings in a split"),
    (r"what was told of an object", "clear our status when an object leaves the class"),
    (r"its end comes when it comes", "of unknown length"),
    (r"\b(?:nobody|somebody|whoever)\b", "the thing or the role that is meant: no client, an operator"),
    (r"\bwho (?:else )?asks\b", "the client, or the request"),
    (r"it is looked whether", "Weir checks whether"),
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |(wording, _): &(&str, &str)| {
        // A wording may be broken over two lines, or over two lines of a comment.
        let wording = wording.replace(' ', r"(?:\s+(?:///\s*)?)");
        Regex::new(&format!("(?i){wording}")).expect("the pattern is constant")
    };
    WORDINGS.iter().map(pattern).collect()
});

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    tree.files().iter().filter(|file| is_checked(&file.path)).flat_map(wordings).collect()
}

fn is_checked(path: &str) -> bool {
    let document = path.ends_with(".md") && (!path.contains('/') || is_guide(path));
    document || (path.starts_with("crates/weir-config/src/") && path.ends_with(".rs"))
}

/// Whether it lies in `docs/` itself.
fn is_guide(path: &str) -> bool {
    path.strip_prefix("docs/").is_some_and(|name| !name.contains('/'))
}

fn wordings(file: &TextFile) -> Vec<Finding> {
    let found = PATTERNS.iter().zip(WORDINGS).flat_map(|(pattern, (_, instead))| {
        pattern.find_iter(&file.text).map(move |found| (found, *instead))
    });
    found
        .map(|(found, instead)| {
            let line = super::links::line_of(&file.text, found.start());
            let wording = found.as_str().split_whitespace().collect::<Vec<_>>().join(" ");
            let message = format!("\"{wording}\" makes a reader translate; instead: {instead}");
            Finding::new(HouseRule::Wording, &file.path, line, &wording, message)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(String, usize)> {
        let findings = check(&SourceTree::of(&[(path, text)]));
        findings.into_iter().map(|finding| (finding.item, finding.line)).collect()
    }

    #[test]
    fn wordings_are_found_in_any_case_and_over_lines() {
        assert_eq!(
            found("docs/a.md", "# A\n\n## What there is not\n"),
            [("What there is not".to_owned(), 3)]
        );
        assert_eq!(found("README.md", "Slow ones hold\nnobody up.\n").len(), 2);
        assert_eq!(found("docs/a.md", "The requests of clients wait.\n"), []);
        let comment = "//! A.\n/// What has a limit: each text that\n    /// this comes to.\nstruct A;\n";
        assert_eq!(found("crates/weir-config/src/text/a.rs", comment).len(), 1);
    }

    #[test]
    fn records_keep_their_words() {
        for path in ["docs/decisions/0001-x.md", "lab/runs/2026/README.md", "crates/weir-proxy/src/a.rs"] {
            assert_eq!(found(path, "//! Nobody.\n"), [], "{path}");
        }
    }
}
