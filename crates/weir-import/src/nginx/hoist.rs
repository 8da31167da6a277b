//! What repeats: keys that all routes share go to the listener, and what is in several routes, upstreams or listeners becomes a block.

use std::collections::BTreeMap;

use super::quic;
use crate::document::{Draft, DraftTable};

/// Keys of all routes that mean the same on the listener.
const OF_ALL: [&str; 8] = [
    "response_headers",
    "compression",
    "rewrite_body",
    "error_pages",
    "lists",
    "limited_by",
    "track",
    "vars",
];

/// Keys that are about servers alone: they mean the same on the listener if all routes with servers share them.
const OF_SERVERS: [&str; 3] = ["request_headers", "rewrite_location", "rewrite_cookies"];

/// What a route matches by, and what is its own.
pub(super) const OF_ROUTE: [&str; 15] = [
    "name",
    "host",
    "path",
    "path_begins",
    "path_exact",
    "path_regex",
    "before_regex",
    "method",
    "header",
    "query",
    "source",
    "when",
    "priority",
    "internal",
    "use",
];

/// What is never worth a block, or cannot stand in one beside others.
const OUTSIDE_OF_BLOCKS: [&str; 8] =
    ["rewrite", "redirect", "respond", "then", "strip_prefix", "replace_prefix", "replace_regex", "servers"];

/// What two listeners with the same routes have of their own.
const OF_LISTENER: [&str; 8] =
    ["address", "tls", "http2", "http3", "proxy_protocol", "use", "backlog", "rewrite"];

/// Blocks that are made at most, and how many beginnings of one are tried.
const BLOCKS_MAX: usize = 12;
const SEEDS_MAX: usize = 64;

pub(super) fn hoist(draft: &mut Draft) {
    for (_, listener) in draft.table(&["listener"]).children_mut() {
        to_listener(listener);
    }
    let mut names: Vec<String> = Vec::new();
    same_routes(draft, &mut names);
    let mut routes: Vec<DraftTable> = Vec::new();
    let mut counts = Vec::new();
    for (_, listener) in draft.table(&["listener"]).children_mut() {
        let own = listener.take_tables("route");
        counts.push(own.len());
        routes.extend(own);
    }
    blocks(draft, &mut routes.iter_mut().collect::<Vec<_>>(), "routes", &mut names);
    let mut rest = routes.into_iter();
    for ((_, listener), count) in draft.table(&["listener"]).children_mut().zip(counts) {
        rest.by_ref().take(count).for_each(|route| listener.push_table("route", route));
        short_upstream(listener);
    }
    let mut upstreams: Vec<DraftTable> =
        draft.table(&["upstream"]).children_mut().map(|(_, table)| std::mem::take(table)).collect();
    blocks(draft, &mut upstreams.iter_mut().collect::<Vec<_>>(), "servers", &mut names);
    for ((_, table), changed) in draft.table(&["upstream"]).children_mut().zip(upstreams) {
        *table = changed;
    }
    without_empty(draft);
}

/// Keys that all routes of a listener share.
fn to_listener(listener: &mut DraftTable) {
    let mut routes = listener.take_tables("route");
    for key in OF_ALL {
        let Some(first) = routes.first().filter(|first| first.has(key) && !listener.has(key)) else {
            continue;
        };
        if routes.iter().all(|route| route.agrees(key, first)) {
            move_up(key, &mut routes, listener);
        }
    }
    let to_servers = |route: &DraftTable| route.has("upstream") || route.has("split");
    for key in OF_SERVERS {
        let mut with_servers = routes.iter().filter(|route| to_servers(route));
        let Some(first) = with_servers.next().filter(|first| first.has(key) && !listener.has(key)) else {
            continue;
        };
        let count = 1 + with_servers.clone().count();
        let is_shared = with_servers.all(|route| route.agrees(key, first))
            && routes.iter().all(|route| to_servers(route) || !route.has(key));
        if is_shared && (count > 1 || routes.len() == 1) {
            move_up(key, &mut routes, listener);
        }
    }
    body_size(&mut routes, listener);
    quic::without_second_field(listener);
    routes.into_iter().for_each(|route| listener.push_table("route", route));
}

/// Moves a key of all routes that have it, which is the same in all of them.
fn move_up(key: &str, routes: &mut [DraftTable], listener: &mut DraftTable) {
    let mut holders = routes.iter_mut().filter(|route| route.has(key));
    if let Some(first) = holders.next() {
        first.move_to(key, listener);
    }
    holders.for_each(|route| route.remove(key));
}

/// `limits.body_size` of all routes that take a body.
fn body_size(routes: &mut [DraftTable], listener: &mut DraftTable) {
    let size =
        |route: &DraftTable| route.get_table("limits").and_then(|limits| limits.get("body_size")).cloned();
    let is_known = listener.get_table("limits").is_some_and(|limits| limits.has("body_size"));
    let takes = |route: &DraftTable| route.has("upstream") || route.has("split");
    let Some(first) = routes.iter().find(|route| takes(route)).and_then(size).filter(|_| !is_known) else {
        return;
    };
    let same = |route: &DraftTable| size(route).map_or(!takes(route), |own| own == first);
    let is_small = routes.iter().filter(|route| size(route).is_some()).count() > 1 || routes.len() == 1;
    if !routes.iter().all(same) || !is_small {
        return;
    }
    let mut moved = DraftTable::default();
    for route in routes {
        let Some(limits) = route.has("limits").then(|| route.table("limits")) else { continue };
        moved = DraftTable::default();
        limits.move_to("body_size", &mut moved);
        if limits.is_empty() {
            route.remove("limits");
        }
    }
    listener.table("limits").extend(moved);
}

/// A single route for everything whose only key is its upstream.
fn short_upstream(listener: &mut DraftTable) {
    let plain = |route: &DraftTable| route.keys().eq(["upstream"]);
    let count = listener.tables("route").iter().filter(|route| plain(route)).count();
    let is_last = listener.tables("route").last().is_some_and(plain);
    if count != 1 || listener.has("upstream") || listener.text("route_order") == Some("file") && !is_last {
        return;
    }
    let mut routes = listener.take_tables("route");
    if let Some(at) = routes.iter().position(plain) {
        if routes[at].has_comments() && routes.len() > 1 {
            routes.into_iter().for_each(|route| listener.push_table("route", route));
            return;
        }
        routes.remove(at).move_to("upstream", listener);
    }
    routes.into_iter().for_each(|route| listener.push_table("route", route));
}

/// Listeners with the same routes: these, and what else they share, become a block.
fn same_routes(draft: &mut Draft, names: &mut Vec<String>) {
    let mut taken: Vec<(String, DraftTable)> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut listeners: Vec<DraftTable> =
        draft.table(&["listener"]).children_mut().map(|(_, table)| std::mem::take(table)).collect();
    for at in 0..listeners.len() {
        let is_same =
            |group: &&mut Vec<usize>| listeners[group[0]].tables("route") == listeners[at].tables("route");
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(at),
            None => groups.push(vec![at]),
        }
    }
    for group in groups.iter().filter(|group| group.len() > 1) {
        let first = &listeners[group[0]];
        let size: usize = first.tables("route").iter().map(|route| route.keys().count() + 1).sum();
        if size < 4 {
            continue;
        }
        let keys: Vec<String> = first
            .keys()
            .filter(|key| !OF_LISTENER.contains(key))
            .filter(|key| group.iter().all(|at| listeners[*at].agrees(key, first)))
            .map(ToOwned::to_owned)
            .collect();
        let name = fresh("site", names);
        let mut block = DraftTable::default();
        for (index, at) in group.iter().enumerate() {
            let mut spare = DraftTable::default();
            let into = if index == 0 { &mut block } else { &mut spare };
            keys.iter().for_each(|key| listeners[*at].move_to(key, into));
            listeners[*at].set_plain("use", name.as_str());
        }
        taken.push((name, block));
    }
    for ((_, table), changed) in draft.table(&["listener"]).children_mut().zip(listeners) {
        *table = changed;
    }
    for (name, block) in taken {
        *draft.table(&["block", &name]) = block;
    }
}

/// Blocks of what at least three tables share, as long as each saves lines.
fn blocks(draft: &mut Draft, tables: &mut [&mut DraftTable], usual: &str, names: &mut Vec<String>) {
    let mut texts: Vec<BTreeMap<String, String>> = tables.iter().map(|table| texts_of(table)).collect();
    for _ in 0..BLOCKS_MAX {
        let Some((members, keys)) = best_block(&texts) else { return };
        let mut block = DraftTable::default();
        for (index, member) in members.iter().enumerate() {
            let mut spare = DraftTable::default();
            let into = if index == 0 { &mut block } else { &mut spare };
            keys.iter().for_each(|key| tables[*member].move_to(key, into));
        }
        let name = fresh(name_of(&block, usual), names);
        for member in members {
            texts[member].clear();
            let mut head = DraftTable::default();
            OF_ROUTE.iter().for_each(|key| tables[member].move_to(key, &mut head));
            head.set_plain("use", name.as_str());
            tables[member].prepend(head);
        }
        *draft.table(&["block", &name]) = block;
    }
}

/// The tables that share the most, and the keys in which they do.
fn best_block(texts: &[BTreeMap<String, String>]) -> Option<(Vec<usize>, Vec<String>)> {
    let mut holders: BTreeMap<(&String, &String), Vec<usize>> = BTreeMap::new();
    for (index, own) in texts.iter().enumerate() {
        for (key, text) in own {
            holders.entry((key, text)).or_default().push(index);
        }
    }
    let mut seeds: Vec<(&(&String, &String), &Vec<usize>)> =
        holders.iter().filter(|(_, members)| members.len() >= 3).collect();
    seeds.sort_by_key(|((_, text), members)| std::cmp::Reverse(members.len() * text.lines().count()));
    let mut best: Option<(usize, Vec<usize>, Vec<String>)> = None;
    for (_, members) in seeds.into_iter().take(SEEDS_MAX) {
        let shared: Vec<(&String, &String)> = texts[members[0]]
            .iter()
            .filter(|(key, text)| members.iter().all(|at| texts[*at].get(*key) == Some(text)))
            .collect();
        let lines: usize = shared.iter().map(|(_, text)| text.lines().count()).sum();
        let saved = (members.len() * lines).saturating_sub(lines + 1 + members.len());
        if saved > best.as_ref().map_or(0, |(saved, ..)| *saved) {
            let keys = shared.iter().map(|(key, _)| (*key).clone()).collect();
            best = Some((saved, members.clone(), keys));
        }
    }
    best.map(|(_, members, keys)| (members, keys))
}

/// The keys of a table that may go into a block, as they are written.
fn texts_of(table: &DraftTable) -> BTreeMap<String, String> {
    if table.has("use") {
        return BTreeMap::new();
    }
    let keys = table.keys().filter(|key| !OF_ROUTE.contains(key) && !OUTSIDE_OF_BLOCKS.contains(key));
    keys.map(|key| (key.to_owned(), table.text_of(key))).collect()
}

/// A name that says what a block is about.
fn name_of<'n>(block: &DraftTable, usual: &'n str) -> &'n str {
    let kinds =
        [("fastcgi", "scripts"), ("files", "static"), ("cache", "cached"), ("request_headers", "proxied")];
    kinds.into_iter().find(|(key, _)| block.has(key)).map_or(usual, |(_, name)| name)
}

fn fresh(wish: &str, names: &mut Vec<String>) -> String {
    let numbered = (2..).map(|number| format!("{wish}-{number}"));
    let name = std::iter::once(wish.to_owned()).chain(numbered).find(|name| !names.contains(name));
    let name = name.unwrap_or_default();
    names.push(name.clone());
    name
}

/// Takes out lists and tables that nothing names any more, and top-level tables without anything.
fn without_empty(draft: &mut Draft) {
    let (text, _) = draft.render();
    let is_named = |name: &str| {
        text.matches(&format!("\"{name}\"")).count() > 0 || text.contains(&format!("list.{name}\""))
    };
    let unused: Vec<String> = draft
        .table(&["list"])
        .children_mut()
        .map(|(name, _)| name.to_owned())
        .filter(|name| !is_named(name))
        .collect();
    unused.iter().for_each(|name| draft.table(&["list"]).remove(name));
    for key in ["list", "listener", "upstream", "block"] {
        if draft.table(&[key]).is_empty() {
            draft.root().remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(keys: &[(&str, &str)]) -> DraftTable {
        let mut route = DraftTable::default();
        keys.iter().for_each(|(key, value)| route.set_plain(key, *value));
        route
    }

    #[test]
    fn what_routes_with_servers_share_goes_to_the_listener() {
        let mut draft = Draft::default();
        let listener = draft.table(&["listener", "http"]);
        listener.push_table("route", route(&[("path", "/x"), ("files", "f")]));
        listener.push_table("route", route(&[("path", "/a"), ("upstream", "a"), ("request_headers", "h")]));
        listener.push_table("route", route(&[("path", "/b"), ("upstream", "b"), ("request_headers", "h")]));
        hoist(&mut draft);
        let listener = draft.table(&["listener", "http"]);
        assert_eq!(listener.text("request_headers"), Some("h"));
        assert!(listener.tables("route").iter().all(|route| !route.has("request_headers")));
    }

    #[test]
    fn what_only_some_routes_have_stays() {
        let mut draft = Draft::default();
        let listener = draft.table(&["listener", "http"]);
        listener.push_table("route", route(&[("path", "/a"), ("upstream", "a"), ("compression", "c")]));
        listener.push_table("route", route(&[("path", "/b"), ("upstream", "b"), ("request_headers", "h")]));
        let before = draft.clone();
        hoist(&mut draft);
        assert_eq!(draft.render().0, before.render().0);
    }

    #[test]
    fn blocks_take_what_many_routes_repeat() {
        let mut draft = Draft::default();
        let listener = draft.table(&["listener", "http"]);
        for path in ["/a", "/b", "/c", "/d"] {
            listener.push_table(
                "route",
                route(&[("path", path), ("files", "f"), ("expires", "1h"), ("hsts", "x")]),
            );
        }
        hoist(&mut draft);
        assert_eq!(draft.table(&["block", "static"]).text("expires"), Some("1h"));
        let listener = draft.table(&["listener", "http"]);
        assert!(
            listener
                .tables("route")
                .iter()
                .all(|route| route.text("use") == Some("static") && !route.has("expires"))
        );
    }
}
