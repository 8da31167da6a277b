//! A `frontend`, or the half of a `listen` that faces clients: a listener for each kind of address that it has.

mod bind;
mod routing;
mod tls;

use std::collections::{HashMap, HashSet};

pub(super) use bind::groups;
pub(super) use routing::{BackendTarget, targets};

use bind::BindGroup;
use routing::{FrontendRoute, FrontendRoutes};

use super::acl::{AclCondition, AclSubject, AtomTest, ListenerFacts, Surroundings};
use super::address::free_name;
use super::backend::ChosenServer;
use super::format::FormatUse;
use super::output::{Keys, literal};
use super::process::GlobalFacts;
use super::proxy::{ProxySection, time_text};
use super::rules::{CLOSED, ListRule, SectionRules, write_headers};
use super::{errors, http_options, logs};
use crate::document::{Draft, TomlValue, order};

/// What a backend means for the routes that lead to it.
pub(super) struct BackendFacts<'s> {
    /// The name of its upstream, if it has servers.
    pub(super) upstream: Option<String>,
    /// Servers that rules choose, with the upstream of each; without one, it goes nowhere.
    pub(super) chosen: Vec<(ChosenServer<'s>, Option<String>)>,
    pub(super) rules: SectionRules<'s>,
    pub(super) is_tcp: bool,
}

/// Why a rule is left out.
const TOO_LONG: &str = "with what the rules before it say, the condition is longer than one of Weir may be: write it with maps and lists";

/// All that a frontend is made of.
pub(super) struct FrontendParts<'p, 's> {
    pub(super) proxy: &'p ProxySection<'s>,
    pub(super) rules: &'p SectionRules<'s>,
    pub(super) global: &'p GlobalFacts<'s>,
    pub(super) targets: &'p [BackendTarget<'s>],
    pub(super) backends: &'p HashMap<String, BackendFacts<'s>>,
}

/// Makes the listeners of a frontend.
pub(super) fn listeners<'s>(
    parts: &FrontendParts<'_, 's>,
    groups: Vec<BindGroup<'s>>,
    around: &Surroundings<'_>,
    taken: &mut Vec<String>,
    draft: &mut Draft,
) -> Vec<(String, Keys<'s>)> {
    let mut listeners = Vec::new();
    for (index, group) in groups.into_iter().enumerate() {
        let wanted = match (index, group.facts.tls) {
            (0, _) => parts.proxy.name.to_owned(),
            (_, true) => format!("{}-tls", parts.proxy.name),
            _ => format!("{}-{}", parts.proxy.name, index + 1),
        };
        let name = free_name(&wanted, taken);
        taken.push(name.clone());
        let keys = listener(parts, &group, &name, around, draft);
        if keys.has("upstream") || !keys.routes.is_empty() {
            listeners.push((name, keys));
        } else {
            parts
                .proxy
                .ledger
                .unsupported(parts.proxy.header, "there is no server that its connections could go to");
        }
    }
    listeners
}

fn listener<'s>(
    parts: &FrontendParts<'_, 's>,
    group: &BindGroup<'s>,
    name: &str,
    around: &Surroundings<'_>,
    draft: &mut Draft,
) -> Keys<'s> {
    let (proxy, facts) = (parts.proxy, group.facts);
    let mut keys = Keys::of(proxy.header);
    if let Some(address) = group.keys.get("address") {
        keys.set("address", address.clone(), proxy.header);
    }
    keys.extend(&group.keys);
    if facts.tcp {
        keys.set("protocol", "tcp", proxy.one(&["mode"]).unwrap_or(proxy.header));
    }
    connections(proxy, parts.global, &mut keys);
    let usage = FormatUse::Log { tcp: facts.tcp, tls: facts.tls, renamed: name != proxy.name };
    if let Some(log) = logs::access_log(proxy, parts.global, usage, around) {
        keys.extend(&log);
    }
    silent(parts.rules, facts, &mut keys);
    timeouts(proxy, &mut keys, facts);
    options(proxy, &mut keys);
    keys.extend(&parts.rules.listener);
    let mut changes = parts.rules.requests.clone();
    http_options::options(proxy, &mut keys, &mut changes, around.files, None);
    write_headers(&mut keys, "request_headers", &changes, facts, proxy.ledger);
    write_headers(&mut keys, "response_headers", &parts.rules.responses, facts, proxy.ledger);
    // HAProxy tells clients of HTTP/3 by a rule alone, which takes the place of Weir's own.
    if keys.has("http3") && !keys.names("response_headers", "alt-svc") {
        let never = TomlValue::inline([("alt_svc_max_age", "0s".into())]);
        keys.replace("http3", never);
    }
    for table in &parts.rules.tracks {
        keys.push("track", table.clone(), proxy.header);
    }
    let FrontendRoutes { routes, closed, .. } = FrontendRoutes::new(parts, facts, draft);
    for rule in parts.rules.lists.iter().chain(&closed) {
        if let Some(name) = list(rule, facts, draft, proxy.ledger) {
            keys.push("lists", name, rule.statement);
        }
    }
    place(&mut keys, routes, facts, proxy.ledger);
    errors::place_failures(&mut keys, proxy.ledger);
    keys
}

/// A list that refuses, by its name; one that says the same is used again.
pub(super) fn list<'s>(
    rule: &ListRule<'s>,
    facts: ListenerFacts,
    draft: &mut Draft,
    ledger: &crate::report::Ledger,
) -> Option<String> {
    let mut keys = rule.keys.clone();
    match rule.condition.clone().on(facts) {
        AclCondition::Constant(false) => return None,
        AclCondition::Constant(true) => keys.set("entries", vec!["0.0.0.0/0", "::/0"], rule.statement),
        AclCondition::Atom(atom) if atom.subject == AclSubject::Source => match &atom.test {
            AtomTest::Networks(networks) => keys.set("entries", networks.clone(), rule.statement),
            _ => return None,
        },
        condition if !condition.is_short() => {
            ledger.unsupported(rule.statement, TOO_LONG);
            ledger.unsupported(rule.statement, CLOSED);
            keys.set("status", 501, rule.statement);
            match condition.shortened() {
                AclCondition::Constant(_) => keys.set("entries", vec!["0.0.0.0/0", "::/0"], rule.statement),
                known => keys.set("when", literal(&known.expression()), rule.statement),
            }
        }
        condition => keys.set("when", literal(&condition.expression()), rule.statement),
    }
    let mut table = crate::document::DraftTable::default();
    keys.write(&mut table, &mut HashSet::new());
    let lists = draft.table(&["list"]);
    let known: Vec<String> = lists.keys().map(str::to_owned).collect();
    for name in &known {
        if lists.get_table(name) == Some(&table) {
            return Some(name.clone());
        }
    }
    let name = free_name(rule.name, &known);
    *lists.table(&name) = table;
    Some(name)
}

fn connections<'s>(proxy: &ProxySection<'s>, global: &GlobalFacts<'s>, keys: &mut Keys<'s>) {
    let Some((text, statement)) = proxy.value("maxconn") else { return };
    match text.parse::<i64>() {
        Ok(most) if global.maxconn.is_some_and(|all| all <= most) => {
            proxy.ledger.meaningless(statement, "`maxconn` of the process is no more than that");
        }
        Ok(most @ 1..) => {
            keys.set("connections_max", most.min(100_000_000), statement);
            proxy.ledger.exact(statement);
        }
        Ok(0) => proxy.ledger.meaningless(statement, "0 is no limit"),
        _ => proxy.ledger.unsupported(statement, "this is no number"),
    }
}

fn silent(rules: &SectionRules<'_>, facts: ListenerFacts, keys: &mut Keys<'_>) {
    if keys.get("access_log.format").is_none() {
        return;
    }
    let any = AclCondition::Any(rules.silent.clone()).on(facts);
    if !matches!(any, AclCondition::Constant(_)) {
        keys.set("access_log.when", literal(&any.negated().expression()), None);
    }
}

/// The times of HAProxy's client side by their phases.
fn timeouts<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>, facts: ListenerFacts) {
    let ledger = proxy.ledger;
    let client = proxy.timeout("client");
    match client {
        Some((_, statement)) => ledger.exact(statement),
        None => ledger.approximated(
            proxy.header,
            "without `timeout client`, HAProxy waits for ever: Weir has `timeouts` of its own",
        ),
    }
    if let Some((_, statement)) = proxy.timeout("client-fin") {
        ledger.approximated(statement, "a connection whose other half is closed has the time of a tunnel");
    }
    if let Some((time, statement)) = proxy.timeout("client-hs") {
        ledger.exact(statement);
        if facts.tls && time != 10_000 {
            keys.set("timeouts.tls", time_text(time), statement);
        }
    }
    if facts.tcp {
        return;
    }
    let request = proxy.timeout("http-request");
    let idle = proxy.timeout("http-keep-alive");
    for (_, statement) in [request, idle].into_iter().flatten() {
        ledger.exact(statement);
    }
    let mut set = |key: &str, found: Option<(u64, &'s crate::source::Statement)>, default: Option<u64>| {
        if let Some((time, statement)) = found.filter(|(time, _)| Some(*time) != default) {
            keys.set(&format!("timeouts.{key}"), time_text(time.max(1)), statement);
        }
    };
    set("request", request.or(client), Some(20_000));
    set("request_body", client, None);
    set("send", client, None);
    set("idle", idle.or(request).or(client), Some(75_000));
}

fn options<'s>(proxy: &ProxySection<'s>, keys: &mut Keys<'s>) {
    let ledger = proxy.ledger;
    if let Some((name, statement)) = proxy.value("unique-id-header") {
        ledger.exact(statement);
        keys.set("request_id.header", name.to_ascii_lowercase(), statement);
    }
    if let Some(statement) = proxy.one(&["unique-id-format"]) {
        http_options::take_all(proxy, statement);
        ledger.approximated(statement, "ids of requests have a form of Weir's own");
    }
    for name in ["clitcpka", "tcpka"] {
        if let Some(statement) = proxy.option(name) {
            http_options::take_all(proxy, statement);
            ledger.by_default(statement, "the kernel probes connections that are silent: `tcp_keepalive`");
        }
    }
    if let Some(statement) = proxy
        .option("accept-invalid-http-request")
        .or_else(|| proxy.option("accept-unsafe-violations-in-http-request"))
    {
        http_options::take_all(proxy, statement);
        keys.set("lenient.unsafe_target", true, statement);
        ledger.approximated(statement, "`lenient` permits each such rule by its name");
    }
    if let Some((backlog, statement)) = proxy.value("backlog") {
        ledger.exact(statement);
        if let Ok(length) = backlog.parse::<i64>() {
            keys.set("backlog", length.clamp(1, 65_535), statement);
        }
    }
}

/// Puts routes into a listener: what all requests have, into the listener itself.
fn place<'s>(
    keys: &mut Keys<'s>,
    mut routes: Vec<FrontendRoute<'s>>,
    facts: ListenerFacts,
    ledger: &crate::report::Ledger,
) {
    let of_listener =
        ["upstream", "request_headers", "response_headers", "compression", "error_pages", "lists", "track"];
    if let [only] = routes.as_slice()
        && only.condition == AclCondition::Constant(true)
        && only.keys.has("upstream")
        && only.keys.keys().iter().all(|key| of_listener.contains(key) && !keys.has(key))
    {
        keys.extend(&only.keys);
        return;
    }
    if let Some(last) = routes.last()
        && last.condition == AclCondition::Constant(true)
        && last.keys.keys() == ["upstream"]
    {
        let last = routes.pop().expect("there is one");
        keys.extend(&last.keys);
    }
    for route in routes.iter_mut().filter(|route| !route.condition.is_short()) {
        ledger.unsupported(route.statement, TOO_LONG);
        ledger.unsupported(route.statement, CLOSED);
        let mut keys = Keys::default();
        keys.set("respond.status", 501, route.statement);
        *route = FrontendRoute {
            condition: route.condition.clone().shortened(),
            keys,
            statement: route.statement,
        };
    }
    let routes: Vec<(Vec<(&'static str, TomlValue)>, FrontendRoute<'s>)> =
        routes.into_iter().map(|route| (route.condition.route_keys(facts), route)).collect();
    let matchers: Vec<&[(&'static str, TomlValue)]> =
        routes.iter().map(|(matchers, _)| matchers.as_slice()).collect();
    if order::matters(&matchers) {
        keys.set("route_order", "file", None);
    }
    for (matchers, route) in routes {
        let mut own = Keys::of(route.statement);
        for (key, value) in matchers {
            own.set(key, value, route.statement);
        }
        own.extend(&route.keys);
        keys.routes.push(own);
    }
}
