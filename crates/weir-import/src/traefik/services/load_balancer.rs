//! `loadBalancer`: servers, affinity and probes of an upstream.

use super::TraefikServices;
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;
use crate::traefik::transports;
use crate::traefik::tree::{
    child, duration, is_true, key, milliseconds, number, refuse, shown_time, template, value, value_of,
};

/// Servers and how they are spoken to.
struct ServerList {
    servers: Vec<(String, Option<i64>)>,
    scheme: String,
}

/// Reads a service with servers; whether these get their own address as `Host`.
pub(super) fn read<'s>(
    services: &TraefikServices<'s>,
    service: &'s Statement,
    kind: &'s Statement,
) -> Result<(DraftTable, bool), String> {
    let ledger = services.ledger;
    let mut table = DraftTable::of(service);
    let list = servers(kind, ledger)?;
    let values: Vec<TomlValue> = list
        .servers
        .iter()
        .map(|(address, weight)| match weight {
            Some(weight) => {
                TomlValue::inline([("address", address.as_str().into()), ("weight", (*weight).into())])
            }
            None => address.as_str().into(),
        })
        .collect();
    table.set_beside("servers", TomlValue::Array(values), kind);
    let named = child(kind, "serverstransport");
    let transport = services.transport(named)?.map(|statement| transports::read(statement, ledger));
    let transport = transport.unwrap_or_default();
    match list.scheme.as_str() {
        "https" => {
            if !transport.has_http1_only {
                table.set_plain("protocol", "auto");
            }
            let tls = transport.tls.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            table.set_plain("tls", TomlValue::Inline(tls));
        }
        "h2c" => table.set_plain("protocol", "h2c"),
        _ => {}
    }
    let is_group = list.servers.len() > 1;
    let mut has_own_host = false;
    if is_group {
        table.set_plain("balance", "round-robin");
    }
    for part in kind.children() {
        match key(part).as_str() {
            "servers" => ledger.exact(part),
            "sticky" => affinity(part, &mut table, ledger),
            "strategy" => strategy(part, &mut table, is_group, ledger),
            "healthcheck" => health(part, &mut table, ledger),
            "passhostheader" => {
                has_own_host = !is_true(ledger, part);
                ledger.exact(part);
            }
            "responseforwarding" => {
                for child in part.children() {
                    value(ledger, child);
                    ledger.by_default(child, "Weir passes each piece of a response on as it comes");
                }
                ledger.exact(part);
            }
            "serverstransport" => ledger.exact(part),
            "passivehealthcheck" => {
                refuse(ledger, part, "see `ejection` of the upstream: `max_fails` and `fail_timeout`");
            }
            _ => {}
        }
    }
    // Traefik waits for servers without a limit.
    let mut timeouts = transport.timeouts;
    for key in ["response", "relay"] {
        if timeouts.iter().all(|(known, _)| *known != key) {
            timeouts.push((key, "off".into()));
        }
    }
    let timeouts = timeouts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    table.set_plain("timeouts", TomlValue::Inline(timeouts));
    if let Some((count, from)) = transport.idle_max {
        table.set_beside("pool", TomlValue::inline([("idle_max", count.into())]), from);
        ledger.approximated(from, "connections are kept by worker");
    }
    if is_group {
        table.set_plain("ejection", "off");
    }
    ledger.exact(kind);
    Ok((table, has_own_host))
}

fn servers(kind: &Statement, ledger: &Ledger) -> Result<ServerList, String> {
    let mut list = ServerList { servers: Vec::new(), scheme: String::new() };
    let items = child(kind, "servers").map_or(&[][..], Statement::children);
    for item in items {
        let url = value_of(ledger, item, "url").ok_or("a server without `url`")?;
        let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("`{url}` is no URL of a server"))?;
        let usual_port = match scheme {
            "http" | "h2c" => 80,
            "https" => 443,
            _ => return Err(format!("Weir has no servers that speak `{scheme}`")),
        };
        if !list.scheme.is_empty() && list.scheme != scheme {
            return Err("servers of an upstream speak the same: write two upstreams".to_owned());
        }
        scheme.clone_into(&mut list.scheme);
        let (authority, path) = rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at));
        let keeps_path = child(item, "preservepath").is_some_and(|keeps| is_true(ledger, keeps));
        if keeps_path && path.len() > 1 {
            return Err("a path before that of the request: `replace_prefix` of the route".to_owned());
        }
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        if authority.is_empty() || authority.contains(['{', '}', ' ', ',']) {
            return Err(format!("`{url}` is no URL of a server"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let address = if has_port { authority.to_owned() } else { format!("{authority}:{usual_port}") };
        let weight = match child(item, "weight") {
            Some(weight) => Some(number(ledger, weight).ok_or("a weight is no number")?),
            None => None,
        };
        list.servers.push((address, weight));
        for own in item.children() {
            if matches!(key(own).as_str(), "url" | "weight" | "preservepath") {
                ledger.exact(own);
            }
        }
        ledger.exact(item);
    }
    if list.servers.is_empty() {
        return Err(
            "a service without servers answers 503: leave its routers out, or write `respond`".to_owned()
        );
    }
    Ok(list)
}

fn strategy(statement: &Statement, table: &mut DraftTable, is_group: bool, ledger: &Ledger) {
    let policy = match value(ledger, statement) {
        "wrr" => "round-robin",
        "p2c" => "power-of-two",
        "leasttime" => {
            table.set("balance", "peak-ewma", statement);
            return ledger.approximated(statement, "the server with the least weighted latency");
        }
        "hrw" => {
            table.set("balance", "consistent-hash", statement);
            table.set_plain("hash_key", "client-address/32,128");
            table.set_plain("hash_load_factor", "off");
            let difference = "a client keeps to one server, but to another one than with Traefik";
            return ledger.approximated(statement, difference);
        }
        _ => return ledger.unsupported(statement, "see `balance` of the upstream"),
    };
    if is_group {
        table.set("balance", policy, statement);
    }
    ledger.exact(statement);
}

/// `sticky` by a cookie.
fn affinity(statement: &Statement, table: &mut DraftTable, ledger: &Ledger) {
    let Some(cookie) = child(statement, "cookie") else { return };
    let mut entries: Vec<(String, TomlValue)> = Vec::new();
    let mut set = |key: &str, value: TomlValue| entries.push((key.to_owned(), value));
    let (mut is_hidden, mut has_same_site) = (false, false);
    for part in cookie.children() {
        match key(part).as_str() {
            "name" => set("cookie", value(ledger, part).into()),
            "secure" if is_true(ledger, part) => set("secure", true.into()),
            "httponly" => is_hidden = is_true(ledger, part),
            "samesite" => match value(ledger, part).to_ascii_lowercase().as_str() {
                site @ ("strict" | "lax" | "none") => {
                    has_same_site = true;
                    set("same_site", site.into());
                }
                _ => {
                    ledger.unsupported(part, "see `same_site` of `affinity`");
                    continue;
                }
            },
            "maxage" => match number(ledger, part) {
                Some(0) => {}
                Some(seconds) => set("max_age", format!("{seconds}s").into()),
                None => {
                    ledger.unsupported(part, "see `max_age` of `affinity`");
                    continue;
                }
            },
            "path" => set("path", value(ledger, part).into()),
            "domain" => set("domain", value(ledger, part).into()),
            "secure" => {}
            _ => continue,
        }
        ledger.exact(part);
    }
    if !is_hidden {
        set("http_only", false.into());
    }
    table.set_beside("affinity", TomlValue::Inline(entries), cookie);
    let note = match has_same_site {
        true => "the value of the cookie is one of Weir's own",
        false => "the value of the cookie is one of Weir's own, and it has `SameSite=Lax`",
    };
    ledger.approximated(cookie, note);
    ledger.exact(statement);
}

fn health(statement: &Statement, table: &mut DraftTable, ledger: &Ledger) {
    let mut entries: Vec<(&str, TomlValue)> = Vec::new();
    let (mut interval, mut timeout) = (30_000, 5_000);
    for part in statement.children() {
        let text = value(ledger, part);
        match key(part).as_str() {
            "path" => entries.push(("path", text.into())),
            "scheme" => match text {
                "http" => entries.push(("tls", false.into())),
                "https" => entries.push(("tls", true.into())),
                _ => continue,
            },
            "mode" if text == "http" => {}
            "mode" if text == "grpc" => entries.push(("kind", "grpc".into())),
            "method" => entries.push(("method", text.to_ascii_uppercase().into())),
            "hostname" => entries.push(("host", text.into())),
            "port" if text.parse::<u16>().is_ok() => {
                entries.push(("port", i64::from(text.parse::<u16>().unwrap_or(80)).into()));
            }
            "status" if text.parse::<i64>().is_ok_and(|status| (200..600).contains(&status)) => {
                entries.push(("status", text.parse::<i64>().unwrap_or(200).into()));
            }
            "interval" | "timeout" => match milliseconds(text).filter(|time| *time > 0) {
                Some(time) if key(part) == "interval" => interval = time,
                Some(time) => timeout = time,
                None => {
                    ledger.unsupported(part, "the time cannot be read");
                    continue;
                }
            },
            "unhealthyinterval" => match duration(ledger, part) {
                Some(time) => entries.push(("fast_interval", time.into())),
                None => continue,
            },
            "followredirects" if is_true(ledger, part) => {
                ledger.approximated(part, "a redirect counts as a success, and is not followed");
                continue;
            }
            "followredirects" => {
                ledger.by_default(part, "Weir follows no redirects");
                continue;
            }
            "headers" => {
                let fields = part.children().iter().map(|field| {
                    ledger.exact(field);
                    (field.name().to_ascii_lowercase(), template(value(ledger, field)).into())
                });
                entries.push(("headers", TomlValue::Inline(fields.collect())));
            }
            _ => continue,
        }
        ledger.exact(part);
    }
    if entries.iter().all(|(key, _)| !matches!(*key, "path" | "kind")) {
        entries.insert(0, ("path", "/".into()));
    }
    entries.push(("interval", shown_time(interval).into()));
    entries.push(("timeout", shown_time(timeout).into()));
    if entries.iter().all(|(key, _)| *key != "fast_interval") {
        entries.push(("fast_interval", shown_time(interval).into()));
    }
    entries.push(("rise", 1_i64.into()));
    entries.push(("fall", 1_i64.into()));
    let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    table.set_beside("health", TomlValue::Inline(entries), statement);
    ledger.exact(statement);
}
