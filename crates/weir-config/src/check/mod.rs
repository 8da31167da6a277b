//! From the text to a consistent configuration: names become indices, alternatives are decided, and keys are compared with each other.
//!
//! Every function continues after an error with a placeholder, so that all errors are found; the result is used only if there were none.

mod listener;
mod route;
mod access;
mod action;
mod redirect;
mod sockets;
mod upstream;
mod upstream_tls;
mod discovery;
mod routes_from;
mod server_protocol;
mod health;
mod dialogue;
mod ejection;
mod affinity;
mod tcp;
mod grpc_web;
mod mirror;
mod traces;
mod tls;
mod certificate_sources;
mod acme;
mod dns_update;
mod internal;
mod client_certificates;
mod access_log;
mod identity;
mod node;
mod limit;
mod store;
mod store_address;
mod admin;
mod cache;
mod list;
mod static_files;
mod headers;
mod fastcgi;
mod error_pages;
mod match_groups;
mod templates;
mod stages;
mod certificate_files;
mod files;

pub(crate) use files::{Files, ListFiles, NamedFiles};
pub(crate) use route::route_name;
pub(crate) use upstream::check as check_upstream;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Config, ConnectionsMax, Interner, ServerProtocol, UpstreamIndex};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::{ConfigSection, Spanned, SpannedTable};
use crate::print::{Variables, dump};
use crate::text::Document;
use crate::value::{is_name, print_duration};

/// Checks a document; the findings say whether the configuration may be used.
pub(crate) fn check(
    text: &SpannedTable<Document>,
    files: &Files<'_>,
    needs_listener: bool,
    variables: &Variables,
    diagnostics: &mut Vec<Diagnostic>,
) -> Config {
    let document = &text.value;
    let names: Vec<&str> = document.upstream.0.iter().map(|(name, _)| &*name.value).collect();
    let upstream_names = UpstreamLookup::new(&names, document);
    let lists = list::ListLookup::new(document, files, diagnostics);
    let limits = limit::LimitLookup::new(document, files, diagnostics);
    let caches = cache::CacheLookup::new(document, files, diagnostics);
    let mut listeners = Vec::new();
    for (name, text) in &document.listener.0 {
        check_name(name, "listener", diagnostics);
        let (upstreams, lists, limits, caches) = (&upstream_names, &lists, &limits, &caches);
        let around = CheckScope { document, files, upstreams, lists, limits, caches };
        listeners.push(Arc::new(listener::check(name, text, &around, diagnostics)));
    }
    let (upstreams, mut interner) = (document.upstream.0.iter(), Interner::default());
    let upstreams = upstreams
        .map(|(name, text)| Arc::new(upstream::check(name, text, files, &mut interner, diagnostics)))
        .collect();
    for (name, _) in &document.upstream.0 {
        check_name(name, "upstream", diagnostics);
    }
    let lists = lists.into_lists(document, diagnostics);
    let limits = limits.into_limits(document, diagnostics);
    let caches = caches.into_caches(document, diagnostics);
    let rules = stages::Rules { lists: &lists, limits: &limits };
    stages::report_unknown(document, &listeners, &rules, diagnostics);
    warn_unused(document, &upstream_names, diagnostics);
    if needs_listener && document.listener.0.is_empty() && text.is_missing("listener") {
        let help = "write `[listener.web]` with an `address` such as `\":8080\"` and an `upstream`";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, "there is no listener").help(help));
    }
    match_groups::report_unknown(document, diagnostics);
    sockets::check(document, diagnostics);
    tcp::check_upstreams(document, diagnostics);
    grpc_web::check_upstreams(document, diagnostics);
    affinity::warn_shared(document, diagnostics);
    check_process(document, diagnostics);
    node::check(&document.process, diagnostics);
    let identity = identity::check(&document.process, files, diagnostics);
    access_log::of_listener(&document.access_log, files, diagnostics);
    let discovery = discovery::check_settings(document, files, diagnostics);
    let route_sources = routes_from::check(document, files, diagnostics);
    let traces = traces::check(&document.traces, files, diagnostics);
    let credentials = admin::check(&document.admin, files, diagnostics);
    let dump = dump(document, variables);
    let Document { process, log, dns, admin, recorder, metrics, .. } = document;
    Config {
        process: process.value.clone(),
        identity,
        log: log.clone(),
        dns: dns.value.clone(),
        discovery,
        route_sources,
        admin: admin.value.clone(),
        credentials,
        dump,
        recorder: recorder.clone(),
        metrics: metrics.clone(),
        traces,
        lists,
        limits,
        caches,
        listeners,
        upstreams,
    }
}

/// The context that a listener is checked against.
struct CheckScope<'a> {
    document: &'a Document,
    files: &'a Files<'a>,
    upstreams: &'a UpstreamLookup<'a>,
    lists: &'a list::ListLookup,
    limits: &'a limit::LimitLookup,
    caches: &'a cache::CacheLookup,
}

/// The names of the upstreams, and which of them are used.
struct UpstreamLookup<'a> {
    names: &'a [&'a str],
    places: HashMap<&'a str, usize>,
    document: &'a Document,
    used: Vec<Cell<bool>>,
    unknown: Cell<usize>,
}

/// Names that are compared with all others for a suggestion: the first unknown ones, since a thousand are no slip.
const GUESSES_MAX: usize = 100;

impl<'a> UpstreamLookup<'a> {
    fn new(names: &'a [&'a str], document: &'a Document) -> Self {
        Self {
            names,
            document,
            places: names.iter().copied().zip(0..).collect(),
            used: vec![Cell::new(false); names.len()],
            unknown: Cell::new(0),
        }
    }

    /// What the servers of the upstream of this name speak.
    fn protocol(&self, name: &str) -> Option<ServerProtocol> {
        let index = *self.places.get(name)?;
        self.document.upstream.0.get(index).map(|(_, text)| text.value.protocol)
    }

    fn is_used(&self, index: usize) -> bool {
        self.used[index].get()
    }

    /// The upstream of this name; after an error, a placeholder.
    fn find(&self, name: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> UpstreamIndex {
        match self.places.get(&*name.value) {
            Some(&index) => {
                self.used[index].set(true);
                UpstreamIndex(index)
            }
            None => {
                let message = format!("there is no upstream `{}`", name.value);
                let guesses = self.unknown.replace(self.unknown.get() + 1);
                let known = self.names.iter().copied().take_while(|_| guesses < GUESSES_MAX);
                let help = did_you_mean(&name.value, known).unwrap_or_else(|| {
                    format!("define it as `[upstream.{}]` with a list `servers`", name.value)
                });
                diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
                UpstreamIndex(0)
            }
        }
    }
}

/// Warns of upstreams that no route names, unless a name that could not be read or found may have been meant for one.
fn warn_unused(document: &Document, upstreams: &UpstreamLookup<'_>, diagnostics: &mut Vec<Diagnostic>) {
    let all_read = document.listener.0.iter().all(|(_, listener)| listener.is_sound);
    let all_found = diagnostics.iter().all(|diagnostic| diagnostic.kind != DiagnosticKind::UnknownName);
    // Without a listener every upstream is unused, and its absence has been reported.
    if document.listener.0.is_empty() || !(all_read && all_found) {
        return;
    }
    for (index, (name, _)) in document.upstream.0.iter().enumerate() {
        if !upstreams.is_used(index) {
            let message = format!("the upstream `{}` is not used by any route", name.value);
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
        }
    }
}

/// A name appears in log lines, labels and URLs unchanged.
fn check_name(name: &Spanned<Box<str>>, owner: &str, diagnostics: &mut Vec<Diagnostic>) {
    if !is_name(&name.value) {
        let message = format!("`{}` is not a name for a {owner}", name.value);
        let help = "names are 1 to 64 letters, digits, `-`, `_` and `.`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
    }
}

fn check_process(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let dns = &document.dns;
    if dns.value.ttl_min > dns.value.ttl_max {
        let message = format!(
            "`ttl_min` ({}) is longer than `ttl_max` ({})",
            print_duration(dns.value.ttl_min),
            print_duration(dns.value.ttl_max)
        );
        let at = dns.written("ttl_min").unwrap_or_else(|| dns.key_at("ttl_max"));
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    let ConnectionsMax::Exactly(process_max) = document.process.value.connections_max else { return };
    for (_, listener) in &document.listener.0 {
        if let Some(listener_max) = listener.value.connections_max
            && listener_max > process_max
        {
            let at = listener.key_at("connections_max");
            let message = format!(
                "the listener may have {listener_max} connections, but the whole process only {process_max}"
            );
            let process_at = document.process.key_at("connections_max");
            diagnostics.push(
                Diagnostic::new(DiagnosticKind::Suspicious, at, message)
                    .label(process_at, "the limit of the process"),
            );
        }
    }
}

/// Warns when one time limit, which the text changes, can never be reached because of another.
fn warn_unreachable<T: ConfigSection + Default, U>(
    (table, key, limit): (&SpannedTable<T>, &str, Duration),
    (other_table, other_key, other): (&SpannedTable<U>, &str, Duration),
    diagnostics: &mut Vec<Diagnostic>,
) {
    if let (Some(at), Some(other_at)) = (table.changed(key), other_table.written(other_key))
        && limit > other
    {
        let message = format!("`{key}` ({}) is never reached", print_duration(limit));
        let related = format!("`{other_key}` ({}) ends it first", print_duration(other));
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message).label(other_at, related));
    }
}
