//! `reverse_proxy`: servers, how one is chosen, how they are watched and reached.

use super::fields::{self, FieldChange, FieldChangeKind};
use super::placeholders::{PlaceholderText, TextKind, translated};
use super::scope::{RouteBuilder, RouteScope};
use super::words::{arguments, behind_matcher};
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// An upstream in the making.
#[derive(Default)]
pub(super) struct UpstreamDraft {
    servers: Vec<String>,
    has_tls: bool,
    is_h2c: bool,
    pub(super) is_fastcgi: bool,
    tls: Vec<(String, TomlValue)>,
    timeouts: Vec<(String, TomlValue)>,
    health: Vec<(String, TomlValue)>,
    keys: Vec<(&'static str, TomlValue)>,
    has_policy: bool,
    has_ejection: bool,
    is_broken: bool,
}

/// What of a `reverse_proxy` is that of its route.
#[derive(Default)]
struct ProxyRoute<'s> {
    request: Vec<FieldChange<'s>>,
    response: Vec<FieldChange<'s>>,
    forward_host: Option<(String, &'s Statement)>,
}

/// Adds the route of a proxy; whether there is one.
pub(super) fn reverse_proxy<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    scope: &RouteScope<'s>,
) -> bool {
    let ledger = builder.ledger;
    let mut upstream = UpstreamDraft::default();
    let mut route = ProxyRoute::default();
    for word in behind_matcher(ledger, statement) {
        upstream.add_server(word, statement, ledger);
    }
    for child in statement.children() {
        match child.name() {
            "header_up" | "header_down" => header(child, ledger, &mut route),
            _ => upstream.option(child, ledger),
        }
    }
    if upstream.has_tls && route.forward_host.is_none() {
        let difference = "servers get the `Host` of the client, as from Caddy before 2.11; `forward_host = \"server\"` changes it";
        ledger.approximated(statement, difference);
    }
    ledger.exact(statement);
    let name = builder.upstream(upstream, statement);
    let mut scope = scope.clone();
    scope.settings.request.extend(route.request);
    // What `header_down` does comes before `header`, which sees what is left of the fields of the server.
    for change in &route.response {
        if change.kind == FieldChangeKind::Remove {
            let same = scope.settings.response.iter_mut().filter(|known| known.name == change.name);
            same.for_each(FieldChange::after_removal);
        }
    }
    scope.settings.response.splice(0..0, route.response);
    builder.push(&scope, statement, |table| {
        if let Some((host, from)) = route.forward_host {
            table.set("forward_host", host, from);
        }
        match name {
            Some(name) => table.set_beside("upstream", name, statement),
            // What cannot be said answers its requests, and gives them to no other route.
            None => table.set_plain("respond", TomlValue::inline([("status", 502_i64.into())])),
        }
    });
    true
}

impl<'s> RouteBuilder<'s, '_> {
    /// The name of an upstream, which is made unless there is one like it.
    pub(super) fn upstream(&mut self, draft: UpstreamDraft, statement: &'s Statement) -> Option<String> {
        if draft.servers.is_empty() || draft.is_broken {
            self.ledger.unsupported(statement, "it has no server that Weir can name");
            return None;
        }
        let wanted = draft.name(&self.site);
        let table = draft.into_table(statement);
        if let Some((name, _)) = self.upstreams.known.iter().find(|(_, known)| known.says_the_same(&table)) {
            return Some(name.clone());
        }
        let is_free = |name: &str| self.upstreams.known.iter().all(|(known, _)| known != name);
        let mut names =
            std::iter::once(wanted.clone()).chain((2..).map(|number| format!("{wanted}-{number}")));
        let name = names.find(|name| is_free(name))?;
        self.upstreams.known.push((name.clone(), table));
        Some(name)
    }
}

impl UpstreamDraft {
    /// Adds the servers that a word names.
    pub(super) fn add_server(&mut self, word: &str, statement: &Statement, ledger: &Ledger) {
        let (scheme, address) = match word.split_once("://") {
            Some((scheme, address)) => (scheme, address),
            None => ("http", word),
        };
        if let Some(path) = word.strip_prefix("unix/").or_else(|| word.strip_prefix("unix+h2c/")) {
            self.is_h2c |= word.starts_with("unix+h2c");
            return self.servers.push(format!("unix:/{}", path.trim_start_matches('/')));
        }
        if address.contains(['{', '/', '$']) || word.starts_with("srv+") {
            self.is_broken = true;
            return ledger
                .unsupported(statement, &format!("`{word}`: see `dynamic` and `discovery` of the upstream"));
        }
        let default_port = match scheme {
            "https" => "443",
            "http" | "h2c" => "80",
            _ => {
                self.is_broken = true;
                return ledger.unsupported(statement, &format!("Weir knows no `{scheme}` of servers"));
            }
        };
        self.has_tls |= scheme == "https";
        self.is_h2c |= scheme == "h2c";
        // A port alone is one of this machine.
        let address = match address.strip_prefix(':') {
            Some(port) => format!("localhost:{port}"),
            None => address.to_owned(),
        };
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, port),
            _ => (address.as_str(), default_port),
        };
        match port.split_once('-').map(|(from, to)| (from.parse::<u16>(), to.parse::<u16>())) {
            Some((Ok(from), Ok(to))) if from <= to && to - from < 1000 => {
                self.servers.extend((from..=to).map(|port| format!("{host}:{port}")));
            }
            _ => self.servers.push(format!("{host}:{port}")),
        }
    }

    /// Reads an option of `reverse_proxy`.
    pub(super) fn option(&mut self, statement: &Statement, ledger: &Ledger) {
        let words = arguments(ledger, statement);
        let number = |word: &str| word.parse::<i64>().ok();
        match (statement.name(), words.as_slice()) {
            ("to", servers) => servers.iter().for_each(|server| self.add_server(server, statement, ledger)),
            ("lb_policy", policy) => return self.policy(policy, statement, ledger),
            ("transport", ["http"]) => {
                statement.children().iter().for_each(|child| self.transport(child, ledger));
            }
            ("transport", ["fastcgi"]) => {
                self.is_fastcgi = true;
                for child in statement.children() {
                    ledger.unsupported(child, "see `fastcgi` of the route, and `php_fastcgi`");
                }
            }
            ("flush_interval", _) => {
                return ledger.by_default(statement, "Weir passes each piece of a response on as it comes");
            }
            ("lb_retries", [count]) if number(count).is_some_and(|count| (0..100).contains(&count)) => {
                let attempts = number(count).unwrap_or_default() + 1;
                self.keys.push(("retry", TomlValue::inline([("attempts_max", attempts.into())])));
            }
            ("lb_try_duration", [_]) => {
                return ledger.approximated(
                    statement,
                    "a request that cannot be sent again, as one with a long body, is not; Weir tries other servers at once and as often as `retry.attempts_max` of the upstream says",
                );
            }
            ("lb_try_interval", [_]) => {
                return ledger.approximated(statement, "Weir tries another server without a pause");
            }
            ("fail_duration" | "max_fails" | "unhealthy_status" | "unhealthy_latency", [_, ..]) => {
                self.has_ejection = true;
                return ledger.approximated(
                    statement,
                    "Weir ejects a server by consecutive failures and by the share of failures: see `ejection` of the upstream",
                );
            }
            ("unhealthy_request_count", [count]) if number(count).is_some() => {
                self.keys.push(("max_requests", number(count).unwrap_or(1).into()));
                return ledger.approximated(statement, "further requests wait in the queue of the upstream");
            }
            ("trusted_proxies", networks) => {
                return match super::networks(networks) {
                    Ok(_) => {
                        ledger.approximated(statement, "the listener trusts these peers on all its routes");
                    }
                    Err(why) => ledger.unsupported(statement, &why),
                };
            }
            (name, words) if name.starts_with("health_") => {
                return self.health(name, words, statement, ledger);
            }
            _ => return ledger.unsupported(statement, "see the upstream in docs/configuration.md"),
        }
        ledger.exact(statement);
    }

    fn policy(&mut self, words: &[&str], statement: &Statement, ledger: &Ledger) {
        self.has_policy = true;
        let other = "a client keeps to one server, but to another one than with Caddy";
        let mut hash = |key: &str| {
            self.keys.push(("balance", "consistent-hash".into()));
            self.keys.push(("hash_key", key.into()));
            self.keys.push(("hash_load_factor", "off".into()));
            ledger.approximated(statement, other);
        };
        match words {
            ["ip_hash" | "client_ip_hash"] => return hash("client-address/32,128"),
            ["uri_hash"] => return hash("{path}{query}"),
            ["header", name] => return hash(&format!("header:{}", name.to_ascii_lowercase())),
            ["query", name] => return hash(&format!("query:{name}")),
            ["random"] => self.keys.push(("balance", "random".into())),
            ["random_choose", "2"] => self.keys.push(("balance", "power-of-two".into())),
            ["round_robin"] => self.keys.push(("balance", "round-robin".into())),
            ["least_conn"] => {}
            ["cookie"] | ["cookie", _] => {
                let name = words.get(1).copied().unwrap_or("lb");
                self.keys.push(("affinity", TomlValue::inline([("cookie", name.into())])));
                return ledger.approximated(statement, "the value of the cookie is one of Weir's own");
            }
            ["first"] if self.servers.len() == 1 => {}
            _ => {
                return ledger
                    .unsupported(statement, "see `balance` of the upstream, and `backup` of its servers");
            }
        }
        ledger.exact(statement);
    }

    fn health(&mut self, name: &str, words: &[&str], statement: &Statement, ledger: &Ledger) {
        let (key, value): (&str, TomlValue) = match (name, words) {
            ("health_uri", [path]) if path.starts_with('/') => ("path", (*path).into()),
            ("health_path", [path]) => ("path", (*path).into()),
            ("health_port", [port]) if port.parse::<u16>().is_ok() => {
                ("port", i64::from(port.parse::<u16>().unwrap_or(80)).into())
            }
            ("health_interval" | "health_timeout", [time]) => match super::duration(time) {
                Some(time) => (&name["health_".len()..], time.into()),
                None => return ledger.unsupported(statement, "the time cannot be read"),
            },
            ("health_status", [status]) => match (status.strip_suffix("xx"), status.parse::<i64>()) {
                (Some(class), _) => ("status", format!("{class}00-{class}99").into()),
                (None, Ok(status)) => ("status", status.into()),
                _ => return ledger.unsupported(statement, "see `health.status` of the upstream"),
            },
            ("health_body", [expression]) => ("body_regex", (*expression).into()),
            ("health_method", [method]) => ("method", method.to_ascii_uppercase().into()),
            ("health_passes" | "health_fails", [count]) if count.parse::<i64>().is_ok() => {
                let key = if name == "health_passes" { "rise" } else { "fall" };
                (key, count.parse::<i64>().unwrap_or(1).into())
            }
            _ => return ledger.unsupported(statement, "see `health` of the upstream"),
        };
        self.health.push((key.to_owned(), value));
        ledger.exact(statement);
    }

    fn transport(&mut self, statement: &Statement, ledger: &Ledger) {
        let words = arguments(ledger, statement);
        let time = |word: &str| super::duration(word).map(TomlValue::from);
        match (statement.name(), words.as_slice()) {
            ("tls", []) => self.has_tls = true,
            ("tls_insecure_skip_verify", []) => {
                self.has_tls = true;
                self.tls.push(("verify".to_owned(), false.into()));
            }
            ("tls_server_name", [name]) if !name.contains('{') => {
                self.has_tls = true;
                self.tls.push(("server_name".to_owned(), (*name).into()));
            }
            ("tls_trusted_ca_certs", [file]) | ("tls_trust_pool", ["file", file]) => {
                self.has_tls = true;
                self.tls.push(("ca".to_owned(), (*file).into()));
            }
            ("tls_client_auth", [certificate, key]) => {
                self.has_tls = true;
                self.tls.push(("certificate".to_owned(), (*certificate).into()));
                self.tls.push(("key".to_owned(), (*key).into()));
            }
            ("versions", ["h2c" | "h2c 2"] | ["h2c", "2"] | ["2", "h2c"]) => self.is_h2c = true,
            ("versions", ["1.1"]) => {}
            ("versions", ["1.1", "2"] | ["2"]) => self.keys.push(("protocol", "auto".into())),
            ("dial_timeout", [word]) if time(word).is_some() => {
                self.timeouts.extend(time(word).map(|time| ("connect".to_owned(), time)));
            }
            ("response_header_timeout", [word]) if time(word).is_some() => {
                self.timeouts.extend(time(word).map(|time| ("response".to_owned(), time)));
            }
            ("keepalive", ["off"]) => {
                self.keys.push(("pool", TomlValue::inline([("idle_max", 0_i64.into())])));
            }
            ("keepalive", [word]) if time(word).is_some() => {
                self.timeouts.extend(time(word).map(|time| ("idle".to_owned(), time)));
            }
            ("proxy_protocol", [version @ ("v1" | "v2")]) => {
                self.keys.push(("proxy_protocol", (*version).into()));
            }
            ("compression", ["off"]) => {
                return ledger.by_default(statement, "Weir asks servers for no coding of its own");
            }
            ("keepalive_idle_conns" | "keepalive_idle_conns_per_host", [_]) => {
                return ledger.approximated(statement, "connections are kept by worker: see `pool.idle_max`");
            }
            ("read_buffer" | "write_buffer" | "max_response_header", _) => {
                return ledger.meaningless(statement, "Weir's buffers have sizes of their own");
            }
            _ => return ledger.unsupported(statement, "see the upstream in docs/configuration.md"),
        }
        ledger.exact(statement);
    }

    /// The name of the first server if it says something, else that of the site.
    fn name(&self, site: &str) -> String {
        let first = self.servers.first().map_or("", String::as_str);
        let host = match first.strip_prefix("unix:") {
            Some(path) => path.rsplit('/').next().unwrap_or(path).trim_end_matches(".sock"),
            None => first.rsplit_once(':').map_or(first, |(host, _)| host),
        };
        let is_telling =
            host.chars().any(|c| c.is_ascii_alphabetic()) && host != "localhost" && !host.contains(':');
        super::name(if is_telling { host } else { site })
    }

    fn into_table(mut self, statement: &Statement) -> DraftTable {
        let mut table = DraftTable::silently_of(statement);
        table.set_beside("servers", self.servers.clone(), statement);
        if self.is_fastcgi {
            table.set_plain("protocol", "fastcgi");
        } else if self.is_h2c {
            table.set_plain("protocol", "h2c");
        }
        if self.servers.len() > 1 && !self.has_policy {
            table.set_plain("balance", "random");
        }
        for (key, value) in self.keys {
            table.set_plain(key, value);
        }
        if self.has_tls {
            table.set_plain("tls", TomlValue::Inline(self.tls));
        }
        // Caddy waits for servers without a limit.
        for key in ["response", "relay"] {
            if self.timeouts.iter().all(|(known, _)| known != key) {
                self.timeouts.push((key.to_owned(), "off".into()));
            }
        }
        table.set_plain("timeouts", TomlValue::Inline(self.timeouts));
        if !self.health.is_empty() {
            let defaults: [(&str, TomlValue); 5] = [
                ("interval", "30s".into()),
                ("timeout", "5s".into()),
                ("status", "200-299".into()),
                ("rise", 1_i64.into()),
                ("fall", 1_i64.into()),
            ];
            for (key, value) in defaults {
                if self.health.iter().all(|(known, _)| known != key) {
                    self.health.push((key.to_owned(), value));
                }
            }
            table.set_plain("health", TomlValue::Inline(self.health));
        }
        if self.servers.len() > 1 && !self.has_ejection {
            table.set_plain("ejection", "off");
        }
        table
    }
}

/// `header_up` and `header_down`.
fn header<'s>(statement: &'s Statement, ledger: &Ledger, route: &mut ProxyRoute<'s>) {
    let words = arguments(ledger, statement);
    let is_request = statement.name() == "header_up";
    let (sign, name) = match words.first().and_then(|word| word.chars().next()) {
        Some(sign @ ('+' | '-' | '?' | '>')) => (sign, &words[0][1..]),
        _ => ('=', words.first().copied().unwrap_or_default()),
    };
    let name = name.to_ascii_lowercase();
    if name.contains('*') || name.is_empty() || sign == '?' || words.len() > 2 {
        if is_request {
            fields::not_set(
                words.first().copied().unwrap_or_default(),
                statement,
                ledger,
                &mut route.request,
            );
        }
        return ledger.unsupported(statement, "see `request_headers` and `response_headers` of the route");
    }
    let value = words.get(1).copied().unwrap_or_default();
    if is_request && matches!(sign, '=' | '>') {
        match (name.as_str(), value) {
            ("host", "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}") => {
                route.forward_host = Some(("server".to_owned(), statement));
                return ledger.exact(statement);
            }
            ("host", "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}") => {
                return ledger.by_default(statement, "servers get the `Host` of the client");
            }
            ("host", name) if !name.contains('{') => {
                route.forward_host = Some((name.to_owned(), statement));
                return ledger.exact(statement);
            }
            ("x-forwarded-for", "{remote_host}" | "{client_ip}" | "{http.request.remote.host}")
            | ("x-forwarded-proto", "{scheme}" | "{http.request.scheme}")
            | (
                "x-forwarded-host",
                "{host}" | "{hostport}" | "{http.request.host}" | "{http.request.hostport}",
            ) => {
                return ledger.by_default(statement, "Weir sends it");
            }
            _ => {}
        }
    }
    let value = match translated(value, TextKind::Field) {
        PlaceholderText::Text(value) => value,
        PlaceholderText::Unknown(placeholder) => {
            if is_request && sign != '+' {
                fields::not_set(words[0], statement, ledger, &mut route.request);
            }
            return ledger.unsupported(statement, &format!("Weir has no placeholder for `{placeholder}`"));
        }
    };
    let kind = match sign {
        '-' => FieldChangeKind::Remove,
        '+' => FieldChangeKind::Add,
        _ => FieldChangeKind::Set,
    };
    let of_servers = !is_request && kind != FieldChangeKind::Remove;
    let from = statement;
    let change = FieldChange { kind, name, value, when: None, of_servers, matched: None, from };
    if is_request {
        route.request.push(change);
    } else {
        route.response.push(change);
    }
    ledger.exact(statement);
}
