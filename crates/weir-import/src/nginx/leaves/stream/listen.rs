//! `listen` of a server of `stream`.

use super::super::scope::Scope;
use super::super::units;
use crate::document::DraftTable;
use crate::source::Statement;

/// What a listener is.
pub(super) struct StreamListen {
    /// Whether TLS ends there.
    pub(super) tls: bool,
    /// The port, for a name.
    pub(super) name: String,
}

/// Sets the addresses; none if it is UDP.
pub(super) fn apply(
    scope: &Scope<'_>,
    listens: &[&Statement],
    listener: &mut DraftTable,
) -> Option<StreamListen> {
    let mut kind = StreamListen { tls: false, name: String::new() };
    let mut addresses: Vec<String> = Vec::new();
    for statement in listens {
        let mut words = scope.ledger.words(statement);
        let Some(text) = words.text() else { continue };
        if words.flag("udp") {
            scope.ledger.unsupported(statement, "UDP is not forwarded");
            continue;
        }
        kind.tls |= words.flag("ssl");
        if words.flag("proxy_protocol") {
            for network in ["0.0.0.0/0", "::/0"] {
                listener.table("proxy_protocol").push_once("from", network, statement);
            }
        }
        if let Some(number) = words.option("backlog=").and_then(|text| text.parse::<i64>().ok()) {
            listener.set("backlog", number.clamp(1, 65_535), statement);
        }
        match words.option("so_keepalive=") {
            Some("off") => listener.set("tcp_keepalive", "off", statement),
            Some(text) => {
                if let Some(time) = text.split(':').next().and_then(units::duration) {
                    listener.set("tcp_keepalive", time, statement);
                }
            }
            None => {}
        }
        // Every worker has a socket of its own anyway, and IPv6 has its own address.
        for flag in ["reuseport", "bind", "default_server"] {
            words.flag(flag);
        }
        words.option("ipv6only=");
        words.option("rcvbuf=");
        words.option("sndbuf=");
        let address = address(text);
        if kind.name.is_empty() {
            kind.name = address
                .rsplit(':')
                .next()
                .unwrap_or("stream")
                .rsplit('/')
                .next()
                .unwrap_or("stream")
                .to_owned();
        }
        // `:80` is for IPv4 and IPv6.
        if !addresses.contains(&address) {
            addresses.push(address);
        }
        scope.ledger.exact(statement);
    }
    if addresses.is_empty() {
        return None;
    }
    match addresses.as_slice() {
        [only] => listener.set("address", only.as_str(), listens[0]),
        both if both.len() == 2 && is_any(&both[0], &both[1]) => {
            let port = both[0].rsplit(':').next().unwrap_or_default();
            listener.set("address", format!(":{port}"), listens[0]);
        }
        _ => listener.set("address", addresses, listens[0]),
    }
    Some(kind)
}

/// Whether two addresses are all of IPv4 and all of IPv6 on one port.
fn is_any(one: &str, other: &str) -> bool {
    let any = |text: &str| Some((text.strip_prefix("0.0.0.0:")?.to_owned(), 4)).or(None);
    let any6 = |text: &str| text.strip_prefix("[::]:").map(str::to_owned);
    let pair = |a: &str, b: &str| any(a).is_some_and(|(port, _)| any6(b).is_some_and(|other| other == port));
    pair(one, other) || pair(other, one)
}

/// The address as Weir writes it.
fn address(text: &str) -> String {
    if text.starts_with("unix:") {
        return text.to_owned();
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("0.0.0.0:{text}");
    }
    match text.strip_prefix("*:") {
        Some(port) => format!("0.0.0.0:{port}"),
        None => text.to_owned(),
    }
}
