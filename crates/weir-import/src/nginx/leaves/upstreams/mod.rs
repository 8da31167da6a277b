//! `upstream` blocks and the servers that a URL names, as upstreams of Weir. One that is used with different settings becomes several.

use super::scope::Scope;
use super::{units, variables};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

// How a server of a block is chosen.
mod balance;
// What a `server` of a block says.
mod server;

/// Where requests of a place go.
pub(super) enum PassTarget<'s> {
    /// `upstream NAME { }`.
    Block(&'s Statement),
    /// One server, as an address of Weir, and the name that the upstream gets.
    Server { address: String, name: String },
}

/// The `upstream` of this name, in `http` or `stream`.
fn block<'s>(scope: &Scope<'s>, name: &str) -> Option<&'s Statement> {
    let blocks = scope.outermost().iter().filter(|statement| statement.name() == "upstream");
    blocks.into_iter().find(|block| block.words.get(1).is_some_and(|word| word.text == name))
}

/// Where an authority leads: to an `upstream`, else to one server.
pub(super) fn destination<'s>(
    scope: &Scope<'s>,
    authority: &str,
    port: u16,
) -> Result<PassTarget<'s>, String> {
    match block(scope, authority) {
        Some(block) if block.children().iter().any(|child| child.name() == "server") => {
            Ok(PassTarget::Block(block))
        }
        Some(_) => Err(format!("the upstream `{authority}` has no server; name one")),
        None => single(authority, port)
            .ok_or_else(|| format!("`{authority}` is no server; name a host and a port")),
    }
}

/// A name of Weir for an upstream: letters, digits, `-`, `_` and `.`.
pub(super) fn name_of(text: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let name: String = text.chars().map(allowed).take(56).collect();
    let name = name.trim_matches(['-', '.']);
    if name.is_empty() { "app".to_owned() } else { name.to_owned() }
}

/// A server of a URL: its address, and a name for the upstream.
fn single(host_port: &str, default_port: u16) -> Option<PassTarget<'static>> {
    if let Some(path) = host_port.strip_prefix("unix:") {
        let file = path.rsplit('/').next().unwrap_or(path);
        let stem = file.strip_suffix(".sock").or_else(|| file.strip_suffix(".socket")).unwrap_or(file);
        return Some(PassTarget::Server { address: host_port.to_owned(), name: name_of(stem) });
    }
    let (host, port) = split_port(host_port);
    if host.is_empty() || host.contains(['/', ' ', '@', '?']) {
        return None;
    }
    let port = port.unwrap_or(default_port);
    let name = match host.trim_matches(['[', ']']).parse::<std::net::IpAddr>() {
        Ok(address) if address.is_loopback() => format!("local-{port}"),
        Ok(_) => name_of(&host.replace(['.', ':', '[', ']'], "-")),
        Err(_) if host == "localhost" => format!("local-{port}"),
        // Names within a network tell most by their first part.
        Err(_) => name_of(host.split('.').next().unwrap_or(host)),
    };
    Some(PassTarget::Server { address: format!("{host}:{port}"), name })
}

/// `host:port` and `[::1]:port`, with or without the port.
pub(super) fn split_port(text: &str) -> (&str, Option<u16>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (text, None),
        },
        _ => (text, None),
    }
}

/// The name of the upstream for a destination with these settings, which is made unless there is one that is the same.
pub(super) fn upstream<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    destination: &PassTarget<'s>,
    settings: &DraftTable,
    from: &'s Statement,
) -> String {
    let (base, mut table) = match destination {
        PassTarget::Block(block) => of_block(scope, block),
        PassTarget::Server { address, name } => {
            let mut table = DraftTable::default();
            table.set("servers", vec![address.as_str()], from);
            (name.clone(), table)
        }
    };
    table.merge(settings);
    all_attempts(destination, &mut table);
    for suffix in suffixes(settings) {
        let name = format!("{base}{suffix}");
        match draft.table(&["upstream"]).get_table(&name) {
            Some(known) if *known == table => return name,
            Some(_) => {}
            None => {
                if !suffix.is_empty() {
                    table.drop_comments();
                }
                *draft.table(&["upstream", &name]) = table;
                return name;
            }
        }
    }
    unreachable!("there is always another number")
}

/// nginx tries all servers of a block, where it is told when.
fn all_attempts(destination: &PassTarget<'_>, table: &mut DraftTable) {
    if table.get_table("retry").is_some_and(|retry| retry.get("attempts_max") == Some(&2.into())) {
        // The default, which is asked for.
        table.table("retry").remove("attempts_max");
        if table.table("retry").is_empty() {
            table.remove("retry");
        }
        return;
    }
    let PassTarget::Block(block) = destination else { return };
    let servers = block.children().iter().filter(|child| child.name() == "server").count();
    let asked =
        table.get_table("retry").is_some_and(|retry| retry.has("on_status") || retry.has("on_timeout"));
    if asked && servers > 2 && !table.table("retry").has("attempts_max") {
        table.table("retry").set_plain("attempts_max", i64::try_from(servers).unwrap_or(100).min(100));
    }
}

/// What names of further upstreams with the same servers end with: what is particular about them, else a number.
fn suffixes(settings: &DraftTable) -> impl Iterator<Item = String> {
    let mut telling = vec![String::new()];
    if settings.has("tls") {
        telling.push("-tls".to_owned());
    }
    if let Some(protocol) = settings.text("protocol") {
        telling.push(format!("-{protocol}"));
    }
    if let Some(time) = settings.get_table("timeouts").and_then(|timeouts| timeouts.text("response")) {
        telling.push(format!("-{time}"));
    }
    telling.into_iter().chain((2..).map(|number| format!("-{number}")))
}

/// The upstream that a block describes, and its name.
fn of_block(scope: &Scope<'_>, block: &Statement) -> (String, DraftTable) {
    let ledger = scope.ledger;
    let mut words = ledger.words(block);
    let name = words.text().unwrap_or_default();
    ledger.exact(block);
    let mut table = DraftTable::of(block);
    let servers: Vec<&Statement> = block.children().iter().filter(|child| child.name() == "server").collect();
    balance::policy(scope, block, servers.len(), &mut table);
    let parsed: Vec<server::UpstreamServer> =
        servers.iter().filter_map(|child| server::parse(scope, child)).collect();
    let all_kept = parsed.len() < 2 || parsed.iter().all(server::UpstreamServer::never_ejected);
    let list: Vec<TomlValue> = parsed.iter().map(|server| server.value(all_kept)).collect();
    table.set_plain("servers", list);
    server::shared(&parsed, &mut table);
    for child in block.children() {
        connection(scope, child, &mut table);
    }
    (name_of(name), table)
}

/// Connections that are kept, and what has no meaning in a block.
fn connection(scope: &Scope<'_>, child: &Statement, table: &mut DraftTable) {
    let ledger = scope.ledger;
    let first = child.words.get(1).map_or("", |word| word.text.as_str());
    match child.name() {
        "keepalive" => {
            ledger.words(child).rest();
            ledger.by_default(
                child,
                "Weir keeps connections to servers for further requests by itself (`pool`)",
            );
        }
        "keepalive_requests" => {
            if let (Ok(number @ 1..), Some(_)) = (first.parse::<i64>(), ledger.words(child).next()) {
                table.table("pool").set("requests_max", number, child);
                ledger.exact(child);
            }
        }
        "keepalive_time" | "keepalive_timeout" => {
            if let (Some(time), Some(_)) = (units::duration(first), ledger.words(child).next()) {
                let (group, key) =
                    if child.name() == "keepalive_time" { ("pool", "age_max") } else { ("timeouts", "idle") };
                table.table(group).set(key, time, child);
                ledger.exact(child);
            }
        }
        "zone" => ledger.meaningless(child, "all workers share the state of servers anyway"),
        "resolver" | "resolver_timeout" => {
            ledger.words(child).rest();
            ledger.by_default(
                child,
                "names of servers are resolved again by their TTL, by the resolvers of `[dns]`",
            );
        }
        "state" => ledger
            .unsupported(child, "list the servers, or follow a file with `discovery = { file = \"...\" }`"),
        "queue" => {
            let mut words = ledger.words(child);
            if let Ok(length @ 0..) = words.text().unwrap_or_default().parse::<i64>() {
                table.table("queue").set("length_max", length, child);
                if let Some(time) = words.option("timeout=").and_then(units::duration) {
                    table.table("timeouts").set("queue", time, child);
                }
                ledger.exact(child);
            }
        }
        _ => {}
    }
}

/// The text as a value of a hash key: what Weir has a name for, else placeholders.
fn hash_key(scope: &Scope<'_>, text: &str) -> Result<String, variables::UnknownVariable> {
    let template = variables::template(scope, text)?;
    let inner = template.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
    Ok(match inner {
        "client_address" => "client-address/32,128".to_owned(),
        "path" => "path".to_owned(),
        _ => match inner.split_once('.') {
            Some((kind @ ("header" | "cookie" | "query"), name)) if !inner.contains('{') => {
                format!("{kind}:{name}")
            }
            _ => template,
        },
    })
}
