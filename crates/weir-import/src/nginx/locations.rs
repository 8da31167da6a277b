//! Locations of a server in one list, in which the first that matches counts: nginx's search (exact, then the longest prefix, then regular
//! expressions unless that says `^~`, each with what is nested in it), written down as the order of its outcomes.

use std::collections::HashSet;

use super::regexes::{NginxPattern, PatternSubject, encoded, escaped};
use super::rewrite::NginxTest;
use crate::report::Ledger;
use crate::source::Statement;

/// What a location matches by, in Weir's normal form of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NginxMatcher {
    Any,
    Exact(String),
    Prefix(String),
    Regex(NginxPattern),
    Named(String),
}

/// A location in the list.
#[derive(Clone)]
pub(super) struct NginxLocation<'s> {
    pub(super) matcher: NginxMatcher,
    /// `None`: the server itself, for what no location takes.
    pub(super) statement: Option<&'s Statement>,
    /// The locations around it, from the outermost one, and itself.
    pub(super) around: Vec<&'s Statement>,
    /// What has to hold beside the matcher.
    pub(super) guard: NginxTest,
    /// What has to hold where the order of the routes decides: the matcher alone would take what a longer one gets.
    pub(super) guard_in_order: NginxTest,
    pub(super) before_regex: bool,
    /// The path without a slash at its end, which is redirected here.
    pub(super) adds_slash: bool,
}

/// The directives by which a location hands requests over: those that make nginx add a slash.
pub(super) const PASSES: [&str; 6] =
    ["proxy_pass", "fastcgi_pass", "grpc_pass", "uwsgi_pass", "scgi_pass", "memcached_pass"];

/// A `location` and what is nested in it.
struct LocationNode<'s> {
    statement: &'s Statement,
    kind: LocationKind,
    children: Vec<LocationNode<'s>>,
}

enum LocationKind {
    Exact(String),
    Prefix { path: String, before_regex: bool },
    Regex(NginxPattern),
    Named(String),
}

/// What a level finds: what ends the search, and what counts if the level around finds nothing else.
#[derive(Default)]
struct LevelOutcomes<'s> {
    finals: Vec<NginxLocation<'s>>,
    prefixes: Vec<NginxLocation<'s>>,
}

/// The locations of a server in the order in which they count, without the server itself.
pub(super) fn flatten<'s>(ledger: &Ledger, server: &'s [Statement]) -> Vec<NginxLocation<'s>> {
    let nodes = read(ledger, server);
    let mut list = Vec::new();
    search(ledger, &nodes, &[], true, &mut list);
    list
}

fn read<'s>(ledger: &Ledger, statements: &'s [Statement]) -> Vec<LocationNode<'s>> {
    let locations = statements.iter().filter(|statement| statement.name() == "location");
    locations.filter_map(|statement| node(ledger, statement)).collect()
}

fn node<'s>(ledger: &Ledger, statement: &'s Statement) -> Option<LocationNode<'s>> {
    let mut words = ledger.words(statement);
    let first = words.text()?;
    let second = words.text();
    let signs = ["=", "^~", "~*", "~", "@"];
    let (sign, name) = match second {
        Some(name) => (first, name),
        None => {
            let sign = signs.into_iter().find(|sign| first.starts_with(sign)).unwrap_or_default();
            (sign, &first[sign.len()..])
        }
    };
    let fits = if sign == "=" { is_path(name) } else { begins_path(name) };
    if matches!(sign, "=" | "^~" | "") && !fits {
        refuse(
            ledger,
            statement,
            "no request has this path: one begins with `/`, and has no doubled slashes or dots between them",
        );
        return None;
    }
    let kind = match sign {
        "=" => LocationKind::Exact(name.to_owned()),
        "^~" => LocationKind::Prefix { path: name.to_owned(), before_regex: true },
        "" => LocationKind::Prefix { path: name.to_owned(), before_regex: false },
        "@" => LocationKind::Named(name.to_owned()),
        "~" | "~*" => match NginxPattern::new(name, sign == "~*", PatternSubject::Path) {
            Ok(pattern) => LocationKind::Regex(pattern),
            Err(advice) => {
                refuse(ledger, statement, &advice);
                return None;
            }
        },
        other => {
            refuse(ledger, statement, &format!("locations have no sign `{other}`"));
            return None;
        }
    };
    ledger.exact(statement);
    Some(LocationNode { statement, kind, children: read(ledger, statement.children()) })
}

/// Whether a text is a path in the form in which paths are compared.
fn is_path(name: &str) -> bool {
    let has_dots = name.split('/').any(|segment| segment == "." || segment == "..");
    name.starts_with('/') && !name.contains("//") && !has_dots
}

/// Whether a path in that form may begin with a text: `/.` is the beginning of `/.git`.
fn begins_path(name: &str) -> bool {
    let (folder, last) = name.rsplit_once('/').unwrap_or_default();
    is_path(name) || matches!(last, "." | "..") && (folder.is_empty() || is_path(folder))
}

/// A location that is left out, with all that is in it.
fn refuse(ledger: &Ledger, statement: &Statement, advice: &str) {
    ledger.unsupported(statement, advice);
    for child in statement.children() {
        refuse(ledger, child, "the block around it is not supported");
    }
}

impl<'s> LocationNode<'s> {
    fn location(&self, around: &[&'s Statement], matcher: NginxMatcher) -> NginxLocation<'s> {
        let around = around.iter().copied().chain([self.statement]).collect();
        NginxLocation {
            matcher,
            statement: Some(self.statement),
            around,
            guard: NginxTest::Known(true),
            guard_in_order: NginxTest::Known(true),
            before_regex: false,
            adds_slash: false,
        }
    }

    fn prefix(&self) -> Option<&str> {
        match &self.kind {
            LocationKind::Prefix { path, .. } => Some(path),
            _ => None,
        }
    }

    fn is_before_regex(&self) -> bool {
        matches!(self.kind, LocationKind::Prefix { before_regex: true, .. })
    }

    /// The path that this location adds a slash to, if it does so.
    fn path_without_slash(&self) -> Option<&str> {
        let (LocationKind::Prefix { path, .. } | LocationKind::Exact(path)) = &self.kind else { return None };
        let passes = self.statement.children().iter().any(|child| PASSES.contains(&child.name()));
        path.strip_suffix('/').filter(|path| passes && !path.is_empty())
    }
}

/// The search of one level, and of those in it. The outermost one is put down in `list`; what is found in it ends the search there.
fn search<'s>(
    ledger: &Ledger,
    nodes: &[LocationNode<'s>],
    around: &[&'s Statement],
    is_outermost: bool,
    list: &mut Vec<NginxLocation<'s>>,
) -> Vec<NginxLocation<'s>> {
    let mut prefixes: Vec<&LocationNode<'s>> = nodes.iter().filter(|node| node.prefix().is_some()).collect();
    prefixes.sort_by_key(|node| std::cmp::Reverse(node.prefix().map_or(0, str::len)));
    for node in nodes {
        if let LocationKind::Exact(path) = &node.kind {
            list.push(node.location(around, NginxMatcher::Exact(encoded(path))));
            let children = node.statement.children().iter().filter(|child| child.name() == "location");
            children.for_each(|child| refuse(ledger, child, "write this location beside the other one"));
        }
    }
    slashes(nodes, around, list);
    let mut first = LevelOutcomes::default();
    let mut last = Vec::new();
    for node in &prefixes {
        let mut found = within_prefix(ledger, node, &prefixes, around);
        first.finals.append(&mut found.finals);
        if node.is_before_regex() && is_outermost {
            first.prefixes.append(&mut found.prefixes);
        } else {
            last.append(&mut found.prefixes);
        }
    }
    // What is in one prefix is never in another: so exact paths of all of them may come first.
    first.finals.sort_by_key(|location| !matches!(location.matcher, NginxMatcher::Exact(_)));
    list.append(&mut first.finals);
    list.append(&mut first.prefixes);
    for node in nodes {
        if let LocationKind::Regex(pattern) = &node.kind {
            let yields = prefixes.iter().filter(|prefix| !is_outermost && prefix.is_before_regex());
            let guard = NginxTest::all(
                yields.filter_map(|prefix| Some(NginxTest::begins(&encoded(prefix.prefix()?)).not())),
            );
            within_regex(ledger, (node, pattern), &guard, around, list);
        }
    }
    if is_outermost {
        list.append(&mut last);
        for node in nodes {
            if let LocationKind::Named(name) = &node.kind {
                list.push(node.location(around, NginxMatcher::Named(name.clone())));
            }
        }
    }
    last
}

/// `/x`, which nginx redirects to `/x/` where that is handed over and `/x` is no location.
fn slashes<'s>(nodes: &[LocationNode<'s>], around: &[&'s Statement], list: &mut Vec<NginxLocation<'s>>) {
    let taken: HashSet<&str> = nodes
        .iter()
        .filter_map(|node| match &node.kind {
            LocationKind::Exact(path) | LocationKind::Prefix { path, .. } => Some(path.as_str()),
            LocationKind::Regex(_) | LocationKind::Named(_) => None,
        })
        .collect();
    let mut added = HashSet::new();
    for node in nodes {
        let path = node.path_without_slash().filter(|path| !taken.contains(path) && added.insert(*path));
        if let Some(path) = path {
            list.push(NginxLocation {
                adds_slash: true,
                ..node.location(around, NginxMatcher::Exact(encoded(path)))
            });
        }
    }
}

fn within_prefix<'s>(
    ledger: &Ledger,
    node: &LocationNode<'s>,
    siblings: &[&LocationNode<'s>],
    around: &[&'s Statement],
) -> LevelOutcomes<'s> {
    let path = node.prefix().unwrap_or_default();
    let longer: Vec<(&str, bool)> = siblings
        .iter()
        .filter_map(|one| Some((one.prefix()?, one.is_before_regex())))
        .filter(|(one, _)| one.len() > path.len() && one.starts_with(path))
        .collect();
    let around_inner: Vec<&Statement> = around.iter().copied().chain([node.statement]).collect();
    let mut finals = Vec::new();
    let mut prefixes = search(ledger, &node.children, &around_inner, false, &mut finals);
    let is_reached = |location: &NginxLocation<'_>| match &location.matcher {
        NginxMatcher::Exact(inner) | NginxMatcher::Prefix(inner) => {
            let reached = !longer.iter().any(|(longer, _)| inner.starts_with(&encoded(longer)));
            if let (false, Some(statement)) = (reached, location.statement) {
                ledger
                    .meaningless(statement, "a longer location beside the one around it takes its requests");
            }
            reached
        }
        _ => true,
    };
    finals.retain(is_reached);
    prefixes.retain(is_reached);
    for location in &mut finals {
        if let NginxMatcher::Regex(pattern) = &mut location.matcher {
            let apart: Vec<NginxTest> = longer
                .iter()
                .filter(|(longer, _)| !pattern.excludes_prefix(&encoded(longer)))
                .map(|(longer, _)| NginxTest::begins(&encoded(longer)).not())
                .collect();
            let begins = bind_to_prefix(pattern, &encoded(path));
            location.guard = NginxTest::all([begins, location.guard.clone()].into_iter().chain(apart));
        }
    }
    prefixes.push(node.location(around, NginxMatcher::Prefix(encoded(path))));
    let yields: Vec<String> =
        longer.iter().filter(|(_, before_regex)| !before_regex).map(|(longer, _)| encoded(longer)).collect();
    for location in &mut prefixes {
        location.before_regex = node.is_before_regex();
        if let (true, NginxMatcher::Prefix(own)) = (node.is_before_regex(), &location.matcher) {
            let below = yields.iter().filter(|longer| longer.starts_with(own.as_str()));
            location.guard_in_order = NginxTest::all(below.map(|longer| NginxTest::begins(longer).not()));
        }
    }
    LevelOutcomes { finals, prefixes }
}

/// Makes an expression begin with a prefix where that is plain, else the condition that the path does.
fn bind_to_prefix(pattern: &mut NginxPattern, prefix: &str) -> NginxTest {
    if prefix == "/" || pattern.implies_prefix(prefix) {
        return NginxTest::Known(true);
    }
    let is_ending = pattern.text.starts_with("\\.") && pattern.text.ends_with('$');
    if is_ending && prefix.ends_with('/') {
        pattern.text = format!("^{}.*{}", escaped(prefix), pattern.text);
        return NginxTest::Known(true);
    }
    NginxTest::begins(prefix)
}

fn within_regex<'s>(
    ledger: &Ledger,
    (node, pattern): (&LocationNode<'s>, &NginxPattern),
    guard: &NginxTest,
    around: &[&'s Statement],
    list: &mut Vec<NginxLocation<'s>>,
) {
    let around_inner: Vec<&Statement> = around.iter().copied().chain([node.statement]).collect();
    let mut inner = Vec::new();
    let prefixes = search(ledger, &node.children, &around_inner, false, &mut inner);
    inner.extend(prefixes);
    let matches = NginxTest::matches("path", pattern);
    for mut location in inner {
        location.guard = NginxTest::all([guard.clone(), matches.clone(), location.guard]);
        list.push(location);
    }
    let beside = pattern.beside.iter().map(|(text, wanted)| {
        let one = NginxPattern { text: text.clone(), beside: Vec::new() };
        NginxTest::matches("path", &one).negated_unless(*wanted)
    });
    let guard = NginxTest::all([guard.clone()].into_iter().chain(beside));
    let matcher = NginxMatcher::Regex(NginxPattern { text: pattern.text.clone(), beside: Vec::new() });
    list.push(NginxLocation { guard, ..node.location(around, matcher) });
}

impl NginxMatcher {
    /// Whether one path could match both; `true` where it cannot be told.
    pub(super) fn meets(&self, other: &NginxMatcher) -> bool {
        use NginxMatcher::{Any, Exact, Named, Prefix, Regex};
        match (self, other) {
            (Named(_), _) | (_, Named(_)) => false,
            (Any, _) | (_, Any) => true,
            (Exact(a), Exact(b)) => a == b,
            (Exact(exact), Prefix(prefix)) | (Prefix(prefix), Exact(exact)) => exact.starts_with(prefix),
            (Prefix(a), Prefix(b)) => a.starts_with(b) || b.starts_with(a),
            (Regex(a), Regex(b)) => !a.excludes(b),
            (Regex(regex), Prefix(prefix)) | (Prefix(prefix), Regex(regex)) => !regex.excludes_prefix(prefix),
            (Regex(regex), Exact(exact)) | (Exact(exact), Regex(regex)) => !regex.excludes_prefix(exact),
        }
    }
}
