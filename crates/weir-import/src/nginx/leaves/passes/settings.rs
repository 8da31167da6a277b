//! Time limits, TLS and sizes of the servers' side: what nginx says at the place of a pass, and Weir in the upstream.

use super::super::scope::Scope;
use super::super::{tls, units, variables};
use super::PassFamily;
use crate::document::DraftTable;
use crate::source::Statement;

/// The protocol of the servers.
pub(super) fn protocol(family: PassFamily, has_tls: bool, settings: &mut DraftTable, from: &Statement) {
    match (family, has_tls) {
        (PassFamily::Proxy, _) => {}
        (PassFamily::Fastcgi, _) => settings.set("protocol", "fastcgi", from),
        (PassFamily::Grpc, true) => settings.set("protocol", "h2", from),
        (PassFamily::Grpc, false) => settings.set("protocol", "h2c", from),
    }
}

/// All else that is a matter of the servers.
pub(super) fn of_servers(
    scope: &Scope<'_>,
    family: PassFamily,
    has_tls: bool,
    settings: &mut DraftTable,
    differences: &mut Vec<String>,
) {
    if family == PassFamily::Proxy {
        version(scope, has_tls, settings);
    }
    if has_tls {
        tls_with_servers(scope, family, settings, differences);
    }
    timeouts(scope, family, settings);
    head_size(scope, family, settings);
    let bind = format!("{}_bind", family.prefix());
    if let Some(statement) = scope.one(&bind) {
        let mut words = scope.words(statement);
        let text = words.text().unwrap_or_default();
        match (text, words.flag("transparent")) {
            ("off", _) => scope.ledger.by_default(statement, "the system chooses the address"),
            ("$remote_addr" | "$remote_addr:$remote_port", _) => {
                settings.set("source_address", "{client_address}", statement);
                scope.ledger.exact(statement);
            }
            (address, _) if address.parse::<std::net::IpAddr>().is_ok() => {
                settings.set("source_address", address, statement);
                scope.ledger.exact(statement);
            }
            _ => scope.ledger.unsupported(
                statement,
                "`source_address` of the upstream is an address, or that of the client",
            ),
        }
    }
}

/// `proxy_http_version`.
fn version(scope: &Scope<'_>, has_tls: bool, settings: &mut DraftTable) {
    let Some((statement, text)) = scope.text("proxy_http_version") else { return };
    match text {
        "2" | "2.0" => {
            settings.set("protocol", if has_tls { "h2" } else { "h2c" }, statement);
            scope.ledger.exact(statement);
        }
        _ => scope.ledger.by_default(statement, "servers are asked by HTTP/1.1"),
    }
}

/// `proxy_connect_timeout` and its like.
fn timeouts(scope: &Scope<'_>, family: PassFamily, settings: &mut DraftTable) {
    let keys = [("connect", "connect", "5s"), ("send", "send", "30s")];
    for (name, key, default) in keys {
        let Some((statement, text)) = scope.text(&format!("{}_{name}_timeout", family.prefix())) else {
            continue;
        };
        let Some(time) = units::duration(text) else { continue };
        if time != default {
            settings.table("timeouts").set(key, time, statement);
        }
        scope.ledger.exact(statement);
    }
    let Some((statement, text)) = scope.text(&format!("{}_read_timeout", family.prefix())) else { return };
    let Some(time) = units::duration(text) else { return };
    let seconds = units::millis(text).unwrap_or_default();
    if seconds != 60_000 {
        let timeouts = settings.table("timeouts");
        timeouts.set("response", time.as_str(), statement);
        timeouts.set("relay", time.as_str(), statement);
    }
    // Only where nginx forwards upgrades are there tunnels to time.
    if family == PassFamily::Proxy && upgrades(scope) && seconds != 3_600_000 {
        settings.table("timeouts").set("tunnel", time, statement);
    }
    scope.ledger.exact(statement);
}

/// Whether the place forwards `Upgrade`.
fn upgrades(scope: &Scope<'_>) -> bool {
    let is_upgrade = |statement: &&Statement| {
        statement.words.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case("upgrade"))
    };
    scope.all("proxy_set_header").iter().any(is_upgrade)
}

/// The buffer that the head of a response has to fit into.
fn head_size(scope: &Scope<'_>, family: PassFamily, settings: &mut DraftTable) {
    let Some((statement, text)) = scope.text(&format!("{}_buffer_size", family.prefix())) else { return };
    match units::bytes(text) {
        Some(bytes) if bytes > 32 << 10 => {
            settings.table("limits").set("head_size", units::size(bytes.min(1 << 20)), statement);
            scope.ledger.exact(statement);
        }
        Some(_) => scope.ledger.by_default(statement, "heads of responses have up to 32 KiB"),
        None => {}
    }
}

/// `https://`: nginx verifies nothing and sends no name unless it is told to.
fn tls_with_servers(
    scope: &Scope<'_>,
    family: PassFamily,
    settings: &mut DraftTable,
    differences: &mut Vec<String>,
) {
    let name = |rest: &str| format!("{}_ssl_{rest}", family.prefix());
    let table = settings.table("tls");
    let verifies = scope.is_on(&name("verify"));
    if !verifies {
        table.set_plain("verify", false);
    }
    if let Some((statement, _)) = scope.text(&name("verify")) {
        scope.ledger.exact(statement);
    }
    if !scope.is_on(&name("server_name")) {
        differences.push(
            "servers get their name in the TLS handshake (SNI), which nginx does not send here".to_owned(),
        );
    }
    if let Some((statement, text)) = scope.text(&name("server_name")) {
        if text == "on" {
            scope.ledger.by_default(statement, "servers get their name in the TLS handshake");
        } else {
            scope.ledger.approximated(statement, "servers get their name in the TLS handshake all the same");
        }
    }
    if let Some((statement, text)) = scope.text(&name("name")) {
        match variables::constant(scope, text) {
            Some(host) => {
                table.set("server_name", host, statement);
                scope.ledger.exact(statement);
            }
            None if text == "$proxy_host" => {
                scope.ledger.by_default(statement, "it is the host of the server");
            }
            None => scope.ledger.unsupported(
                statement,
                "`tls.server_name` of an upstream is one name; make an upstream for each",
            ),
        }
    }
    for (rest, key) in [
        ("trusted_certificate", "ca"),
        ("crl", "crl"),
        ("certificate", "certificate"),
        ("certificate_key", "key"),
    ] {
        let Some((statement, text)) = scope.text(&name(rest)) else { continue };
        if matches!(rest, "trusted_certificate" | "crl") && !verifies {
            scope.ledger.meaningless(statement, "certificates of servers are not verified here");
            continue;
        }
        table.set(key, text, statement);
        scope.ledger.exact(statement);
    }
    tls_choices(scope, &name, table);
}

/// Versions, suites, sessions.
fn tls_choices(scope: &Scope<'_>, name: &dyn Fn(&str) -> String, table: &mut DraftTable) {
    if let Some(statement) = scope.one(&name("protocols")) {
        tls::versions(scope, statement, table);
    }
    if let Some(statement) = scope.one(&name("ciphers")) {
        tls::cipher_suites(scope, statement, table);
    }
    if let Some((statement, text)) = scope.text(&name("session_reuse")) {
        if text == "off" {
            table.set("session_reuse", false, statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "sessions with servers are resumed");
        }
    }
    if let Some((statement, text)) = scope.text(&name("key_log")) {
        table.set("key_log", text, statement);
        scope.ledger.exact(statement);
    }
    if let Some((statement, _)) = scope.text(&name("verify_depth")) {
        scope.ledger.meaningless(statement, "chains are followed as far as they lead to an authority");
    }
}
