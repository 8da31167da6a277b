//! The routes of a listener in Weir's order: by how specific they are where that comes to the same as nginx's search, else in the order of the file.

use super::locations::NginxMatcher;
use super::regexes::NginxPattern;
use super::rewrite::NginxTest;
use super::routes::RouteDraft;
use super::servers::ServerNames;
use crate::document::{DraftTable, TomlValue};

/// Expressions of a server that are compared with each other; more are numbered in any case.
const COMPARED_MAX: usize = 64;

/// The routes of one server on a listener, and for which hosts.
pub(super) struct ArrangedServer<'n, 's> {
    pub(super) names: &'n ServerNames<'s>,
    pub(super) is_default: bool,
    pub(super) routes: Vec<RouteDraft>,
}

/// Hosts that a server has routes for.
struct HostVariant {
    hosts: Vec<String>,
    test: NginxTest,
    /// By kind, then the longest wildcards first.
    rank: (u8, std::cmp::Reverse<usize>),
    server: usize,
}

/// Puts the routes of all servers into the listener.
pub(super) fn arrange(servers: &[ArrangedServer<'_, '_>], listener: &mut DraftTable) {
    let is_alone = servers.len() == 1 && servers[0].is_default;
    let by_test = servers.iter().any(|server| !server.is_default && server.names.has_tests());
    let in_order = by_test || servers.iter().any(|server| is_inverted(&server.routes));
    if in_order {
        listener.set_plain("route_order", "file");
    }
    let mut variants: Vec<HostVariant> = Vec::new();
    for (index, server) in servers.iter().enumerate() {
        variants.extend(hosts_of(servers, index, server, (is_alone, in_order)));
    }
    if in_order {
        variants.sort_by_key(|variant| variant.rank);
    }
    let priorities: Vec<Vec<i64>> = servers
        .iter()
        .map(|server| if in_order { vec![0; server.routes.len()] } else { priorities(&server.routes) })
        .collect();
    let mut known = std::collections::HashSet::new();
    for variant in &variants {
        for (route, priority) in servers[variant.server].routes.iter().zip(&priorities[variant.server]) {
            let head = head(route, variant, in_order, *priority);
            if !matches!(route.matcher, NginxMatcher::Named(_)) && !known.insert(format!("{head:?}")) {
                continue;
            }
            let mut table = route.table.clone();
            table.prepend(head);
            listener.push_table("route", table);
        }
    }
}

/// What a route matches by.
fn head(route: &RouteDraft, variant: &HostVariant, in_order: bool, priority: i64) -> DraftTable {
    let mut head = DraftTable::default();
    if let NginxMatcher::Named(name) = &route.matcher {
        head.set_plain("name", name.as_str());
        head.set_plain("internal", true);
        return head;
    }
    match variant.hosts.as_slice() {
        [] => {}
        [one] => head.set_plain("host", one.as_str()),
        several => head.set_plain("host", TomlValue::from(several.to_vec())),
    }
    let needs_path = ["strip_prefix", "replace_prefix"].iter().any(|key| route.table.has(key))
        || route.table.get_table("files").is_some_and(|files| files.has("alias"));
    match &route.matcher {
        NginxMatcher::Any if needs_path => head.set_plain("path", "/"),
        NginxMatcher::Prefix(path) if path == "/" && !needs_path => {}
        NginxMatcher::Exact(path) => head.set_plain("path_exact", path.as_str()),
        NginxMatcher::Prefix(path) if path.ends_with('/') => head.set_plain("path", path.as_str()),
        NginxMatcher::Prefix(path)
            if route.table.get_table("files").is_some_and(|files| files.has("alias")) =>
        {
            head.set_plain("path", path.as_str());
        }
        NginxMatcher::Prefix(path) => head.set_plain("path_begins", path.as_str()),
        NginxMatcher::Regex(pattern) => head.set_plain("path_regex", literal(&pattern.text)),
        NginxMatcher::Any | NginxMatcher::Named(_) => {}
    }
    if route.before_regex && !in_order && (head.has("path") || head.has("path_begins")) {
        head.set_plain("before_regex", true);
    }
    let in_order_test = if in_order { route.test_in_order.clone() } else { NginxTest::Known(true) };
    let test = NginxTest::all([variant.test.clone(), route.test.clone(), in_order_test]);
    if test != NginxTest::Known(true) {
        head.set_plain("when", literal(&test.to_string()));
    }
    if priority > 0 {
        head.set_plain("priority", priority);
    }
    head
}

/// A text in which a dollar is one, and no variable of the environment begins.
fn literal(text: &str) -> String {
    text.replace("$$", "$$$$").replace("${", "$${")
}

/// The hosts of a server.
fn hosts_of(
    servers: &[ArrangedServer<'_, '_>],
    index: usize,
    server: &ArrangedServer<'_, '_>,
    (is_alone, in_order): (bool, bool),
) -> Vec<HostVariant> {
    let variant = |hosts: Vec<String>, test: NginxTest, rank: u8, len: usize| HostVariant {
        hosts,
        test,
        rank: (rank, std::cmp::Reverse(len)),
        server: index,
    };
    let always = || NginxTest::Known(true);
    if is_alone {
        return vec![variant(Vec::new(), always(), 4, 0)];
    }
    let names = server.names;
    let others = || servers.iter().enumerate().filter(|(other, _)| *other != index).map(|(_, one)| one.names);
    let wildcards: Vec<String> = others().flat_map(|names| names.wildcards.iter().cloned()).collect();
    let is_below = names.is_below(&wildcards);
    let named: Vec<String> = names.exact.iter().chain(&names.wildcards).cloned().collect();
    let is_named = is_below || in_order && others().any(ServerNames::has_tests);
    if server.is_default && is_named && !in_order && !named.is_empty() {
        let hosts = named.into_iter().chain(["*".to_owned()]).collect();
        return vec![variant(hosts, always(), 4, 0)];
    }
    let mut variants = Vec::new();
    let has_nested = || wildcards.iter().any(|other| names.wildcards.iter().any(|own| nests(own, other)));
    if server.is_default && !is_named || named.is_empty() {
        // What no other name takes is for this server anyway.
    } else if in_order && (is_below || has_nested()) {
        // Each name at its place among those of the other servers.
        if !names.exact.is_empty() {
            variants.push(variant(names.exact.clone(), always(), 0, 0));
        }
        let each = names.wildcards.iter();
        variants.extend(each.map(|wildcard| variant(vec![wildcard.clone()], always(), 1, wildcard.len())));
    } else {
        let longest = names.wildcards.iter().map(String::len).max().unwrap_or(0);
        variants.push(variant(named, always(), u8::from(longest > 0), longest));
    }
    if !server.is_default || in_order && others().any(ServerNames::has_tests) {
        for begin in &names.beginnings {
            let test = NginxTest::text(format!("host.startsWith(\"{begin}\")"));
            variants.push(variant(Vec::new(), test, 2, begin.len()));
        }
        if !names.tests.is_empty() {
            variants.push(variant(Vec::new(), NginxTest::any(names.tests.iter().cloned()), 3, 0));
        }
    }
    if server.is_default {
        variants.push(variant(Vec::new(), always(), 4, 0));
    }
    variants
}

/// Whether hosts may be below both of two patterns such as `*.a.test`.
fn nests(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_start_matches('*'), other.trim_start_matches('*'));
    one != other && (one.ends_with(other) || other.ends_with(one))
}

/// Whether a route comes later in Weir's order by specificity than another one which it has to come before.
fn is_inverted(routes: &[RouteDraft]) -> bool {
    routes.iter().enumerate().any(|(at, first)| {
        routes[at + 1..]
            .iter()
            .any(|second| comes_later(first, second) && first.matcher.meets(&second.matcher))
    })
}

/// Whether Weir asks `first` after `second`, if a request matches both.
fn comes_later(first: &RouteDraft, second: &RouteDraft) -> bool {
    use NginxMatcher::{Any, Exact, Named, Prefix, Regex};
    let has_test = |route: &RouteDraft| route.test != NginxTest::Known(true);
    let by_test = !has_test(first) && has_test(second);
    match (&first.matcher, &second.matcher) {
        (Named(_), _) | (_, Named(_)) => false,
        (Exact(_), Exact(_)) | (Regex(_), Regex(_)) | (Any, Any) => by_test,
        (Exact(_), _) | (Prefix(_) | Regex(_), Any) => false,
        (_, Exact(_)) | (Any, _) => true,
        (Regex(_), Prefix(_)) => second.before_regex,
        (Prefix(_), Regex(_)) => !first.before_regex,
        (Prefix(one), Prefix(other)) if one == other => by_test,
        // The longer one comes first by itself; what is in front of expressions yields to it.
        (Prefix(one), Prefix(other)) => one.len() < other.len() && !first.before_regex,
    }
}

/// Numbers for expressions that could match the same path, the first the highest.
fn priorities(routes: &[RouteDraft]) -> Vec<i64> {
    let expressions: Vec<(usize, &NginxPattern)> = routes
        .iter()
        .filter_map(|route| match &route.matcher {
            NginxMatcher::Regex(pattern) => Some((route.location, pattern)),
            _ => None,
        })
        .collect();
    let meet = expressions.len() > COMPARED_MAX
        || expressions.iter().enumerate().any(|(at, (location, one))| {
            expressions[at + 1..]
                .iter()
                .any(|(other_location, other)| location != other_location && !one.excludes(other))
        });
    if !meet {
        return vec![0; routes.len()];
    }
    let mut order: Vec<usize> = expressions.iter().map(|(location, _)| *location).collect();
    order.dedup();
    let number = |route: &RouteDraft| {
        let at = order.iter().position(|location| *location == route.location)?;
        matches!(route.matcher, NginxMatcher::Regex(_)).then(|| (order.len() - 1 - at) as i64)
    };
    routes.iter().map(|route| number(route).unwrap_or(0)).collect()
}
