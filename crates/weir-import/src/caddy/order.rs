//! The order in which Caddy carries out directives, whatever their order in the file (`httpcaddyfile/directives.go`).

use std::cmp::Ordering;

use super::matchers::MatcherTable;
use crate::source::Statement;

/// First to last.
const ORDER: [&str; 38] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "php_server",
    "file_server",
    "acme_server",
];

/// The directives of a block in Caddy's order: those of one name by how long the one path is that they are for, and those without a matcher behind
/// those with one. Nothing is said of a path beside another matcher, so that it depends on how one sorts: as Caddy does.
pub(super) fn sorted<'s>(block: &'s [Statement], matchers: &MatcherTable<'s>) -> Vec<&'s Statement> {
    let directives = block.iter().filter(|statement| !statement.name().starts_with('@'));
    let mut places: Vec<DirectivePlace<'s>> = directives
        .map(|statement| {
            let (path, has_matcher) = matchers.specificity(statement);
            // A directive of another module may stand anywhere, by the option `order`: what it might keep out comes first.
            let place = ORDER.iter().position(|name| *name == same_place(statement.name()));
            DirectivePlace { statement, place, path, has_matcher }
        })
        .collect();
    sort(&mut places);
    places.into_iter().map(|place| place.statement).collect()
}

/// By what a directive is sorted.
#[derive(Clone, Copy)]
struct DirectivePlace<'s> {
    statement: &'s Statement,
    place: Option<usize>,
    path: Option<&'s str>,
    has_matcher: bool,
}

impl DirectivePlace<'_> {
    /// Whether it comes before another one.
    fn is_before(&self, other: &DirectivePlace<'_>) -> bool {
        if self.place != other.place {
            return self.place < other.place;
        }
        match (self.path, other.path) {
            (Some(own), Some(path)) => {
                let bare = |path: &'_ str| path.strip_suffix('*').unwrap_or(path).len();
                let (own_bare, bare) = (&own[..bare(own)], &path[..bare(path)]);
                match bare.len().cmp(&own_bare.len()).then(own_bare.cmp(bare)) {
                    // A path before all that begin with it.
                    Ordering::Equal => own.len() < path.len(),
                    order => order == Ordering::Less,
                }
            }
            _ => self.has_matcher && !other.has_matcher,
        }
    }
}

/// How many entries are sorted by insertion before they are merged.
const BLOCK: usize = 20;

/// The stable sort of Go: which of those that are not told apart comes first is decided by it.
fn sort(list: &mut [DirectivePlace<'_>]) {
    for block in list.chunks_mut(BLOCK) {
        for end in 1..block.len() {
            for at in (1..=end).rev() {
                if !block[at].is_before(&block[at - 1]) {
                    break;
                }
                block.swap(at, at - 1);
            }
        }
    }
    let mut size = BLOCK;
    while size < list.len() {
        for pair in list.chunks_mut(2 * size).filter(|pair| pair.len() > size) {
            merge(pair, size);
        }
        size *= 2;
    }
}

/// Merges two sorted parts of a list, of which the second begins at `middle`.
fn merge(list: &mut [DirectivePlace<'_>], middle: usize) {
    let len = list.len();
    if middle == 0 || middle == len {
        return;
    }
    if middle == 1 {
        let behind = list[1..].partition_point(|other| other.is_before(&list[0]));
        return list[..=behind].rotate_left(1);
    }
    if len - middle == 1 {
        let before = list[..middle].partition_point(|other| !list[middle].is_before(other));
        return list[before..].rotate_right(1);
    }
    let half = len / 2;
    let both = half + middle;
    let (mut start, mut end) = if middle > half { (both - len, half) } else { (0, middle) };
    while start < end {
        let at = usize::midpoint(start, end);
        if list[both - 1 - at].is_before(&list[at]) {
            end = at;
        } else {
            start = at + 1;
        }
    }
    let end = both - start;
    if start < middle && middle < end {
        list[start..end].rotate_left(middle - start);
    }
    let (first, second) = list.split_at_mut(half);
    merge(first, start);
    merge(second, end - half);
}

/// `handle_path` is `handle` with a rewrite, and sorted among those.
fn same_place(name: &str) -> &str {
    match name {
        "handle_path" => "handle",
        "basicauth" => "basic_auth",
        other => other,
    }
}
