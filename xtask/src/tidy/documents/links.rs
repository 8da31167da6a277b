//! Checks on Markdown: links inside the repository resolve.
//!
//! Links to other hosts are not followed: whether they answer says nothing about a change.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use regex::Regex;

use crate::tidy::finding::Finding;
use crate::tidy::rule::HouseRule;
use crate::tidy::tree::{SourceTree, TextFile};

/// An anchor set by hand, where a heading's own would change too often or not be unique.
static EXPLICIT_ANCHOR: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r#"\b(?:id|name)="([^"]+)""#).expect("the pattern is constant"));

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    super::all(tree).flat_map(|document| links(tree, document)).collect()
}

fn links(tree: &SourceTree, document: &TextFile) -> Vec<Finding> {
    let events = Parser::new_ext(&document.text, options()).into_offset_iter();
    let targets = events.filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some((dest_url, range.start))
        }
        _ => None,
    });
    let broken = targets.filter_map(|(target, at)| Some((broken(tree, document, &target)?, at)));
    broken
        .map(|(why, at)| {
            let line = line_of(&document.text, at);
            Finding::new(HouseRule::Link, &document.path, line, "", why)
        })
        .collect()
}

/// The line, from 1, of a place in a text.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// Why a link does not resolve.
fn broken(tree: &SourceTree, document: &TextFile, target: &str) -> Option<String> {
    let scheme = target.split(['/', '#', '?']).next().is_some_and(|start| start.contains(':'));
    if scheme || target.starts_with("//") {
        return None;
    }
    let (path, fragment) =
        target.split_once('#').map_or((target, None), |(path, fragment)| (path, Some(fragment)));
    let path = if path.is_empty() { document.path.clone() } else { resolve(&document.path, path)? };
    if !tree.has(&path) {
        return Some(format!("{target} leads nowhere: there is no {path}"));
    }
    let fragment = fragment.filter(|_| path.ends_with(".md"))?;
    let there = tree.files().iter().find(|file| file.path == path)?;
    let headings = anchors(&there.text);
    (!headings.contains(fragment))
        .then(|| format!("{target} leads nowhere: {path} has no heading #{fragment}"))
}

/// The path from the root that a relative link means; `None` above the root.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = match link.strip_prefix('/') {
        Some(_) => Vec::new(),
        None => from.split('/').collect(),
    };
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The anchors of a document: those of its headings, made as GitHub does, and those set by hand.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(part) | Event::Code(part) => {
                heading.iter_mut().for_each(|heading| heading.push_str(&part));
            }
            Event::Html(html) | Event::InlineHtml(html) => {
                anchors.extend(EXPLICIT_ANCHOR.captures_iter(&html).map(|id| id[1].to_owned()));
            }
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let repeated = (1..).map(|number| format!("{anchor}-{number}"));
                let free =
                    std::iter::once(anchor.clone()).chain(repeated).find(|name| !anchors.contains(name));
                anchors.extend(free);
            }
            _ => {}
        }
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The extensions of Markdown that GitHub renders and that can contain links.
pub(super) fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(HouseRule, usize)> {
        check(&SourceTree::of(files)).iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    #[test]
    fn links_resolve_from_where_they_stand() {
        let others =
            [("docs/b.md", "# B c\n"), ("docs/d/e.md", "[b](../b.md) [root](/docs/b.md) [a](../../a.md)\n")];
        let with = |text| found(&[&[("a.md", text)], &others[..]].concat());
        assert_eq!(
            with("[b](docs/b.md) [folder](docs/d/) [net](https://example.com/x) [mail](mailto:a@b)\n"),
            []
        );
        assert_eq!(with("x\n\n[b](b.md)\n"), [(HouseRule::Link, 3)]);
        assert_eq!(with("![b](docs/b.png)\n"), [(HouseRule::Link, 1)]);
        assert_eq!(with("[b](../docs/b.md)\n"), [], "above the root is outside of what can be checked");
        assert_eq!(with("`[b](b.md)`\n\n```\n[b](b.md)\n```\n"), [], "code is no link");
        assert_eq!(found(&[("crates/a/src/piece.md", "[b](b.md)\n")]), [], "a piece of another document");
        assert_eq!(with("| a |\n|---|\n| [b](b.md) |\n"), [(HouseRule::Link, 3)]);
    }

    #[test]
    fn fragments_name_headings() {
        let with =
            |text| found(&[("a.md", text), ("b.md", "# What `x-y` is, really\n\n## Twice\n\n## Twice\n")]);
        assert_eq!(with("# Here\n\n[a](#here) [b](b.md#what-x-y-is-really) [c](b.md#twice-1)\n"), []);
        assert_eq!(with("# Here\n\n[a](#there)\n"), [(HouseRule::Link, 3)]);
        assert_eq!(with("[b](b.md#twice-2)\n"), [(HouseRule::Link, 1)]);
    }

    #[test]
    fn fragments_name_anchors_set_by_hand() {
        let with = |text| found(&[("a.md", text)]);
        assert_eq!(
            with("[b](#here)\n\n<a id=\"here\"></a>\n\n### `x` <a name=\"there\"></a>\n\n[c](#there)\n"),
            []
        );
        assert_eq!(with("[b](#here)\n\n<a href=\"here\"></a>\n"), [(HouseRule::Link, 1)]);
    }
}
