//! From the text to a consistent configuration: names become indices, alternatives are decided, and keys are compared with each other.
//!
//! Every function continues after an error with a placeholder, so that all errors are found; the result is used only if there were none.

mod listener;
mod sockets;
mod upstreams;
mod tcp;
mod traces;
mod identity;
mod node;
mod certificates;
mod routing;
mod scope;
mod admission;
mod cache;
mod certificate_files;
mod admin;
mod conditions;
mod templates;
mod stages;
mod upstream_lookup;
mod names;
mod files;

pub(crate) use files::{Files, ListFiles, NamedFiles};
pub(crate) use routing::route::route_name;
pub(crate) use upstreams::upstream::check as check_upstream;

use admission::{limit, list, table};
use certificates::http3_keys;
use names::check_name;
use routing::{access_log, grpc_web, maps, match_groups};
use scope::CheckScope;
use std::sync::Arc;
use upstream_lookup::UpstreamLookup;
use upstreams::{affinity, discovery, routes_from, upstream};

use crate::config::{Config, ConfigParts, ConnectionsMax, Interner, Upstream};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::print::{Variables, dump};
use crate::text::Document;
use crate::value::OwnNames;

/// Checks a document; the findings say whether the configuration may be used.
pub(crate) fn check(
    text: &SpannedTable<Document>,
    files: &Files<'_>,
    needs_listener: bool,
    (names, variables): (&OwnNames, &Variables),
    diagnostics: &mut Vec<Diagnostic>,
) -> Config {
    let document = &text.value;
    // First of all: what else is checked may be made of them.
    let maps = maps::define(document, names, files, diagnostics);
    let upstreams: Vec<&str> = document.upstream.0.iter().map(|(name, _)| &*name.value).collect();
    let upstream_names = UpstreamLookup::new(&upstreams, document);
    let lists = list::ListLookup::new(document, files, diagnostics);
    let limits = limit::LimitLookup::new(document, files, diagnostics);
    let tables = table::TableLookup::new(document, names, &limits, diagnostics);
    let caches = cache::CacheLookup::new(document, files, diagnostics);
    let mut listeners = Vec::new();
    for (name, text) in &document.listener.0 {
        check_name(name, "listener", diagnostics);
        let (upstreams, lists, limits, caches) = (&upstream_names, &lists, &limits, &caches);
        let tables = &tables;
        let around = CheckScope { document, files, upstreams, lists, limits, tables, caches };
        listeners.push(Arc::new(listener::check(name, text, &around, diagnostics)));
    }
    let upstreams = check_upstreams(document, files, diagnostics);
    let lists = lists.into_lists(document, diagnostics);
    let affinity_stores = limits.affinity_stores();
    let limits = limits.into_limits(document, diagnostics);
    let tables = tables.into_tables(document, names, diagnostics);
    let caches = caches.into_caches(document, diagnostics);
    let rules = stages::Rules { lists: &lists, limits: &limits, tables: &tables };
    stages::report_unknown(document, &listeners, &rules, diagnostics);
    warn_unused(document, &upstream_names, diagnostics);
    if needs_listener {
        report_missing_listener(text, diagnostics);
    }
    check_across(document, diagnostics);
    let identity = identity::check(&document.process, files, diagnostics);
    let http3_keys = http3_keys::check(document, files, diagnostics);
    access_log::of_listener(&document.access_log, files, diagnostics);
    let discovery = discovery::check_settings(document, files, diagnostics);
    let route_sources = routes_from::check(document, files, diagnostics);
    let traces = traces::check(&document.traces, files, diagnostics);
    let credentials = admin::check(&document.admin, files, diagnostics);
    maps::warn_unused(document, &maps, diagnostics);
    let dump = dump(document, variables);
    let Document { process, log, dns, admin, recorder, metrics, .. } = document;
    Config::assume(ConfigParts {
        process: process.value.clone(),
        identity,
        http3_keys,
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
        maps,
        lists,
        limits,
        tables,
        caches,
        affinity_stores,
        listeners,
        upstreams,
    })
}

fn check_upstreams(
    document: &Document,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Arc<Upstream>> {
    let (upstreams, mut interner) = (document.upstream.0.iter(), Interner::default());
    let upstreams = upstreams
        .map(|(name, text)| Arc::new(upstream::check(name, text, files, &mut interner, diagnostics)))
        .collect();
    for (name, _) in &document.upstream.0 {
        check_name(name, "upstream", diagnostics);
    }
    upstreams
}

/// A config without listeners has at least the status page.
fn report_missing_listener(text: &SpannedTable<Document>, diagnostics: &mut Vec<Diagnostic>) {
    let has_page = text.value.admin.written("address").is_some();
    if text.value.listener.0.is_empty() && text.is_missing("listener") && !has_page {
        let help = "write `[listener.web]` with an `address` such as `\":8080\"` and an `upstream`";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, "there is no listener").help(help));
    }
}

/// What concerns several tables, or the process.
fn check_across(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    match_groups::report_unknown(document, diagnostics);
    conditions::report_unknown(document, diagnostics);
    sockets::check(document, diagnostics);
    tcp::check_upstreams(document, diagnostics);
    grpc_web::check_upstreams(document, diagnostics);
    affinity::warn_shared(document, diagnostics);
    check_process(document, diagnostics);
    node::check(&document.process, diagnostics);
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

fn check_process(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let dns = &document.dns;
    if let Some(fault) = dns.value.fault() {
        let at = dns.written("ttl_min").unwrap_or_else(|| dns.key_at("ttl_max"));
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string()));
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
