//! `entryPoints`: addresses, and what holds for all requests that come in there.

use super::middlewares::RedirectRule;
use super::tree::{self, child, duration, is_true, key, names, refuse, value, value_of, values};
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// An address with all that it says of its listener.
pub(super) struct EntryPoint<'s> {
    pub(super) name: String,
    pub(super) address: String,
    pub(super) statement: Option<&'s Statement>,
    /// Whether routers that name no entry point are on it.
    pub(super) is_default: bool,
    /// Whether all its routers have TLS.
    pub(super) has_tls: bool,
    /// The resolver of certificates of its routers.
    pub(super) resolver: Option<&'s str>,
    pub(super) options: Option<&'s str>,
    pub(super) domains: Option<&'s Statement>,
    pub(super) middlewares: Vec<(&'s str, &'s Statement)>,
    /// All requests are redirected.
    pub(super) redirect: Option<RedirectRule<'s>>,
    /// Answers `/ping`.
    pub(super) ping: Option<&'s Statement>,
    /// Keys of the listener.
    pub(super) table: DraftTable,
    pub(super) trusts_peers: bool,
    /// Clients may speak HTTP/3, and the port that they are told of.
    pub(super) http3: Option<(&'s Statement, Option<i64>)>,
}

impl<'s> EntryPoint<'s> {
    /// One without a static config: its port is the one that its name stands for.
    pub(super) fn assumed(name: &str) -> Option<EntryPoint<'s>> {
        let address = match name {
            "web" | "http" => ":80",
            "websecure" | "web-secure" | "https" => ":443",
            _ => return None,
        };
        Some(EntryPoint::new(name, address.to_owned(), None))
    }

    fn new(name: &str, address: String, statement: Option<&'s Statement>) -> EntryPoint<'s> {
        EntryPoint {
            name: name.to_owned(),
            address,
            statement,
            is_default: false,
            has_tls: false,
            resolver: None,
            options: None,
            domains: None,
            middlewares: Vec::new(),
            redirect: None,
            ping: None,
            table: DraftTable::default(),
            trusts_peers: false,
            http3: None,
        }
    }

    /// The value that has the address of clients, as Traefik counts them: that of the connection or of its PROXY header.
    pub(super) fn client(&self) -> &'static str {
        if self.trusts_peers { "peer_address" } else { "client_address" }
    }

    pub(super) fn port(&self) -> &str {
        self.address.rsplit_once(':').map_or("80", |(_, port)| port)
    }
}

/// Reads all entry points of a static config.
pub(super) fn read<'s>(statement: &'s Statement, ledger: &Ledger) -> Vec<EntryPoint<'s>> {
    let mut points = Vec::new();
    for own in statement.children() {
        let address = value_of(ledger, own, "address").unwrap_or_default();
        let (address, protocol) = address.split_once('/').unwrap_or((address, "tcp"));
        if protocol.eq_ignore_ascii_case("udp") {
            refuse(ledger, own, "Weir forwards TCP; UDP is not supported");
            continue;
        }
        let address = address
            .strip_prefix("0.0.0.0")
            .map_or_else(|| address.to_owned(), |port| format!("0.0.0.0{port}"));
        if address.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) {
            refuse(ledger, own, "an address with a port is needed");
            continue;
        }
        let mut point = EntryPoint::new(own.name(), address, Some(own));
        own.children().iter().for_each(|part| point.part(part, ledger));
        ledger.exact(own);
        points.push(point);
    }
    let has_defaults = points.iter().any(|point| point.is_default);
    // That of the dashboard is none of them.
    let own = points.iter_mut().filter(|point| !has_defaults && point.name != "traefik");
    own.for_each(|point| point.is_default = true);
    redirects(&mut points, ledger);
    ledger.exact(statement);
    points
}

/// What leads to another entry point needs its port.
fn redirects<'s>(points: &mut [EntryPoint<'s>], ledger: &Ledger) {
    let ports: Vec<(String, String)> =
        points.iter().map(|point| (point.name.clone(), point.port().to_owned())).collect();
    for point in points {
        let Some(http) = point.statement.and_then(|own| child(own, "http")) else { continue };
        let Some(statement) = child(http, "redirections").and_then(|own| child(own, "entrypoint")) else {
            continue;
        };
        let (mut to, mut scheme, mut is_permanent) = ("", "https", true);
        for part in statement.children() {
            match key(part).as_str() {
                "to" => to = value(ledger, part),
                "scheme" => scheme = value(ledger, part),
                "permanent" => is_permanent = is_true(ledger, part),
                "priority" => {
                    value(ledger, part);
                    ledger.approximated(part, "the redirect is before all routers");
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        let port = match to.strip_prefix(':') {
            Some(port) => Some(port.to_owned()),
            None => ports.iter().find(|(name, _)| name == to).map(|(_, port)| port.clone()),
        };
        let Some(port) = port.filter(|_| matches!(scheme, "http" | "https")) else {
            refuse(ledger, statement, "there is no such entry point");
            continue;
        };
        ledger.exact(statement);
        if let Some(around) = child(http, "redirections") {
            ledger.exact(around);
        }
        let to = super::middlewares::scheme_target(scheme, &port);
        let when = point.trusts_peers.then(|| format!("!(header[\"x-forwarded-proto\"] == \"{scheme}\")"));
        point.redirect = Some(RedirectRule { when, to, is_permanent, needs_url: false, from: statement });
    }
}

fn networks(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| crate::networks::network(text)).collect()
}

impl<'s> EntryPoint<'s> {
    fn part(&mut self, part: &'s Statement, ledger: &Ledger) {
        match key(part).as_str() {
            "address" => ledger.exact(part),
            "asdefault" => {
                self.is_default = is_true(ledger, part);
                ledger.exact(part);
            }
            "reuseport" => {
                is_true(ledger, part);
                ledger.by_default(part, "each worker has a socket of its own");
            }
            "forwardedheaders" => self.forwarded(part, ledger),
            "proxyprotocol" => self.proxy_protocol(part, ledger),
            "transport" => self.transport(part, ledger),
            "http" => self.http(part, ledger),
            "http2" => {
                for child in part.children() {
                    if key(child) == "maxconcurrentstreams" && tree::number(ledger, child).is_some() {
                        ledger.approximated(child, "see `http2.streams_max` of the listener");
                    }
                }
                ledger.exact(part);
            }
            "http3" => self.http3(part, ledger),
            "allowacmebypass" => {
                is_true(ledger, part);
                ledger.by_default(part, "Weir answers only the challenges of its own orders");
            }
            "observability" => refuse(ledger, part, "see `access_log` of the listener, and `[traces]`"),
            "udp" => tree::ignore(ledger, part, "the entry point is none for UDP"),
            _ => {}
        }
    }

    fn http3(&mut self, statement: &'s Statement, ledger: &Ledger) {
        let mut port = None;
        for part in statement.children() {
            if key(part) == "advertisedport" {
                port = tree::number(ledger, part).filter(|port| *port > 0);
                ledger.exact(part);
            }
        }
        // `http3: true` is written, too.
        values(ledger, statement);
        self.http3 = Some((statement, port));
    }

    /// Whether its listener speaks HTTP/3: it has TLS 1.3.
    pub(super) fn write_http3(&self, has_tls: bool, table: &mut DraftTable, ledger: &Ledger) {
        let Some((statement, port)) = self.http3 else { return };
        let versions = table.get_table("tls").and_then(|tls| tls.get("versions"));
        let is_old = versions.is_some_and(|versions| *versions == TomlValue::from(vec!["1.2"]));
        if !has_tls || is_old {
            return ledger.approximated(
                statement,
                "HTTP/3 has the ports of TLS 1.3: here, clients use HTTP/2 and HTTP/1.1",
            );
        }
        ledger.exact(statement);
        if let Some(port) = port.filter(|port| port.to_string() != self.port()) {
            table.set_beside("http3", TomlValue::Inline(Vec::new()), statement);
            let value = format!("h3=\":{port}\"; ma=2592000");
            table.table("response_headers").table("set").set_plain("alt-svc", value);
            return;
        }
        let keys = TomlValue::inline([("alt_svc_max_age", "30d".into())]);
        table.set_beside("http3", keys, statement);
    }

    fn forwarded(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            match key(part).as_str() {
                "trustedips" => {
                    self.trusts_peers = true;
                    self.table.set("trusted_proxies", networks(&names(ledger, part)), part);
                    ledger.exact(part);
                }
                "insecure" if is_true(ledger, part) => {
                    self.trusts_peers = true;
                    self.table.set("trusted_proxies", vec!["0.0.0.0/0", "::/0"], part);
                    ledger.exact(part);
                }
                "insecure" => ledger.exact(part),
                "connection" => {
                    values(ledger, part);
                    ledger.unsupported(
                        part,
                        "fields that `Connection` names end here (RFC 9110 section 7.6.1)",
                    );
                }
                _ => {}
            }
        }
        ledger.exact(statement);
    }

    fn proxy_protocol(&mut self, statement: &'s Statement, ledger: &Ledger) {
        let mut from: Vec<&str> = Vec::new();
        for part in statement.children() {
            match key(part).as_str() {
                "trustedips" => from = names(ledger, part),
                "insecure" => {
                    if is_true(ledger, part) {
                        from = vec!["0.0.0.0/0", "::/0"];
                    }
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        if !from.is_empty() {
            let from = networks(&from);
            self.table.set("proxy_protocol", TomlValue::inline([("from", from.into())]), statement);
        }
        ledger.approximated(statement, "peers of this list have to send the header, and others may not");
    }

    fn transport(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            match key(part).as_str() {
                "respondingtimeouts" => {
                    for child in part.children() {
                        self.timeout(child, ledger);
                    }
                }
                "lifecycle" => {
                    for child in part.children() {
                        value(ledger, child);
                        let advice = match key(child).as_str() {
                            "requestacceptgracetimeout" => "see `process.stop_delay`",
                            "gracetimeout" => "see `process.stop_grace`, which is 30 s",
                            _ => continue,
                        };
                        ledger.approximated(child, advice);
                    }
                }
                "keepalivemaxrequests" => match tree::number(ledger, part) {
                    Some(0) => {}
                    Some(count) => {
                        self.table.table("limits").set_beside("requests_per_connection", count, part);
                    }
                    None => continue,
                },
                "keepalivemaxtime" => {
                    if let Some(time) = duration(ledger, part) {
                        self.table.table("timeouts").set_beside("connection_age", time, part);
                    }
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(statement);
    }

    fn timeout(&mut self, statement: &'s Statement, ledger: &Ledger) {
        let time = duration(ledger, statement);
        match (key(statement).as_str(), time) {
            ("idletimeout", Some(time)) => {
                self.table.table("timeouts").set_beside("idle", time, statement);
                ledger.exact(statement);
            }
            ("readtimeout", Some(time)) => {
                self.table.table("timeouts").set_beside("request", time, statement);
                ledger.approximated(
                    statement,
                    "it is the time for a head: bodies have `timeouts.request_body`, by their progress",
                );
            }
            ("readtimeout" | "idletimeout", None) => {
                ledger.approximated(statement, "there is always a limit: see `timeouts` of the listener");
            }
            ("writetimeout", _) => {
                ledger.approximated(statement, "responses have `timeouts.send`, by their progress");
            }
            _ => {}
        }
    }

    fn http(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            match key(part).as_str() {
                // Read when all entry points are known.
                "redirections" => {}
                "middlewares" => {
                    self.middlewares = names(ledger, part).into_iter().map(|name| (name, part)).collect();
                    ledger.exact(part);
                }
                "tls" => {
                    self.has_tls = true;
                    for child in part.children() {
                        match key(child).as_str() {
                            "certresolver" => self.resolver = Some(value(ledger, child)),
                            "options" => self.options = Some(value(ledger, child)),
                            "domains" => self.domains = Some(child),
                            _ => continue,
                        }
                        ledger.exact(child);
                    }
                    // `tls: true` is written, too.
                    values(ledger, part);
                    ledger.exact(part);
                }
                "encodequerysemicolons" => {
                    is_true(ledger, part);
                    ledger.approximated(part, "a semicolon in a query stays as it is");
                }
                "sanitizepath" => match is_true(ledger, part) {
                    true => ledger.by_default(part, "rules and servers see the normal form of a path"),
                    false => ledger.unsupported(
                        part,
                        "rules see the normal form of a path: see `paths` of the listener",
                    ),
                },
                "maxheaderbytes" => {
                    if let Some(size) = tree::number(ledger, part) {
                        let size = format!("{}B", size.clamp(1024, 1 << 20));
                        self.table.table("limits").set_beside("head_size", size, part);
                        ledger.exact(part);
                    }
                }
                _ => {}
            }
        }
        ledger.exact(statement);
    }
}
