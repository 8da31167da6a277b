//! Upstreams of TCP listeners: connections have an address, and nothing else that a client could be known by.

use weir_traffic::balance::HashKey;

use crate::config::Protocol;
use crate::key::{Located, Spanned};
use crate::mistake::{Finding, MistakeKind};
use crate::text::{Document, ListenerText, UpstreamText};

/// Reports what an upstream looks for in requests, when connections of a TCP listener go there.
pub(super) fn check_upstreams(document: &Document, findings: &mut Vec<Finding>) {
    for (upstream, text) in &document.upstream.0 {
        let sends = |listener: &ListenerText| {
            listener.protocol == Protocol::Tcp && targets(listener).any(|name| name.value == upstream.value)
        };
        if let Some((listener, _)) = document.listener.0.iter().find(|(_, text)| sends(&text.value)) {
            check_upstream(text, listener, findings);
        }
    }
}

/// The names of the upstreams that a listener sends to.
fn targets(listener: &ListenerText) -> impl Iterator<Item = &Spanned<Box<str>>> {
    let of_routes = listener.route.iter().flat_map(|route| {
        let parts = route.value.split.iter().flat_map(|parts| &parts.0);
        route.value.upstream.iter().chain(parts.filter_map(|part| part.value.upstream.as_ref()))
    });
    listener.upstream.iter().chain(of_routes)
}

fn check_upstream(text: &Located<UpstreamText>, listener: &Spanned<Box<str>>, findings: &mut Vec<Finding>) {
    let mut report = |key: &str, what: &str, hint: &str| {
        let what = format!("{what}, and the listener `{}` sends connections here", listener.value);
        let finding = Finding::new(MistakeKind::Conflict, text.key_at(key), what).hint(hint);
        findings.push(finding.related(listener.at, "it speaks `tcp`"));
    };
    if !matches!(text.value.hash_key, None | Some(HashKey::ClientAddress(_))) {
        report("hash_key", "this `hash_key` is part of a request", "write `hash_key = \"client-address\"`");
    }
    if text.value.persistence.is_some() {
        let hint = "write `balance = \"consistent-hash\"` and `hash_key = \"client-address\"`";
        report("persistence", "`persistence` needs the cookies of requests", hint);
    }
}
