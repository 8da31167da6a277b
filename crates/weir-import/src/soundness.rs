//! The last step of an import: what Weir refuses of a result is taken out of it, and the statement that it comes from is not supported. What may
//! keep requests from a server is not opened by that: routes answer 501, listeners of TCP are left out.
//!
//! It is for what translations do not foresee. A message that comes up here often is one to translate better. Decision 306.

use crate::document::{Draft, DraftStep, DraftTable};
use crate::report::Ledger;
use crate::source::{ResultFault, SourceFiles, StatementId};

/// How often a result is checked: what is taken out may be what something else needs.
const ROUNDS_MAX: usize = 16;

/// Keys by which a route matches. They stay, so that other routes do not get its requests.
const MATCHES: [&str; 15] = [
    "name",
    "host",
    "path",
    "path_begins",
    "path_exact",
    "path_regex",
    "before_regex",
    "method",
    "header",
    "query",
    "sni",
    "source",
    "when",
    "priority",
    "internal",
];

/// Keys of routes and listeners that decide neither who gets an answer nor which server sees a request.
const HARMLESS: [&str; 16] = [
    "absolute_redirect",
    "access_log",
    "buffer_requests",
    "buffer_responses",
    "cache",
    "compression",
    "cors",
    "error_pages",
    "expires",
    "hsts",
    "max_ranges",
    "mirror",
    "response_headers",
    "rewrite_body",
    "rewrite_cookies",
    "rewrite_location",
];

/// Keys that a listener keeps when all of its requests are refused.
const OF_CLOSED: [&str; 5] = ["address", "protocol", "proxy_protocol", "tls", "trusted_proxies"];

/// A config that Weir takes: its text, and for each of its lines the statement that it comes from.
pub(crate) fn make_sound(
    draft: &mut Draft,
    ledger: &Ledger,
    files: &dyn SourceFiles,
) -> (String, Vec<Option<StatementId>>) {
    for _ in 0..ROUNDS_MAX {
        let (toml, origins) = draft.render();
        let faults = files.faults(&toml);
        if faults.is_empty() {
            return (toml, origins);
        }
        let places = draft.places();
        let mut has_changed = false;
        for fault in &faults {
            let place = places.get(fault.line.saturating_sub(1)).map(Vec::as_slice).unwrap_or_default();
            let before = origins.iter().take(fault.line).rev().find_map(|origin| *origin);
            let from = before.or_else(|| ledger.first());
            has_changed |= take_out(draft, ledger, fault, place, from);
        }
        if !has_changed {
            break;
        }
    }
    let (toml, _) = draft.render();
    if let (Some(first), Some(fault)) = (ledger.first(), files.faults(&toml).first()) {
        let advice = format!("nothing of the result is left: {}", fault.message);
        ledger.taken_out(first, &advice);
    }
    *draft = Draft::default();
    closed_listener(draft);
    draft.render()
}

/// Takes out what a fault is about. Returns whether anything is different.
fn take_out(
    draft: &mut Draft,
    ledger: &Ledger,
    fault: &ResultFault,
    place: &[DraftStep],
    from: Option<StatementId>,
) -> bool {
    let has_listener = draft.get(&["listener"]).is_some_and(|listeners| listeners.keys().next().is_some());
    if !has_listener {
        closed_listener(draft);
        return true;
    }
    if is_circle(fault)
        && let Some(route) = route_at(draft, place)
    {
        if !route.has("redirect") {
            return false;
        }
        route.remove("redirect");
        route.table("respond").set_plain("status", 508);
        let difference = "requests are redirected to where they are: clients give that up after some rounds, here they are answered 508";
        from.into_iter().for_each(|from| ledger.approximated_after_all(from, difference));
        return true;
    }
    let Some(what) = without(draft, place) else { return false };
    let advice = format!("Weir does not take what it becomes: {}; {what}", fault.message);
    from.into_iter().for_each(|from| ledger.taken_out(from, &advice));
    true
}

/// Whether a redirect leads back to where it is.
fn is_circle(fault: &ResultFault) -> bool {
    fault.message.starts_with("the redirect leads back to its own route")
}

/// The route in which a place is.
fn route_at<'d>(draft: &'d mut Draft, place: &[DraftStep]) -> Option<&'d mut DraftTable> {
    let [DraftStep::Key(top), DraftStep::Key(name), DraftStep::Key(key), DraftStep::Number(number), ..] =
        place
    else {
        return None;
    };
    if top != "listener" || key != "route" || !has_table(draft, &[top, name]) {
        return None;
    }
    draft.table(&[top, name]).tables_mut("route").get_mut(*number)
}

fn has_table(draft: &Draft, path: &[&str]) -> bool {
    draft.get(path).is_some()
}

/// The config without a place: what has become of it, or nothing where all is as before.
fn without(draft: &mut Draft, place: &[DraftStep]) -> Option<&'static str> {
    use DraftStep::{Key, Number};
    let [Key(top), rest @ ..] = place else { return None };
    match (top.as_str(), rest) {
        ("listener", [Key(name), Key(route), Number(_), inner @ ..]) if route == "route" => {
            if is_tcp(draft, name) {
                draft.table(&["listener"]).remove(name);
                return Some("its listener is left out");
            }
            let key = match inner.first() {
                Some(Key(key)) => Some(key.as_str()),
                _ => None,
            };
            let route = route_at(draft, place)?;
            if refuse_requests(route, key) {
                return Some(if is_harmless(key) {
                    "it is left out"
                } else {
                    "these requests are answered 501"
                });
            }
            close(draft.table(&["listener", name])).then_some("all requests of the listener are answered 501")
        }
        ("listener", [Key(name), inner @ ..]) => of_listener(draft, name, inner.first()),
        (_, [Key(name), ..]) => {
            let table = draft.table(&[top]);
            let is_there = table.has(name);
            table.remove(name);
            is_there.then_some("it is left out, with what needs it")
        }
        (_, _) => {
            let is_there = draft.root().has(top);
            draft.root().remove(top);
            is_there.then_some("it is left out")
        }
    }
}

fn is_tcp(draft: &Draft, listener: &str) -> bool {
    draft.get(&["listener", listener]).is_some_and(|table| table.text("protocol") == Some("tcp"))
}

fn is_harmless(key: Option<&str>) -> bool {
    key.is_some_and(|key| HARMLESS.contains(&key))
}

/// A fault of a listener itself.
fn of_listener(draft: &mut Draft, name: &str, key: Option<&DraftStep>) -> Option<&'static str> {
    let key = match key {
        Some(DraftStep::Key(key)) if key != "address" && !is_tcp(draft, name) => key.clone(),
        _ => {
            let listeners = draft.table(&["listener"]);
            let is_there = listeners.has(name);
            listeners.remove(name);
            return is_there.then_some("its listener is left out");
        }
    };
    let table = draft.table(&["listener", name]);
    let is_there = table.has(&key);
    table.remove(&key);
    if is_harmless(Some(&key)) {
        return is_there.then_some("it is left out");
    }
    (close(table) || is_there).then_some("all requests of the listener are answered 501")
}

/// A route without a key that is harmless, else one that answers 501: `false` where it does so already.
fn refuse_requests(route: &mut DraftTable, key: Option<&str>) -> bool {
    let has = key.is_some_and(|key| route.has(key));
    if is_harmless(key) && has {
        key.into_iter().for_each(|key| route.remove(key));
        return true;
    }
    let others: Vec<String> =
        route.keys().filter(|key| !MATCHES.contains(key)).map(ToOwned::to_owned).collect();
    let is_closed = others == ["respond"] && route.get_table("respond").is_some_and(is_501);
    others.iter().for_each(|key| route.remove(key));
    let is_match = key.is_some_and(|key| MATCHES.contains(&key));
    // It answers more requests then, all of them 501.
    key.filter(|_| is_match && has).into_iter().for_each(|key| route.remove(key));
    route.table("respond").set_plain("status", 501);
    !is_closed || is_match && has
}

fn is_501(respond: &DraftTable) -> bool {
    respond.get("status") == Some(&501.into()) && respond.keys().count() == 1
}

/// A listener that answers every request 501: `false` where it does so already.
fn close(listener: &mut DraftTable) -> bool {
    let others: Vec<String> =
        listener.keys().filter(|key| !OF_CLOSED.contains(key)).map(ToOwned::to_owned).collect();
    let is_closed =
        others == ["route"] && matches!(listener.tables("route"), [only] if only.keys().count() == 1);
    others.iter().for_each(|key| listener.remove(key));
    listener.push_table("route", closed_route());
    !is_closed
}

fn closed_route() -> DraftTable {
    let mut route = DraftTable::default();
    route.table("respond").set_plain("status", 501);
    route
}

/// A config has a listener; this one takes no requests of others.
fn closed_listener(draft: &mut Draft) {
    let listener = draft.table(&["listener", "http"]);
    listener.set_plain("address", "127.0.0.1:80");
    listener.push_table("route", closed_route());
}
