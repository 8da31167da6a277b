//! A config as a list of parts, each with its keys and values as text: comparable without knowledge of any key.
//!
//! Defaults are included, so removing a key is a change only if its value differs from the default. Pure.

use std::fmt;

use crate::check::route_name;
use crate::diagnostic::Location;
use crate::diagnostic::{SourceMap, SourceSpan};
use crate::key::{ConfigValue, Map, SpannedTable};
use crate::load::CheckedConfig;
use crate::masked_text::MASK;
use crate::print::{LEFT_OUT, shown_line, without_secrets};
use crate::source::{Tree, TreeNode};
use crate::text::{Document, ListenerText, RouteText, ServerTable, ServerText, UpstreamText};

/// A part of a config, identified by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConfigPart {
    /// `[process]`.
    Process,
    /// `[log]`.
    Log,
    /// `[access_log]`.
    AccessLog,
    /// `[dns]`.
    Dns,
    /// `[discovery]`.
    Discovery,
    /// `[admin]`.
    Admin,
    /// `[recorder]`.
    Recorder,
    /// `[metrics]`.
    Metrics,
    /// `[traces]`.
    Traces,
    /// `[map.NAME]`.
    Map(Box<str>),
    /// `[list.NAME]`.
    List(Box<str>),
    /// `[limit.NAME]`.
    Limit(Box<str>),
    /// `[table.NAME]`.
    Table(Box<str>),
    /// `[store.NAME]`.
    Store(Box<str>),
    /// `[cache.NAME]`.
    Cache(Box<str>),
    /// `[routes_from.NAME]`.
    RoutesFrom(Box<str>),
    /// `[listener.NAME]` without its routes.
    Listener(Box<str>),
    /// A route: the listener, and the name of the route.
    Route(Box<str>, Box<str>),
    /// `[upstream.NAME]` without its servers.
    Upstream(Box<str>),
    /// A server: the upstream, and the name of the server.
    Server(Box<str>, Box<str>),
}

impl ConfigPart {
    /// The kind of part.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Log => "log",
            Self::AccessLog => "access_log",
            Self::Dns => "dns",
            Self::Discovery => "discovery",
            Self::Admin => "admin",
            Self::Recorder => "recorder",
            Self::Metrics => "metrics",
            Self::Traces => "traces",
            Self::Map(_) => "map",
            Self::List(_) => "list",
            Self::Limit(_) => "limit",
            Self::Table(_) => "table",
            Self::Store(_) => "store",
            Self::Cache(_) => "cache",
            Self::RoutesFrom(_) => "routes_from",
            Self::Listener(_) => "listener",
            Self::Route(..) => "route",
            Self::Upstream(_) => "upstream",
            Self::Server(..) => "server",
        }
    }
}

impl fmt::Display for ConfigPart {
    /// ``upstream `app`, server `a` ``.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process
            | Self::Log
            | Self::AccessLog
            | Self::Dns
            | Self::Discovery
            | Self::Admin
            | Self::Recorder
            | Self::Metrics
            | Self::Traces => f.write_str(self.kind()),
            Self::Map(name) => write!(f, "map `{name}`"),
            Self::List(name) => write!(f, "list `{name}`"),
            Self::Limit(name) => write!(f, "limit `{name}`"),
            Self::Table(name) => write!(f, "table `{name}`"),
            Self::Store(name) => write!(f, "store `{name}`"),
            Self::Cache(name) => write!(f, "cache `{name}`"),
            Self::RoutesFrom(name) => write!(f, "routes_from `{name}`"),
            Self::Listener(name) => write!(f, "listener `{name}`"),
            Self::Route(listener, route) => write!(f, "listener `{listener}`, route `{route}`"),
            Self::Upstream(name) => write!(f, "upstream `{name}`"),
            Self::Server(upstream, server) => write!(f, "upstream `{upstream}`, server `{server}`"),
        }
    }
}

/// A part with its content.
#[derive(Debug)]
pub(super) struct FlatPart<'a> {
    pub(super) part: ConfigPart,
    /// The identity, if the displayed name is not sufficient.
    pub(super) identity: String,
    /// Keys and values in the order of the reference.
    pub(super) entries: Vec<(String, String)>,
    /// The same without secrets, as they are shown.
    shown: Vec<(String, String)>,
    /// Its node in the tree; `None` if no text contains it.
    node: Option<&'a TreeNode>,
}

impl FlatPart<'_> {
    /// The value of a key as it is shown.
    pub(super) fn shown(&self, key: &str) -> Option<&str> {
        self.shown.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Whether secrets were left out of the text that it is of.
    pub(super) fn has_left_out(&self) -> bool {
        self.entries.iter().any(|(_, value)| value.contains(LEFT_OUT) || value.contains(MASK))
    }

    /// The value of a key.
    pub(super) fn value(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The location of the part.
    pub(super) fn location(&self, sources: &SourceMap) -> Option<Location> {
        self.node.map(|node| Location::new(sources, node.span))
    }

    /// The location of a key; `None` when no text sets it.
    pub(super) fn location_of(&self, key: &str, sources: &SourceMap) -> Option<Location> {
        let mut found: Option<SourceSpan> = None;
        let mut node = self.node?;
        for name in names(key) {
            let Tree::Table(table) = &node.tree else { break };
            let entry = table.find(&name)?;
            (found, node) = (Some(entry.key_at), &entry.node);
        }
        // An address alone is the whole server.
        let at = found.or_else(|| matches!(node.tree, Tree::Text(_)).then_some(node.span))?;
        Some(Location::new(sources, at))
    }
}

/// All parts of a config, in the order of the text.
pub(super) fn parts(checked: &CheckedConfig) -> Vec<FlatPart<'_>> {
    let mut parts = parts_of(checked.document(), checked.tree());
    let shown = parts_of(&without_secrets(checked.document()), None);
    for (part, shown) in parts.iter_mut().zip(shown) {
        let lines = shown.entries.iter().map(|(key, value)| format!("{key} = {value}"));
        part.shown = lines.map(|line| split(&shown_line(&line, checked.variables()))).collect();
    }
    parts
}

/// The parts as they are shown, to be compared with a config of which there is only that.
pub(super) fn shown_parts(checked: &CheckedConfig) -> Vec<FlatPart<'_>> {
    let mut parts = parts(checked);
    for (part, shown) in parts.iter_mut().zip(parts_of(&without_secrets(checked.document()), None)) {
        (part.entries, part.identity) = (part.shown.clone(), shown.identity);
    }
    parts
}

/// All parts of a document whose text is `tree`, in the order of the text.
fn parts_of<'a>(document: &Document, tree: Option<&'a TreeNode>) -> Vec<FlatPart<'a>> {
    let child = |name: &str| tree.and_then(|tree| entry(tree, name));
    let whole = |part: ConfigPart, table: &dyn Fn(&mut Vec<String>)| {
        let node = child(part.kind());
        flat(part, String::new(), node, &[], table)
    };
    let mut parts = vec![
        whole(ConfigPart::Process, &|lines| document.process.lines("", lines)),
        whole(ConfigPart::Log, &|lines| document.log.lines("", lines)),
        whole(ConfigPart::AccessLog, &|lines| document.access_log.lines("", lines)),
        whole(ConfigPart::Dns, &|lines| document.dns.lines("", lines)),
        whole(ConfigPart::Discovery, &|lines| document.discovery.lines("", lines)),
        whole(ConfigPart::Admin, &|lines| document.admin.lines("", lines)),
        whole(ConfigPart::Recorder, &|lines| document.recorder.lines("", lines)),
        whole(ConfigPart::Metrics, &|lines| document.metrics.lines("", lines)),
        whole(ConfigPart::Traces, &|lines| document.traces.lines("", lines)),
    ];
    let maps = child("map");
    for (name, text) in &document.map.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = maps.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::Map(name.value.clone()), String::new(), node, &[], &lines));
    }
    let lists = child("list");
    for (name, text) in &document.list.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = lists.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::List(name.value.clone()), String::new(), node, &[], &lines));
    }
    let limits = child("limit");
    for (name, text) in &document.limit.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = limits.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::Limit(name.value.clone()), String::new(), node, &[], &lines));
    }
    let tables = child("table");
    for (name, text) in &document.table.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = tables.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::Table(name.value.clone()), String::new(), node, &[], &lines));
    }
    let stores = child("store");
    for (name, text) in &document.store.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = stores.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::Store(name.value.clone()), String::new(), node, &[], &lines));
    }
    let caches = child("cache");
    for (name, text) in &document.cache.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = caches.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::Cache(name.value.clone()), String::new(), node, &[], &lines));
    }
    let route_sources = child("routes_from");
    for (name, text) in &document.routes_from.0 {
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        let node = route_sources.and_then(|node| entry(node, &name.value));
        parts.push(flat(ConfigPart::RoutesFrom(name.value.clone()), String::new(), node, &[], &lines));
    }
    let listeners = child("listener");
    for (name, text) in &document.listener.0 {
        push_listener(&mut parts, &name.value, text, listeners.and_then(|node| entry(node, &name.value)));
    }
    push_upstreams(&mut parts, &document.upstream, child("upstream"));
    parts
}

fn push_listener<'a>(
    parts: &mut Vec<FlatPart<'a>>,
    name: &str,
    text: &SpannedTable<ListenerText>,
    node: Option<&'a TreeNode>,
) {
    let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
    parts.push(flat(ConfigPart::Listener(name.into()), String::new(), node, &["route"], &lines));
    let routes = node.and_then(|node| entry(node, "route"));
    for (index, route) in text.value.route.iter().enumerate() {
        let part = ConfigPart::Route(name.into(), route_name(&route.value));
        let lines = |lines: &mut Vec<String>| route.value.lines("", lines);
        parts.push(flat(part, identity(&route.value), item(routes, index), &["name"], &lines));
    }
}

fn push_upstreams<'a>(
    parts: &mut Vec<FlatPart<'a>>,
    upstreams: &Map<SpannedTable<UpstreamText>>,
    tree: Option<&'a TreeNode>,
) {
    for (name, text) in &upstreams.0 {
        let node = tree.and_then(|node| entry(node, &name.value));
        let lines = |lines: &mut Vec<String>| text.value.lines("", lines);
        parts.push(flat(ConfigPart::Upstream(name.value.clone()), String::new(), node, &["servers"], &lines));
        let servers = node.and_then(|node| entry(node, "servers"));
        for (index, server) in text.value.servers.iter().flat_map(|servers| &servers.0).enumerate() {
            let table = table_of(&server.value);
            let lines = |lines: &mut Vec<String>| table.lines("", lines);
            let part = ConfigPart::Server(name.value.clone(), name_of(&server.value));
            parts.push(flat(part, String::new(), item(servers, index), &["name"], &lines));
        }
    }
}

fn flat<'a>(
    part: ConfigPart,
    identity: String,
    node: Option<&'a TreeNode>,
    without: &[&str],
    write: &dyn Fn(&mut Vec<String>),
) -> FlatPart<'a> {
    let mut lines = Vec::new();
    write(&mut lines);
    let entries = lines.iter().map(|line| split(line)).filter(|(key, _)| !without.contains(&key.as_str()));
    FlatPart { part, identity, entries: entries.collect(), shown: Vec::new(), node }
}

/// The identity of a route: its name if it has one, otherwise the requests that it matches.
fn identity(route: &RouteText) -> String {
    const MATCHES: [&str; 11] = [
        "host",
        "path",
        "path_begins",
        "path_exact",
        "path_regex",
        "method",
        "header",
        "query",
        "sni",
        "source",
        "priority",
    ];
    if route.name.is_some() {
        return String::new();
    }
    let mut lines = Vec::new();
    route.lines("", &mut lines);
    let is_match = |line: &String| MATCHES.contains(&names(&split(line).0)[0].as_str());
    lines.into_iter().filter(is_match).collect::<Vec<_>>().join("\n")
}

fn table_of(server: &ServerText) -> ServerTable {
    match server {
        ServerText::Table(table) => table.value.clone(),
        ServerText::Address(address) => {
            let address = crate::key::Spanned {
                value: address.clone(),
                span: SourceSpan::of_file(crate::diagnostic::FileIndex(0)),
            };
            ServerTable { address: Some(address), ..ServerTable::default() }
        }
    }
}

fn name_of(server: &ServerText) -> Box<str> {
    let address = |table: &ServerTable| table.address.as_ref().map(|address| address.value.to_string());
    match server {
        ServerText::Address(address) => address.to_string().into(),
        ServerText::Table(table) => match &table.value.name {
            Some(name) => name.value.clone(),
            None => address(&table.value).unwrap_or_default().into(),
        },
    }
}

fn entry<'a>(node: &'a TreeNode, name: &str) -> Option<&'a TreeNode> {
    match &node.tree {
        Tree::Table(table) => table.find(name).map(|entry| &entry.node),
        _ => None,
    }
}

fn item(list: Option<&TreeNode>, index: usize) -> Option<&TreeNode> {
    match &list?.tree {
        Tree::List(items) => items.get(index),
        _ => None,
    }
}

/// Key and value of a line `key = value`.
fn split(line: &str) -> (String, String) {
    let mut quoted = false;
    let at = line.char_indices().find_map(|(at, c)| {
        quoted ^= c == '"';
        (!quoted && line[at..].starts_with(" = ")).then_some(at)
    });
    match at {
        Some(at) => (line[..at].to_owned(), line[at + 3..].to_owned()),
        None => (line.to_owned(), String::new()),
    }
}

/// The names that a dotted key consists of, without their quotes.
fn names(key: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut quoted = false;
    for c in key.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => names.push(String::new()),
            c => names.last_mut().expect("there is always a name").push(c),
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::key::ConfigSection as _;

    #[test]
    fn every_table_of_a_config_is_a_part() {
        let text = r#"
            map.m = { source = "{host}", exact = { a = "b" } }
            list.l.addresses = ["10.0.0.0/8"]
            limit.l = { rate = "5/s", key = "{client.address}" }
            table.t = { store = "gpc0" }
            store.s.redis = "127.0.0.1:6379"
            cache.c = {}
            routes_from.r = { etcd = "/routes/" }
            listener.web = { address = ":1", upstream = "app" }
            upstream.app.servers = ["127.0.0.1:2"]
        "#;
        let checked = CheckedConfig::parse(text, "weir.toml");
        let kinds: BTreeSet<&str> = parts(&checked).iter().map(|part| part.part.kind()).collect();
        // Files and blocks are where they belong by then.
        for key in Document::SECTION.keys.iter().filter(|key| !["include", "block"].contains(&key.name)) {
            assert!(kinds.contains(key.name), "changes in `{}` are not compared", key.name);
        }
    }

    #[test]
    fn lines_come_apart_where_the_value_begins() {
        for (line, key, value) in [
            ("weight = 1", "weight", "1"),
            ("timeouts.idle = \"60s\"", "timeouts.idle", "\"60s\""),
            ("query.\"a = b\" = \"c = d\"", "query.\"a = b\"", "\"c = d\""),
            ("odd", "odd", ""),
        ] {
            assert_eq!(split(line), (key.to_owned(), value.to_owned()));
        }
        assert_eq!(names("request_headers.set.\"x-a.b\""), ["request_headers", "set", "x-a.b"]);
    }
}
