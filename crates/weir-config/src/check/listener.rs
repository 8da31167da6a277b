//! A listener: its routes without ties, its limits without contradictions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::route::{RouteId, RouteTable};

use super::{
    Surroundings, UpstreamNames, access_log, client_certificates, redirect, route, tls, warn_unreachable,
};
use crate::config::{Alike, Listener, Protocol, ProxyProtocol, Route};
use crate::key::{Located, Spanned};
use crate::mistake::{Finding, MistakeKind};
use crate::source_map::Span;
use crate::text::ListenerText;
use crate::value::{ListenAddress, print_duration};

pub(super) fn check(
    name: &Spanned<Box<str>>,
    text: &Located<ListenerText>,
    around: &Surroundings<'_>,
    findings: &mut Vec<Finding>,
) -> Listener {
    let routes = routes(name, text, around.upstreams, findings);
    let proxy_protocol = proxy_protocol(text, findings);
    check_values(text, findings);
    report_of_http(text, findings);
    warn_limits(text, findings);
    warn_request_id(text, findings);
    client_certificates::check_headers(text, findings);
    if let Some(own) = &text.value.access_log {
        access_log::check(own, around.files, findings);
    }
    let addresses = text.value.address.iter().flat_map(|addresses| &addresses.0);
    Listener {
        name: name.value.clone(),
        addresses: addresses.map(|address| address.value.clone()).collect(),
        proxy_protocol,
        routes: routes.into_iter().map(Arc::new).collect(),
        tls: text.value.tls.as_ref().map(|tls| tls::check(tls, around.files, findings)),
        ..text.value.clone().into_listener(around.document.access_log.value.clone())
    }
}

fn routes(
    listener: &Spanned<Box<str>>,
    text: &Located<ListenerText>,
    upstreams: &UpstreamNames<'_>,
    findings: &mut Vec<Finding>,
) -> Vec<Route> {
    let body_size = text.value.limits.value.body_size;
    let mut places: Vec<Span> = text.value.route.iter().map(|route| route.at).collect();
    let mut alike = Alike::default();
    let mut check = |route| route::check(route, &text.value, upstreams, &mut alike, findings);
    let mut routes: Vec<Route> = text.value.route.iter().map(&mut check).collect();
    if let Some(upstream) = &text.value.upstream {
        let mut route = Route::to_upstream("*", upstreams.find(upstream, findings));
        route.body_size = body_size;
        routes.push(route);
        places.push(upstream.at);
    }
    if routes.is_empty() && text.is_missing("route") && text.is_missing("upstream") {
        let what = format!("the listener `{}` has neither `upstream` nor a `route`", listener.value);
        let hint = format!("write `upstream = \"NAME\"`, or `[[listener.{}.route]]`", listener.value);
        findings.push(Finding::new(MistakeKind::MissingKey, listener.at, what).hint(hint));
    }
    check_route_names(text, &mut routes, findings);
    // A route that could not be read in full may take other requests than it seems to.
    let is_sound = |index: usize| text.value.route.get(index).is_none_or(|route| route.is_sound);
    let sound = routes.iter().enumerate().filter(|(index, _)| is_sound(*index));
    let rules = sound.map(|(index, route)| (Arc::clone(&route.matches), RouteId(index as u32)));
    match RouteTable::new(rules.collect()) {
        Ok(table) => redirect::check_loops(text, &routes, &table, findings),
        Err(ties) => {
            for tie in ties {
                let (first, second) = (tie.first.index(), tie.second.index());
                let what = format!(
                    "the routes `{}` and `{}` are equally specific and can take the same request",
                    routes[first].name, routes[second].name
                );
                let hint =
                    "make one more specific, or give it a `priority`: the order in the file does not decide";
                let finding = Finding::new(MistakeKind::Conflict, places[second], what).hint(hint);
                findings.push(finding.related(places[first], "the other one"));
            }
        }
    }
    routes
}

/// Names that the text gives are unique; those made from host and path become so.
fn check_route_names(text: &Located<ListenerText>, routes: &mut [Route], findings: &mut Vec<Finding>) {
    let given: Vec<Option<&Spanned<Box<str>>>> =
        text.value.route.iter().map(|route| route.value.name.as_ref()).collect();
    let mut known: HashMap<Box<str>, usize> = HashMap::with_capacity(routes.len());
    for (index, route) in routes.iter_mut().enumerate() {
        let earlier = match known.entry(route.name.clone()) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                entry.insert(index);
                continue;
            }
        };
        let [name, earlier_name] = [index, earlier].map(|index| given.get(index).copied().flatten());
        match (name, earlier_name) {
            (Some(name), Some(earlier)) => {
                let what = format!("two routes are called `{}`", name.value);
                findings.push(
                    Finding::new(MistakeKind::Duplicate, name.at, what)
                        .related(earlier.at, "the first is here"),
                );
            }
            _ => {
                route.name = format!("{}#{}", route.name, index + 1).into();
                known.entry(route.name.clone()).or_insert(index);
            }
        }
    }
}

/// What the kernel takes in whole seconds has to be whole seconds.
fn check_values(text: &Located<ListenerText>, findings: &mut Vec<Finding>) {
    for (key, value) in
        [("tcp_keepalive", text.value.tcp_keepalive), ("defer_accept", text.value.defer_accept)]
    {
        if let Some(value) = value
            && value.subsec_millis() != 0
        {
            let what = format!("`{key}` is in whole seconds; this is {}", print_duration(value));
            findings.push(Finding::new(MistakeKind::BadValue, text.key_at(key), what));
        }
    }
    if text.value.protocol == Protocol::Http
        && let (Some(at), None) = (text.value.timeouts.changed("tls"), &text.value.tls)
    {
        let what = "`tls` does nothing: the listener has no TLS";
        findings.push(Finding::new(MistakeKind::Unused, at, what));
    }
    if text.value.trusted_proxies.unix && has_no_unix_socket(text) {
        let what = "`\"unix\"` trusts nobody: the listener has no Unix socket";
        findings.push(Finding::new(MistakeKind::Unused, text.key_at("trusted_proxies"), what));
    }
}

fn has_no_unix_socket(text: &Located<ListenerText>) -> bool {
    let is_unix = |address: &Spanned<ListenAddress>| matches!(address.value, ListenAddress::Unix(_));
    text.value.address.as_ref().is_some_and(|addresses| !addresses.0.iter().any(is_unix))
}

fn proxy_protocol(text: &Located<ListenerText>, findings: &mut Vec<Finding>) -> Option<ProxyProtocol> {
    let section = text.value.proxy_protocol.as_ref()?;
    let from = section.value.from.clone()?;
    if from.networks.is_empty() && !from.unix {
        let what = "`from` is empty: no connection would begin with a header";
        let hint = "name the balancers in front, such as `from = [\"10.0.0.0/8\"]`";
        findings.push(Finding::new(MistakeKind::BadValue, section.key_at("from"), what).hint(hint));
    } else if from.unix && has_no_unix_socket(text) {
        let what = "`\"unix\"` is nobody: the listener has no Unix socket";
        findings.push(Finding::new(MistakeKind::Unused, section.key_at("from"), what));
    }
    Some(ProxyProtocol { from, timeout: section.value.timeout, header_size: section.value.header_size })
}

/// Reports what only requests have, where there are none.
fn report_of_http(text: &Located<ListenerText>, findings: &mut Vec<Finding>) {
    if text.value.protocol != Protocol::Tcp {
        return;
    }
    let of_listener =
        ["allow", "paths", "trusted_proxies", "forwarded", "request_id"].map(|key| (key, text.changed(key)));
    let of_timeouts = ["request", "request_body", "send", "idle"];
    let of_timeouts = of_timeouts.map(|key| (key, text.value.timeouts.changed(key)));
    let of_limits = [
        "head_size",
        "target_size",
        "headers",
        "trailer_size",
        "chunk_extension_size",
        "body_size",
        "requests_per_session",
    ];
    let of_limits = of_limits.map(|key| (key, text.value.limits.changed(key)));
    for (key, at) in of_listener.into_iter().chain(of_timeouts).chain(of_limits) {
        if let Some(at) = at {
            let what =
                format!("`{key}` does nothing here: the listener speaks `tcp`, so there are no requests");
            let finding = Finding::new(MistakeKind::Unused, at, what);
            findings.push(match key {
                "idle" => {
                    finding.hint("how long a connection may be silent is `upstream.NAME.timeouts.tunnel`")
                }
                _ => finding,
            });
        }
    }
}

fn warn_request_id(text: &Located<ListenerText>, findings: &mut Vec<Finding>) {
    let id = &text.value.request_id;
    if let Some(at) = id.changed("respond").filter(|_| id.value.respond && id.value.header.is_none()) {
        let what = "`respond` does nothing here: `header` is off, so there is no id";
        findings
            .push(Finding::new(MistakeKind::Unused, at, what).hint("name a header, such as `x-request-id`"));
    }
}

fn warn_limits(text: &Located<ListenerText>, findings: &mut Vec<Finding>) {
    let ListenerText { timeouts, limits, .. } = &text.value;
    if let Some(session) = timeouts.value.session {
        let session = (timeouts, "session", session);
        let limit = |key, limit: Duration| (timeouts, key, limit);
        warn_unreachable(limit("idle", timeouts.value.idle), session, findings);
        warn_unreachable(limit("request", timeouts.value.request), session, findings);
    }
    let (target, head) = (limits.value.target_size, limits.value.head_size);
    if let Some(at) = limits.changed("target_size").filter(|_| target > head) {
        let what = format!("`target_size` ({target}) is never reached: the whole head may have {head}");
        findings.push(Finding::new(MistakeKind::Doubtful, at, what).hint("raise `head_size`"));
    }
    if let (Some(per_client), Some(all)) = (text.value.connections_per_client_max, text.value.connections_max)
        && per_client > all
    {
        let what = format!("one client may have {per_client} connections, all together only {all}");
        findings.push(Finding::new(MistakeKind::Doubtful, text.key_at("connections_per_client_max"), what));
    }
}
