//! What a server says that holds for its listener as a whole: time limits and sizes of clients, who they are, HTTP/2.

use super::super::scope::Scope;
use super::super::units;
use super::set_once;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::networks;
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, _draft: &mut Draft, listener: &mut DraftTable) {
    timeouts(scope, listener);
    sizes(scope, listener);
    switches(scope, listener);
    client(scope, listener);
    http2(scope, listener);
}

/// Time limits of clients.
fn timeouts(scope: &Scope<'_>, listener: &mut DraftTable) {
    for (name, key, default) in [
        ("client_header_timeout", "request", "20s"),
        ("client_body_timeout", "request_body", ""),
        ("send_timeout", "send", ""),
        ("keepalive_time", "connection_age", ""),
    ] {
        let Some((statement, text)) = scope.text(name) else { continue };
        let Some(time) = units::duration(text) else { continue };
        if units::millis(text) == Some(0) {
            scope.ledger.approximated(statement, "Weir has no time limit of zero: its default holds");
        } else if time == default {
            scope.ledger.by_default(statement, "it is the default");
        } else {
            set_once(scope, listener.table("timeouts"), key, time, statement);
        }
    }
    if let Some(statement) = scope.one("keepalive_timeout") {
        let mut words = scope.words(statement);
        let text = words.text().unwrap_or_default();
        // A second time is for a field `Keep-Alive`, which clients need not get.
        words.rest();
        match (units::millis(text), units::duration(text)) {
            (Some(0), _) => {
                set_once(scope, listener.table("limits"), "requests_per_connection", 1, statement);
            }
            (Some(75_000), _) => scope.ledger.by_default(statement, "it is the default"),
            (Some(_), Some(time)) => set_once(scope, listener.table("timeouts"), "idle", time, statement),
            _ => {}
        }
    }
    if let Some((statement, text)) = scope.text("keepalive_requests")
        && let Ok(number @ 1..) = text.parse::<i64>()
    {
        set_once(scope, listener.table("limits"), "requests_per_connection", number, statement);
    }
}

/// Sizes of heads.
fn sizes(scope: &Scope<'_>, listener: &mut DraftTable) {
    let Some(statement) = scope.one("large_client_header_buffers") else { return };
    let mut words = scope.words(statement);
    let number = words.text().and_then(|text| text.parse::<u64>().ok());
    let size = words.text().and_then(units::bytes);
    let (Some(number), Some(size)) = (number, size) else { return };
    // One line fits into a buffer, and all of them into all buffers.
    let (target, head) = (size.clamp(256, 1 << 20), (number * size).clamp(1 << 10, 1 << 20));
    if target != 8 << 10 {
        set_once(scope, listener.table("limits"), "target_size", units::size(target), statement);
    }
    if head != 32 << 10 {
        set_once(scope, listener.table("limits"), "head_size", units::size(head), statement);
    }
    scope.ledger.exact(statement);
}

fn switches(scope: &Scope<'_>, listener: &mut DraftTable) {
    let ledger = scope.ledger;
    if let Some((statement, text)) = scope.text("underscores_in_headers") {
        if text == "on" {
            set_once(scope, listener.table("lenient"), "underscore_names", true, statement);
        } else {
            ledger.by_default(statement, "fields with an underscore in their names are dropped");
        }
    }
    if let Some((statement, text)) = scope.text("ignore_invalid_headers") {
        if text == "on" {
            ledger.approximated(statement, "a request with a field that is not well-formed is refused");
        } else {
            ledger.approximated(
                statement,
                "a request with a field that is not well-formed is refused, and not forwarded",
            );
        }
    }
    if let Some((statement, text)) = scope.text("merge_slashes") {
        if text == "on" {
            ledger.by_default(statement, "doubled slashes are one");
        } else {
            ledger.approximated(
                statement,
                "doubled slashes are one for routes; set `paths.forward = \"as-received\"` for servers",
            );
        }
    }
    if let Some((statement, text)) = scope.text("absolute_redirect") {
        if text == "on" {
            set_once(scope, listener, "absolute_redirect", true, statement);
        } else {
            ledger.by_default(statement, "redirects to paths are paths");
        }
    }
    if let Some((statement, text)) = scope.text("tcp_nodelay") {
        if text == "on" {
            ledger.by_default(statement, "small writes are sent at once");
        } else {
            set_once(scope, listener, "tcp_nodelay", false, statement);
        }
    }
}

/// `set_real_ip_from`, `real_ip_header`, `real_ip_recursive`.
fn client(scope: &Scope<'_>, listener: &mut DraftTable) {
    let ledger = scope.ledger;
    let proxies = scope.all("set_real_ip_from");
    if proxies.is_empty() {
        return client_of_locations(scope, listener);
    }
    let header = scope.text("real_ip_header");
    let name = header.map_or("x-real-ip".to_owned(), |(_, text)| text.to_ascii_lowercase());
    if name == "proxy_protocol" {
        // Whose headers count is a matter of `listen ... proxy_protocol`.
        let takes = scope
            .all("listen")
            .iter()
            .any(|listen| listen.words.iter().any(|word| word.text == "proxy_protocol"));
        if !takes {
            let why = "no `listen` here takes PROXY headers";
            proxies
                .iter()
                .chain(header.iter().map(|(statement, _)| statement))
                .for_each(|one| ledger.meaningless(one, why));
        }
        return;
    }
    for statement in &proxies {
        let text = scope.words(statement).text().unwrap_or_default();
        let network = match text {
            "unix:" => "unix".to_owned(),
            _ if text
                .split('/')
                .next()
                .is_some_and(|address| address.parse::<std::net::IpAddr>().is_ok()) =>
            {
                networks::network(text)
            }
            _ => {
                ledger.unsupported(statement, "name the network of the proxy; its name is not resolved");
                continue;
            }
        };
        listener.push_once("trusted_proxies", network, statement);
        ledger.exact(statement);
    }
    if let Some((statement, _)) = header {
        match name.as_str() {
            "x-forwarded-for" => {
                ledger.by_default(statement, "trusted proxies name the client in `X-Forwarded-For`");
            }
            _ => set_once(scope, listener, "client_address_header", name.as_str(), statement),
        }
    } else {
        listener.set_plain("client_address_header", "x-real-ip");
    }
    recursive(scope, &name, listener);
}

/// Locations that believe proxies, in a server that does not: the listener does where all that asks for addresses is in such locations, and they say
/// the same.
fn client_of_locations<'s>(scope: &Scope<'s>, listener: &mut DraftTable) {
    let (mut own, mut places, mut others_ask) = (Vec::new(), Vec::new(), false);
    places_of_proxies(scope.server(), &mut own, &mut others_ask);
    let Some(first) = own.first() else { return };
    // Servers that share an address are one listener.
    places_of_proxies(scope.outermost(), &mut places, &mut others_ask);
    let rules = |place: &'s Statement| -> Vec<&'s Statement> {
        place.children().iter().filter(|one| OF_CLIENT.contains(&one.name())).collect()
    };
    let texts = |place| rules(place).iter().map(|one| one.line()).collect::<Vec<String>>();
    if others_ask || places.iter().any(|place| texts(place) != texts(first)) {
        return;
    }
    client(&scope.within(first.children()), listener);
    for statement in own.iter().flat_map(|place| rules(place)).filter(|one| !scope.ledger.is_unsupported(one))
    {
        scope.ledger.words(statement).rest();
        let difference =
            "the listener believes these proxies: the other locations know clients, too, by what they say";
        scope.ledger.approximated(statement, difference);
    }
}

/// Who the client is.
const OF_CLIENT: [&str; 3] = ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];

/// Whether a rule is about addresses of clients, which are others where proxies are believed.
fn asks_for_address(statement: &Statement) -> bool {
    match statement.name() {
        "allow" | "deny" | "satisfy" | "limit_req" | "limit_conn" | "geo" | "ip_hash" => true,
        "if" | "map" | "split_clients" | "hash" => {
            statement.words.iter().any(|word| word.text.contains("remote_addr"))
        }
        _ => false,
    }
}

/// The locations that name proxies, and whether any other place has rules about addresses.
fn places_of_proxies<'s>(block: &'s [Statement], places: &mut Vec<&'s Statement>, others_ask: &mut bool) {
    *others_ask |= block.iter().any(asks_for_address);
    for location in block.iter().filter(|one| matches!(one.name(), "server" | "location" | "upstream")) {
        if location.children().iter().any(|one| one.name() == "set_real_ip_from") {
            places.push(location);
        } else {
            places_of_proxies(location.children(), places, others_ask);
        }
    }
}

/// `real_ip_recursive`, which nginx has off.
fn recursive(scope: &Scope<'_>, header: &str, listener: &mut DraftTable) {
    let ledger = scope.ledger;
    match scope.text("real_ip_recursive") {
        Some((statement, "on")) => {
            ledger.by_default(
                statement,
                "`X-Forwarded-For` is read from the back, up to the first address that is not trusted",
            );
        }
        Some((statement, _)) if header == "x-forwarded-for" => {
            set_once(scope, listener, "client_address_recursive", false, statement);
        }
        Some((statement, _)) => ledger.by_default(statement, "the header has one address"),
        None if header == "x-forwarded-for" => listener.set_plain("client_address_recursive", false),
        None => {}
    }
}

fn http2(scope: &Scope<'_>, listener: &mut DraftTable) {
    if let Some((statement, text)) = scope.text("http2_max_concurrent_streams")
        && let Ok(number @ 1..) = text.parse::<i64>()
    {
        if number == 128 {
            scope.ledger.by_default(statement, "it is the default");
        } else {
            set_once(
                scope,
                listener.table("http2"),
                "streams_max",
                TomlValue::Integer(number.min(10_000)),
                statement,
            );
        }
    }
}
