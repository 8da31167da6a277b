//! `stream`: connections that are forwarded as they are, by the address that they come to or by the server name in their first bytes.

use std::collections::BTreeMap;

use super::scope::{Declared, Scope};
use super::upstreams::{self, PassTarget};
use super::{features, logs, process, tls, units, variables};
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

// The address of a listener.
mod listen;
// A map of server names.
mod names;

/// The block of `stream`.
pub(in crate::nginx) fn translate<'s>(scope: &Scope<'s>, draft: &mut Draft, block: &'s Statement) {
    let ledger = scope.ledger;
    let maps: BTreeMap<String, &'s Statement> = block
        .children()
        .iter()
        .filter(|child| matches!(child.name(), "map" | "geo" | "split_clients"))
        .filter_map(|child| Some((child.words.last()?.text.strip_prefix('$')?.to_owned(), child)))
        .collect();
    let declared = Declared { maps, ..Declared::default() };
    let stream = Scope::new(ledger, declared).within(block.children());
    ledger.exact(block);
    for child in block.children() {
        match child.name() {
            "server" => server(&stream, draft, child),
            "resolver" => process::resolver(&stream, draft, child),
            "error_log" => logs::error_log(&stream, draft, child, false),
            "log_format" | "access_log" | "upstream" | "map" => {}
            _ => {}
        }
    }
    for child in block.children() {
        if child.name() == "map" && !ledger.is_settled(child) {
            ledger.unsupported(
                child,
                "routes of TCP go by server name (`sni`) and address (`source`); say them there",
            );
        }
    }
}

fn server<'s>(stream: &Scope<'s>, draft: &mut Draft, statement: &'s Statement) {
    let ledger = stream.ledger;
    let scope = stream.within(statement.children());
    let listens = scope.own("listen");
    let mut listener = DraftTable::of(statement);
    let Some(kind) = listen::apply(&scope, &listens, &mut listener) else {
        return ledger.unsupported(statement, "UDP is not forwarded; have the servers reached by themselves");
    };
    listener.set_plain("protocol", "tcp");
    let Some(pass) = scope.own("proxy_pass").into_iter().next_back() else {
        let advice = "a listener of TCP forwards connections (`proxy_pass`), and does nothing else";
        return ledger.unsupported(statement, advice);
    };
    if kind.tls {
        tls::apply(&scope, draft, &mut listener);
    }
    let settings = settings(&scope);
    let outcome = routes(&scope, draft, &mut listener, pass, &settings);
    features::access(&scope, draft, &mut listener);
    limits(&scope, &mut listener);
    log(&scope, &mut listener);
    match outcome {
        Ok(()) => {
            ledger.exact(pass);
            ledger.exact(statement);
        }
        Err(advice) => {
            ledger.unsupported(pass, &advice);
            return ledger.unsupported(statement, "its servers are not known");
        }
    }
    let name = free_name(draft, &format!("tcp-{}", kind.name));
    *draft.table(&["listener", &name]) = listener;
}

fn free_name(draft: &mut Draft, base: &str) -> String {
    let listeners = draft.table(&["listener"]);
    let names = std::iter::once(base.to_owned()).chain((2..).map(|number| format!("{base}-{number}")));
    names.into_iter().find(|name| !listeners.has(name)).unwrap_or_default()
}

/// Time limits, TLS and the PROXY header of the servers' side.
fn settings(scope: &Scope<'_>) -> DraftTable {
    let ledger = scope.ledger;
    let mut settings = DraftTable::default();
    if let Some((statement, text)) = scope.text("proxy_connect_timeout")
        && let Some(time) = units::duration(text)
    {
        if time != "5s" {
            settings.table("timeouts").set("connect", time, statement);
        }
        ledger.exact(statement);
    }
    // nginx closes a connection after ten minutes of silence.
    match scope.text("proxy_timeout") {
        Some((statement, text)) => {
            if let Some(time) = units::duration(text) {
                if units::millis(text) != Some(3_600_000) {
                    settings.table("timeouts").set("tunnel", time, statement);
                }
                ledger.exact(statement);
            }
        }
        None => settings.table("timeouts").set_plain("tunnel", "10m"),
    }
    if let Some((statement, text)) = scope.text("proxy_protocol") {
        if text == "on" {
            settings.set("proxy_protocol", "v1", statement);
            ledger.exact(statement);
        } else {
            ledger.by_default(statement, "servers get no PROXY header");
        }
    }
    servers_tls(scope, &mut settings);
    source_address(scope, &mut settings);
    for (name, why) in [
        ("proxy_next_upstream", "a connection that cannot be opened is tried on another server"),
        ("proxy_next_upstream_tries", "a connection that cannot be opened is tried on another server"),
        ("proxy_next_upstream_timeout", "a connection that cannot be opened is tried on another server"),
        ("proxy_buffer_size", "bytes pass as they come"),
        ("proxy_socket_keepalive", "the kernel probes idle connections"),
        ("tcp_nodelay", "small writes are sent at once"),
    ] {
        if let Some(statement) = scope.one(name) {
            scope.words(statement).rest();
            ledger.by_default(statement, why);
        }
    }
    settings
}

/// TLS with servers.
fn servers_tls(scope: &Scope<'_>, settings: &mut DraftTable) {
    let ledger = scope.ledger;
    let Some((statement, text)) = scope.text("proxy_ssl") else { return };
    if text != "on" {
        return ledger.by_default(statement, "connections to servers are plain");
    }
    let table = settings.table("tls");
    if !scope.is_on("proxy_ssl_verify") {
        table.set_plain("verify", false);
    }
    ledger.approximated(statement, "servers get their name in the TLS handshake (SNI)");
    for (name, key) in [
        ("proxy_ssl_name", "server_name"),
        ("proxy_ssl_trusted_certificate", "ca"),
        ("proxy_ssl_certificate", "certificate"),
        ("proxy_ssl_certificate_key", "key"),
    ] {
        if let Some((statement, text)) = scope.text(name) {
            table.set(key, text, statement);
            ledger.exact(statement);
        }
    }
    for name in ["proxy_ssl_verify", "proxy_ssl_server_name"] {
        if let Some((statement, _)) = scope.text(name) {
            ledger.exact(statement);
        }
    }
}

/// The address from which servers are asked.
fn source_address(scope: &Scope<'_>, settings: &mut DraftTable) {
    let Some((statement, text)) = scope.text("proxy_bind") else { return };
    let value = match text {
        "$remote_addr" => {
            scope.words(statement).rest();
            "{client_address}"
        }
        _ if text.parse::<std::net::IpAddr>().is_ok() => text,
        _ => {
            let advice = "`source_address` of the upstream is an address, or that of the client";
            return scope.ledger.unsupported(statement, advice);
        }
    };
    settings.set("source_address", value, statement);
    scope.ledger.exact(statement);
}

/// Where connections go: one upstream, or one by the server name.
fn routes<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    listener: &mut DraftTable,
    pass: &'s Statement,
    settings: &DraftTable,
) -> Result<(), String> {
    let text = scope.words(pass).text().unwrap_or_default();
    if let Some((statement, value)) = scope.text("ssl_preread") {
        match value {
            "on" => scope.ledger.exact(statement),
            _ => scope.ledger.by_default(statement, "first bytes are not looked into"),
        }
    }
    if let Some(map) = text.strip_prefix('$').and_then(|name| scope.map(name)) {
        return names::routes(scope, draft, listener, map, settings);
    }
    let Some(constant) = variables::constant(scope, text) else {
        return Err("name an upstream, or have a map from `$ssl_preread_server_name`".to_owned());
    };
    let name = target(scope, draft, &constant, settings, pass)?;
    listener.set("upstream", name, pass);
    Ok(())
}

/// The upstream for a name of a block or an address.
fn target<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    text: &str,
    settings: &DraftTable,
    from: &'s Statement,
) -> Result<String, String> {
    let destination = upstreams::destination(scope, text, 0)?;
    let has_port = text.starts_with("unix:") || upstreams::split_port(text).1.is_some();
    if matches!(destination, PassTarget::Server { .. }) && !has_port {
        return Err(format!("`{text}` is no server; name a host and a port"));
    }
    Ok(upstreams::upstream(scope, draft, &destination, settings, from))
}

/// Limits on connections.
fn limits(scope: &Scope<'_>, listener: &mut DraftTable) {
    for (name, key) in [("proxy_upload_rate", "upload_rate"), ("proxy_download_rate", "download_rate")] {
        let Some((statement, text)) = scope.text(name) else { continue };
        match units::bytes(text) {
            Some(0) => scope.ledger.by_default(statement, "there is no limit"),
            Some(bytes) => {
                listener.table("limits").set(key, format!("{}/s", units::size(bytes)), statement);
                scope.ledger.exact(statement);
            }
            None => {}
        }
    }
    if let Some((statement, text)) = scope.text("preread_timeout")
        && let Some(time) = units::duration(text)
    {
        listener.table("timeouts").set("tls", time, statement);
        scope.ledger.exact(statement);
    }
    for statement in scope.all("limit_conn") {
        let mut words = scope.words(statement);
        let (zone, number) =
            (words.text().unwrap_or_default(), words.text().and_then(|text| text.parse::<i64>().ok()));
        let declared = scope.outermost().iter().find(|other| {
            other.name() == "limit_conn_zone"
                && other.words.iter().any(|word| word.text.starts_with(&format!("zone={zone}:")))
        });
        match (declared, number) {
            (Some(declared), Some(number)) if declared.words.get(1).is_some_and(|key| matches!(key.text.as_str(), "$binary_remote_addr" | "$remote_addr")) => {
                listener.set("connections_per_client_max", number, statement);
                scope.ledger.words(declared).rest();
                scope.ledger.exact(declared);
                scope.ledger.approximated(statement, "the connections of a client to this listener count; an IPv6 network of 64 bits is one client");
            }
            _ => scope.ledger.unsupported(statement, "`connections_per_client_max` of a listener counts by address; for other keys use `limited_by`"),
        }
    }
}

/// The access log of connections.
fn log(scope: &Scope<'_>, listener: &mut DraftTable) {
    let statements = scope.all("access_log");
    let Some((first, others)) = statements.split_first() else { return };
    for other in others {
        scope.words(other).rest();
        scope.ledger.approximated(other, "a listener has one access log, the first one here");
    }
    let output = scope.words(first).text().unwrap_or_default();
    if output == "off" {
        return scope.ledger.by_default(first, "there is no access log unless it is asked for");
    }
    if let Some(table) = logs::log(scope, first, output) {
        *listener.table("access_log") = table;
    }
}
