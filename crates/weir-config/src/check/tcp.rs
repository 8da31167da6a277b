//! Upstreams of TCP listeners: a connection has an address, but none of the properties of a request.

use std::collections::HashMap;

use weir_traffic::balance::HashKey;

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{Document, HashKeyText, ListenerText, UpstreamText};

/// Reports what an upstream looks for in requests, when connections of a TCP listener go there, and what it says of requests, when nothing
/// else does.
pub(super) fn check_upstreams(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let mut senders: HashMap<&str, Senders<'_>> = HashMap::new();
    for (name, text) in &document.listener.0 {
        for upstream in targets(&text.value) {
            let senders = senders.entry(&upstream.value).or_default();
            if text.value.protocol.routes_requests() {
                senders.of_requests = true;
            } else {
                senders.tcp = senders.tcp.or(Some(name));
            }
        }
    }
    // A listener that could not be read in full may send requests.
    let all_sound = document.listener.0.iter().all(|(_, text)| text.is_sound);
    for (upstream, text) in &document.upstream.0 {
        let Some(Senders { tcp: Some(listener), of_requests }) = senders.get(&*upstream.value) else {
            continue;
        };
        check_upstream(text, listener, diagnostics);
        if !of_requests && all_sound {
            warn_of_requests(text, diagnostics);
        }
    }
}

/// The names of the upstreams that a listener sends to.
/// Which listeners send to an upstream.
#[derive(Default)]
struct Senders<'a> {
    /// The first that speaks `tcp`.
    tcp: Option<&'a Spanned<Box<str>>>,
    /// Whether another sends requests.
    of_requests: bool,
}

fn targets(listener: &ListenerText) -> impl Iterator<Item = &Spanned<Box<str>>> {
    let of_routes = listener.route.iter().flat_map(|route| {
        let parts = route.value.split.iter().flat_map(|parts| &parts.0);
        route.value.upstream.iter().chain(parts.filter_map(|part| part.value.upstream.as_ref()))
    });
    listener.upstream.iter().chain(of_routes)
}

fn check_upstream(
    text: &SpannedTable<UpstreamText>,
    listener: &Spanned<Box<str>>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut report = |key: &str, message: &str, help: &str| {
        let message = format!("{message}, and the listener `{}` sends connections here", listener.value);
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), message).help(help);
        diagnostics.push(diagnostic.label(listener.span, "it speaks `tcp`"));
    };
    if !matches!(text.value.hash_key, None | Some(HashKeyText::Part(HashKey::ClientAddress(_)))) {
        report("hash_key", "this `hash_key` is part of a request", "write `hash_key = \"client-address\"`");
    }
    if text.value.dynamic.is_some() {
        let help =
            "name the servers in `servers` or `discovery`, and choose among upstreams by routes with `host`";
        report("dynamic", "`dynamic` names servers by requests", help);
    }
    if text.value.affinity.is_some() {
        let help = "write `balance = \"consistent-hash\"` and `hash_key = \"client-address\"`";
        report("affinity", "`affinity` needs cookies or other parts of requests", help);
    }
}

/// Warns of keys that only requests use.
fn warn_of_requests(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { timeouts, pool, retry, .. } = &text.value;
    let of_timeouts = ["send", "response", "relay", "idle"].map(|key| (key, timeouts.changed(key)));
    let of_retry = [
        "methods",
        "body_size",
        "on_connection_error",
        "on_timeout",
        "on_status",
        "on_grpc_status",
        "same_server",
        "budget",
        "budget_per_second",
    ];
    let of_retry = of_retry.map(|key| (key, retry.changed(key).filter(|_| retry.value.attempts_max > 1)));
    // Probes over HTTP keep within the limits too.
    let limits = text.changed("limits").filter(|_| text.value.health.is_none());
    let of_upstream = [
        ("protocol", text.changed("protocol")),
        ("http2", text.changed("http2").filter(|_| text.value.protocol.may_be_http2())),
        ("pool", text.changed("pool").filter(|_| pool.value.keeps_any())),
        ("limits", limits),
    ];
    for (key, at) in of_timeouts.into_iter().chain(of_retry).chain(of_upstream) {
        let Some(at) = at else { continue };
        let message = format!(
            "`{key}` has no effect here: only listeners that speak `tcp` send here, so there are no requests"
        );
        let diagnostic = Diagnostic::new(DiagnosticKind::Unused, at, message);
        diagnostics.push(match key {
            "send" | "response" | "relay" => diagnostic.help("the limit on silence is `timeouts.tunnel`"),
            _ => diagnostic,
        });
    }
}
