//! From what the text says to a configuration that holds no contradiction: names become positions, alternatives are decided, and what
//! no key can know alone is compared.
//!
//! Every function goes on after a mistake with something in its place, so that all mistakes are found; what comes out is
//! only used when there were none.

mod listener;
mod route;
mod action;
mod redirect;
mod sockets;
mod upstream;
mod upstream_tls;
mod health;
mod dialogue;
mod ejection;
mod persistence;
mod tcp;
mod traces;
mod tls;
mod client_certificates;
mod access_log;
mod admin;
mod headers;
mod templates;
mod certificate_files;
mod files;

pub(crate) use files::{Files, NamedFiles};
pub(crate) use route::route_name;
pub(crate) use upstream::check as check_upstream;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::{Alike, Config, ConnectionLimit, UpstreamIndex};
use crate::key::{Located, Sectional, Spanned};
use crate::mistake::{Finding, MistakeKind, did_you_mean};
use crate::print::dump;
use crate::text::Document;
use crate::value::{is_name, print_duration};

/// Checks a document; the findings say whether the configuration may be used.
pub(crate) fn check(text: &Located<Document>, files: &Files<'_>, findings: &mut Vec<Finding>) -> Config {
    let document = &text.value;
    let names: Vec<&str> = document.upstream.0.iter().map(|(name, _)| &*name.value).collect();
    let upstream_names = UpstreamNames::new(&names);
    let mut listeners = Vec::new();
    for (name, text) in &document.listener.0 {
        check_name(name, "listener", findings);
        let around = Surroundings { document, files, upstreams: &upstream_names };
        listeners.push(Arc::new(listener::check(name, text, &around, findings)));
    }
    let (upstreams, mut alike) = (document.upstream.0.iter(), Alike::default());
    let upstreams = upstreams
        .map(|(name, text)| Arc::new(upstream::check(name, text, files, &mut alike, findings)))
        .collect();
    for (name, _) in &document.upstream.0 {
        check_name(name, "upstream", findings);
    }
    warn_unused(document, &upstream_names, findings);
    if document.listener.0.is_empty() && text.is_missing("listener") {
        let hint = "write `[listener.web]` with an `address` such as `\":8080\"` and an `upstream`";
        findings.push(Finding::new(MistakeKind::MissingKey, text.at, "there is no listener").hint(hint));
    }
    sockets::check(document, findings);
    tcp::check_upstreams(document, findings);
    persistence::warn_shared(document, findings);
    check_process(document, findings);
    access_log::check(&document.access_log, files, findings);
    let traces = traces::check(&document.traces, files, findings);
    let credentials = admin::check(&document.admin, files, findings);
    let shown = dump(document);
    let Document { process, log, dns, admin, recorder, metrics, .. } = document;
    Config {
        process: process.value.clone(),
        log: log.clone(),
        dns: dns.value.clone(),
        admin: admin.value.clone(),
        credentials,
        shown,
        recorder: recorder.clone(),
        metrics: metrics.clone(),
        traces,
        listeners,
        upstreams,
    }
}

/// What a listener is checked against.
struct Surroundings<'a> {
    document: &'a Document,
    files: &'a Files<'a>,
    upstreams: &'a UpstreamNames<'a>,
}

/// The names of the upstreams, and which of them are used.
struct UpstreamNames<'a> {
    names: &'a [&'a str],
    places: HashMap<&'a str, usize>,
    used: Vec<Cell<bool>>,
    unknown: Cell<usize>,
}

/// Names that are compared with all others for what was meant: the first unknown ones, since a thousand are no slip.
const GUESSES_MAX: usize = 100;

impl<'a> UpstreamNames<'a> {
    fn new(names: &'a [&'a str]) -> Self {
        Self {
            names,
            places: names.iter().copied().zip(0..).collect(),
            used: vec![Cell::new(false); names.len()],
            unknown: Cell::new(0),
        }
    }

    fn is_used(&self, index: usize) -> bool {
        self.used[index].get()
    }

    /// The upstream of this name; the first one, or none, after a mistake.
    fn find(&self, name: &Spanned<Box<str>>, findings: &mut Vec<Finding>) -> UpstreamIndex {
        match self.places.get(&*name.value) {
            Some(&index) => {
                self.used[index].set(true);
                UpstreamIndex(index)
            }
            None => {
                let what = format!("there is no upstream `{}`", name.value);
                let guesses = self.unknown.replace(self.unknown.get() + 1);
                let known = self.names.iter().copied().take_while(|_| guesses < GUESSES_MAX);
                let hint = did_you_mean(&name.value, known).unwrap_or_else(|| {
                    format!("define it as `[upstream.{}]` with a list `servers`", name.value)
                });
                findings.push(Finding::new(MistakeKind::UnknownName, name.at, what).hint(hint));
                UpstreamIndex(0)
            }
        }
    }
}

/// Warns of upstreams that no route names, unless a name that could not be read or found may have been meant for one.
fn warn_unused(document: &Document, upstreams: &UpstreamNames<'_>, findings: &mut Vec<Finding>) {
    let all_read = document.listener.0.iter().all(|(_, listener)| listener.is_sound);
    let all_found = findings.iter().all(|finding| finding.kind != MistakeKind::UnknownName);
    // Without a listener every upstream is unused, and that there is none has been said.
    if document.listener.0.is_empty() || !(all_read && all_found) {
        return;
    }
    for (index, (name, _)) in document.upstream.0.iter().enumerate() {
        if !upstreams.is_used(index) {
            let what = format!("the upstream `{}` is not used by any route", name.value);
            findings.push(Finding::new(MistakeKind::Unused, name.at, what));
        }
    }
}

/// A name stands in log lines, labels and URLs as it is.
fn check_name(name: &Spanned<Box<str>>, what: &str, findings: &mut Vec<Finding>) {
    if !is_name(&name.value) {
        let what = format!("`{}` cannot be the name of a {what}", name.value);
        let hint = "names are 1 to 64 letters, digits, `-`, `_` and `.`";
        findings.push(Finding::new(MistakeKind::BadValue, name.at, what).hint(hint));
    }
}

fn check_process(document: &Document, findings: &mut Vec<Finding>) {
    let dns = &document.dns;
    if dns.value.ttl_min > dns.value.ttl_max {
        let what = format!(
            "`ttl_min` ({}) is longer than `ttl_max` ({})",
            print_duration(dns.value.ttl_min),
            print_duration(dns.value.ttl_max)
        );
        let at = dns.written("ttl_min").unwrap_or_else(|| dns.key_at("ttl_max"));
        findings.push(Finding::new(MistakeKind::Conflict, at, what));
    }
    let ConnectionLimit::Exactly(process_max) = document.process.value.connections_max else { return };
    for (_, listener) in &document.listener.0 {
        if let Some(listener_max) = listener.value.connections_max
            && listener_max > process_max
        {
            let at = listener.key_at("connections_max");
            let what = format!(
                "the listener may have {listener_max} connections, the whole process only {process_max}"
            );
            let process_at = document.process.key_at("connections_max");
            findings.push(
                Finding::new(MistakeKind::Doubtful, at, what).related(process_at, "the limit of the process"),
            );
        }
    }
}

/// Warns when one time limit, which the text changes, can never be reached because of another.
fn warn_unreachable<T: Sectional + Default, U>(
    (table, key, limit): (&Located<T>, &str, Duration),
    (other_table, other_key, other): (&Located<U>, &str, Duration),
    findings: &mut Vec<Finding>,
) {
    if let (Some(at), Some(other_at)) = (table.changed(key), other_table.written(other_key))
        && limit > other
    {
        let what = format!("`{key}` ({}) is never reached", print_duration(limit));
        let related = format!("`{other_key}` ({}) ends it first", print_duration(other));
        findings.push(Finding::new(MistakeKind::Doubtful, at, what).related(other_at, related));
    }
}
