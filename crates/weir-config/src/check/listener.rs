//! A listener: its routes without ties, its limits without contradictions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use super::admission::{limit, table};
use super::cache;
use super::certificates::{client_certificates, tls};
use super::routing::headers;
use super::routing::headers::ListenerDefaults;
use super::routing::{accel, access_log, rewrites, route, route_order};
use crate::check::names::warn_unreachable;
use crate::check::scope::CheckScope;
use crate::check::templates::TemplatePlace;
use crate::config::{
    AccessList, ClientAddressHeader, ConfigFault, Interner, LimitUse, Listener, ListenerFault, ListenerParts,
    ProxyProtocol, Route, TrackedTable, TrustedProxies, ValueFault,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{ListenerText, TrustedPeersText};
use crate::value::{ListenAddress, OwnNames};

pub(super) fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<ListenerText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Listener {
    let headers = headers::check_listener(text, around, diagnostics);
    let lists = around.lists.named(&[], &text.value.lists, diagnostics);
    let limited_by = around.limits.of_listener(&text.value.limited_by, diagnostics);
    let tracked = around.tables.of(&[], &text.value.track, diagnostics);
    let rules = (&*lists, &*limited_by, &*tracked);
    let routes = routes(name, text, &headers, rules, around, diagnostics);
    if !text.value.protocol.routes_requests() {
        limit::report_of_http(name, &routes, diagnostics);
        table::report_of_http(name, &routes, diagnostics);
        report_passthrough(text, diagnostics);
    }
    let proxy_protocol = proxy_protocol(text, around, diagnostics);
    let trusted_proxies = trusted(&text.value.trusted_proxies, around, diagnostics);
    let exempt = text.value.connections_exempt.as_ref().map_or(&[][..], |names| &names.0);
    let connections_exempt = around.lists.of_peers(exempt, diagnostics);
    check_values(text, diagnostics);
    check_trust(text, diagnostics);
    report_of_http(text, diagnostics);
    warn_limits(text, diagnostics);
    warn_request_id(text, diagnostics);
    client_certificates::check_headers(text, diagnostics);
    if let Some(own) = &text.value.access_log {
        access_log::of_listener(own, around.files, diagnostics);
    }
    let tls = text.value.tls.as_ref().map(|tls| tls::check(tls, &routes, around.files, diagnostics));
    let addresses = text.value.address.iter().flat_map(|addresses| &addresses.0);
    let listener = Listener::assume(ListenerParts {
        name: name.value.clone(),
        addresses: addresses.map(|address| address.value.clone()).collect(),
        proxy_protocol,
        trusted_proxies,
        connections_exempt,
        lists,
        limited_by,
        tracked,
        isolated_names: Vec::new(),
        forwards_encoded_slashes: false,
        response_headers: headers.response,
        error_pages: headers.error_pages,
        routes: routes.into_iter().map(Arc::new).collect(),
        rewrites: rewrites::check(&text.value.rewrite, &TemplatePlace::OF_LISTENER, diagnostics),
        tls,
        ..text.value.clone().into_listener(around.document.access_log.value.clone())
    });
    report(listener.faults(), text, diagnostics);
    listener
}

fn routes(
    listener: &Spanned<Box<str>>,
    text: &SpannedTable<ListenerText>,
    headers: &ListenerDefaults,
    rules: (&[Arc<AccessList>], &[LimitUse], &[Arc<TrackedTable>]),
    scope: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Route> {
    let body_size = text.value.limits.value.body_size;
    let mut places: Vec<SourceSpan> = text.value.route.iter().map(|route| route.span).collect();
    let mut interner = Interner::default();
    let mut check =
        |route| route::check(route, &text.value, headers, rules, scope, &mut interner, diagnostics);
    let mut routes: Vec<Route> = text.value.route.iter().map(&mut check).collect();
    if let Some(upstream) = &text.value.upstream {
        let mut route = Route::to_upstream("*", scope.upstreams.find(upstream, diagnostics));
        let parts = route.parts_mut();
        parts.lists = rules.0.to_vec();
        parts.tracked = rules.2.to_vec();
        parts.limited_by = scope.limits.of_route(rules.1, &None, &parts.action, diagnostics);
        parts.body_size = body_size;
        parts.request_headers = headers.request.clone();
        parts.response_headers = headers.response.clone();
        parts.compression = text.value.compression.to_compression();
        parts.rewrite_body = headers.rewriting.body.clone();
        parts.rewrite_location = headers.rewriting.location.clone();
        parts.rewrite_cookies = headers.rewriting.cookies.clone();
        parts.error_pages = headers.error_pages.clone();
        routes.push(route);
        places.push(upstream.span);
    }
    if routes.is_empty() && text.is_missing("route") && text.is_missing("upstream") {
        let message = format!("the listener `{}` has neither `upstream` nor a `route`", listener.value);
        let help = format!("write `upstream = \"NAME\"`, or `[[listener.{}.route]]`", listener.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, listener.span, message).help(help));
    }
    check_route_names(text, &mut routes, diagnostics);
    cache::set_partitions(&listener.value, &mut routes, scope.upstreams, &mut interner);
    route_order::check(text, (&routes, &places), diagnostics);
    rewrites::check_targets(text, &routes, diagnostics);
    accel::check_targets(text, &routes, diagnostics);
    routes
}

/// Names that the text gives are unique; those made from host and path become so.
fn check_route_names(
    text: &SpannedTable<ListenerText>,
    routes: &mut [Route],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let given: Vec<Option<&Spanned<Box<str>>>> =
        text.value.route.iter().map(|route| route.value.name.as_ref()).collect();
    let mut known: HashMap<Arc<str>, usize> = HashMap::with_capacity(routes.len());
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
                let message = format!("two routes are named `{}`", name.value);
                diagnostics.push(
                    Diagnostic::new(DiagnosticKind::Duplicate, name.span, message)
                        .label(earlier.span, "the first is here"),
                );
            }
            _ => {
                route.parts_mut().name = format!("{}#{}", route.name, index + 1).into();
                known.entry(route.name.clone()).or_insert(index);
            }
        }
    }
}

/// Gives what does not hold of a listener its place in the text; that of its addresses and routes has been found with those of others.
fn report(faults: Vec<ConfigFault>, text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    for fault in faults {
        let ValueFault::Listener(fault) = fault.fault else { continue };
        let bad = |at| Diagnostic::new(DiagnosticKind::BadValue, at, fault.to_string());
        diagnostics.push(match &fault {
            ListenerFault::NotWholeSeconds { key, .. } => bad(text.key_at(key)),
            ListenerFault::Rate(_) => {
                bad(text.value.connections_per_client_rate.as_ref().map_or(text.span, |rate| rate.span))
            }
            // A list that there is not has been reported.
            ListenerFault::NoProxyPeer if names_lists(text) => continue,
            ListenerFault::NoProxyPeer => {
                let help = "name the balancers in front, such as `from = [\"10.0.0.0/8\"]`";
                bad(text.value.proxy_protocol.as_ref().map_or(text.span, |one| one.key_at("from"))).help(help)
            }
            ListenerFault::NoHttp3(_) => {
                let help = "write `tls`, or remove `http3`";
                let kind = DiagnosticKind::Conflict;
                Diagnostic::new(kind, text.key_at("http3"), fault.to_string()).help(help)
            }
            ListenerFault::EarlyDataAndClientCertificates => {
                let at = text.value.http3.as_ref().map_or(text.span, |http3| http3.key_at("early_data"));
                let help = "remove `early_data`, or ask for certificates on a listener of their own";
                Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string()).help(help)
            }
            ListenerFault::NoSuite(_)
            | ListenerFault::NoTlsVersion
            | ListenerFault::TicketsAndClientCertificates
            | ListenerFault::NoAddress
            | ListenerFault::AddressTwice(_)
            | ListenerFault::NoListOfPeers(_)
            | ListenerFault::NoSuchRoute(_)
            | ListenerFault::ThenCircle(_)
            | ListenerFault::OnlyToUpstreams => continue,
        });
    }
}

/// Whether the peers that send PROXY headers are in lists.
fn names_lists(text: &SpannedTable<ListenerText>) -> bool {
    let from = text.value.proxy_protocol.as_ref().and_then(|one| one.value.from.as_ref());
    from.is_some_and(|from| !from.lists.is_empty())
}

/// Warns of values that nothing can make use of.
fn check_values(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    if text.value.protocol.routes_requests()
        && let (Some(at), None) = (text.value.timeouts.changed("tls"), &text.value.tls)
    {
        let message = "`tls` has no effect: the listener has no TLS";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    if text.value.trusted_proxies.unix && has_no_unix_socket(text) {
        let message = "`\"unix\"` matches no peer: the listener has no Unix socket";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, text.key_at("trusted_proxies"), message));
    }
}

/// Warns of what only trusted proxies, or limits on connections, make any use of.
fn check_trust(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    let value = &text.value;
    let trusted = &value.trusted_proxies;
    let trusts_none = trusted.networks.is_empty() && trusted.lists.is_empty() && !trusted.unix;
    if let Some(at) = text.changed("client_address_header").filter(|_| trusts_none && text.is_sound) {
        let message = "`client_address_header` has no effect: there are no `trusted_proxies`";
        let help = "name the networks of the proxies in front: no other peer is believed";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
    let is_list = matches!(
        value.client_address_header,
        ClientAddressHeader::XForwardedFor | ClientAddressHeader::Forwarded
    );
    let has_no_list = (trusts_none || !is_list) && text.is_sound;
    if let Some(at) = text.changed("client_address_recursive").filter(|_| has_no_list) {
        let (message, help) = match trusts_none {
            true => ("there are no `trusted_proxies`", "name the networks of the proxies in front"),
            false => {
                ("`client_address_header` has one address", "it is for `x-forwarded-for` and `forwarded`")
            }
        };
        let message = format!("`client_address_recursive` has no effect: {message}");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
    let has_limit = value.connections_per_client_max.is_some() || value.connections_per_client_rate.is_some();
    let names_exempt = value.connections_exempt.is_some();
    if let Some(at) = text.written("connections_exempt").filter(|_| names_exempt && !has_limit) {
        let message = "`connections_exempt` has no effect: connections of one client are not limited";
        let help = "it is for `connections_per_client_max` and `connections_per_client_rate`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
}

fn has_no_unix_socket(text: &SpannedTable<ListenerText>) -> bool {
    let is_unix = |address: &Spanned<ListenAddress>| matches!(address.value, ListenAddress::Unix(_));
    text.value.address.as_ref().is_some_and(|addresses| !addresses.0.iter().any(is_unix))
}

/// Trusted peers, with the lists that are named.
fn trusted(
    text: &TrustedPeersText,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> TrustedProxies {
    let lists = around.lists.of_peers(&text.lists, diagnostics);
    TrustedProxies { networks: text.networks.clone(), lists, unix: text.unix }
}

fn proxy_protocol(
    text: &SpannedTable<ListenerText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ProxyProtocol> {
    let section = text.value.proxy_protocol.as_ref()?;
    let from = trusted(section.value.from.as_ref()?, around, diagnostics);
    if from.unix && has_no_unix_socket(text) {
        let message = "`\"unix\"` matches no peer: the listener has no Unix socket";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, section.key_at("from"), message));
    }
    Some(ProxyProtocol {
        from,
        timeout: section.value.timeout,
        header_size: section.value.header_size,
        keeps_values: OwnNames::proxy_values_are_asked_for(),
    })
}

/// Reports `tls_passthrough` where no TLS ends anyway.
fn report_passthrough(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    if text.value.tls.is_some() || !text.is_sound {
        return;
    }
    for at in text.value.route.iter().filter_map(|route| route.changed("tls_passthrough")) {
        let message =
            "`tls_passthrough` has no effect: the listener has no `tls`, so TLS passes through anyway";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
}

/// Reports keys about requests, where there are none.
fn report_of_http(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    if text.value.protocol.routes_requests() {
        return;
    }
    let of_listener = [
        "http2",
        "lenient",
        "paths",
        "trusted_proxies",
        "client_address_header",
        "client_address_recursive",
        "forwarded",
        "request_id",
        "request_headers",
        "response_headers",
        "hsts",
        "compression",
        "rewrite_body",
        "rewrite_location",
        "rewrite_cookies",
        "absolute_redirect",
        "error_pages",
        "rewrite",
    ];
    let of_listener = of_listener.map(|key| (key, text.changed(key)));
    let of_timeouts = ["request", "request_body", "send", "idle"];
    let of_timeouts = of_timeouts.map(|key| (key, text.value.timeouts.changed(key)));
    let of_limits = [
        "head_size",
        "target_size",
        "headers",
        "trailer_size",
        "chunk_extension_size",
        "body_size",
        "requests_per_connection",
    ];
    let of_limits = of_limits.map(|key| (key, text.value.limits.changed(key)));
    for (key, at) in of_listener.into_iter().chain(of_timeouts).chain(of_limits) {
        if let Some(at) = at {
            let message =
                format!("`{key}` has no effect here: the listener speaks `tcp`, so there are no requests");
            let diagnostic = Diagnostic::new(DiagnosticKind::Unused, at, message);
            diagnostics.push(match key {
                "idle" => diagnostic.help("the limit on silence is `upstream.NAME.timeouts.tunnel`"),
                _ => diagnostic,
            });
        }
    }
}

fn warn_request_id(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    let id = &text.value.request_id;
    if let Some(at) = id.changed("in_response").filter(|_| id.value.in_response && id.value.header.is_none())
    {
        let message = "`in_response` has no effect here: `header` is off, so there is no id";
        diagnostics.push(
            Diagnostic::new(DiagnosticKind::Unused, at, message)
                .help("name a header, such as `x-request-id`"),
        );
    }
}

fn warn_limits(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    let ListenerText { timeouts, limits, .. } = &text.value;
    if let Some(age) = timeouts.value.connection_age {
        let age = (timeouts, "connection_age", age);
        let limit = |key, limit: Duration| (timeouts, key, limit);
        warn_unreachable(limit("idle", timeouts.value.idle), age, diagnostics);
        warn_unreachable(limit("request", timeouts.value.request), age, diagnostics);
    }
    let (target, head) = (limits.value.target_size, limits.value.head_size);
    if let Some(at) = limits.changed("target_size").filter(|_| target > head) {
        let message = format!("`target_size` ({target}) is never reached: the whole head may have {head}");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).help("raise `head_size`"));
    }
    if let (Some(per_client), Some(all)) = (text.value.connections_per_client_max, text.value.connections_max)
        && per_client > all
    {
        let message =
            format!("one client may have {per_client} connections, but all clients together only {all}");
        diagnostics.push(Diagnostic::new(
            DiagnosticKind::Suspicious,
            text.key_at("connections_per_client_max"),
            message,
        ));
    }
}
