//! Traces: a valid collector, headers that may be sent to it, and keys that have an effect.

use std::net::IpAddr;
use std::sync::Arc;

use super::admin;
use super::certificate_files;
use super::routing::headers;
use crate::certificate::Authorities;
use crate::check::files::Files;
use crate::config::{Collector, CollectorHeaders, CollectorUrl, TraceSettings};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{ConfigSection as _, Map, Spanned, SpannedTable};
use crate::text::TracesText;
use crate::value::HeaderValue;

/// Where collectors take traces by OTLP over HTTP, and where they take them by gRPC.
const USUAL_PATH: &str = "/v1/traces";
const PORT_OF_GRPC: &str = ":4317";

/// Headers that Weir writes itself.
const OWN: [(&str, &str); 5] = [
    ("host", "the host is that of `endpoint`"),
    ("content-type", "spans are sent as `application/x-protobuf`"),
    ("content-encoding", "spans are sent as they are"),
    ("user-agent", "Weir sets it"),
    ("expect", "spans are sent at once"),
];

/// The settings of traces; `None`: off.
pub(super) fn check(
    text: &SpannedTable<TracesText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<TraceSettings> {
    let value = &text.value;
    if text.is_missing("endpoint") {
        report_idle(text, diagnostics);
        return None;
    }
    let headers = collector_headers(value, files, diagnostics);
    let endpoint = value.endpoint.as_ref()?;
    warn_endpoint(endpoint, diagnostics);
    let collector = Collector {
        url: endpoint.value.clone(),
        service_name: value.service_name.clone(),
        headers,
        authorities: authorities(value, endpoint, files, diagnostics),
        timeout: value.timeout,
    };
    Some(TraceSettings {
        ratio: value.ratio,
        rate: value.rate,
        accept: value.accept,
        queue_max: value.queue_max as usize,
        collector,
    })
}

/// Reports keys without an effect.
fn report_idle(text: &SpannedTable<TracesText>, diagnostics: &mut Vec<Diagnostic>) {
    if !text.is_sound {
        return;
    }
    let first = TracesText::SECTION.keys.iter().find_map(|key| Some((key.name, text.changed(key.name)?)));
    if let Some((key, at)) = first {
        let message = format!("`{key}` has no effect: without `endpoint` there are no traces");
        let help = "write for example `endpoint = \"http://127.0.0.1:4318/v1/traces\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
    }
}

fn warn_endpoint(endpoint: &Spanned<CollectorUrl>, diagnostics: &mut Vec<Diagnostic>) {
    let url = &endpoint.value;
    let mut doubt = |message: String, help: &str| {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, endpoint.span, message).help(help));
    };
    if url.authority.ends_with(PORT_OF_GRPC) {
        let message =
            "at port 4317 collectors expect OTLP over gRPC, but Weir sends OTLP over HTTP".to_owned();
        doubt(message, "that is usually port 4318");
    } else if matches!(&*url.path, "" | "/") {
        let message = format!("`{url}` has no path, and none is added");
        doubt(message, &format!("collectors usually receive traces at `{USUAL_PATH}`"));
    }
}

fn collector_headers(
    value: &TracesText,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> CollectorHeaders {
    let mut all = value.headers.clone();
    for (name, file) in &value.header_files.0 {
        if !files.may_read {
            continue;
        }
        if let Some(secret) = admin::one_line(file, 1, files, diagnostics) {
            match secret.parse::<HeaderValue>() {
                Ok(secret) => all.0.push((name.clone(), secret)),
                Err(_) => {
                    // The secret itself has no place in a message.
                    let message = format!("the content of `{}` is not a header value", file.value);
                    let help = "the file contains the value on one line, without spaces around it";
                    diagnostics
                        .push(Diagnostic::new(DiagnosticKind::BadValue, file.span, message).help(help));
                }
            }
        }
    }
    let named = headers::check_own(&all, &OWN, diagnostics);
    warn_in_the_clear(value, &all, diagnostics);
    CollectorHeaders(named)
}

/// Warns when a possible secret is sent over a network unencrypted.
fn warn_in_the_clear(value: &TracesText, all: &Map<HeaderValue>, diagnostics: &mut Vec<Diagnostic>) {
    let (Some(endpoint), Some((name, _))) = (&value.endpoint, all.0.first()) else { return };
    if !endpoint.value.is_tls && !is_here(&endpoint.value) {
        let message = format!("`{}` is sent to the collector unencrypted", name.value);
        let help = "use `https` in `endpoint`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, name.span, message).help(help));
    }
}

/// Whether a collector is on this machine for sure.
fn is_here(url: &CollectorUrl) -> bool {
    is_this_machine(&url.authority)
}

/// Whether a host, with a port or without, is this machine for sure.
pub(super) fn is_this_machine(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

fn authorities(
    value: &TracesText,
    endpoint: &Spanned<CollectorUrl>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<Authorities>> {
    if !endpoint.value.is_tls {
        if let Some(ca) = &value.ca {
            let message = "`ca` has no effect: `endpoint` has no `https`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, ca.span, message));
        }
        return None;
    }
    if !files.may_read {
        return None;
    }
    let (loaded, at) = match &value.ca {
        Some(ca) => (Authorities::load(&files.path(ca)), ca.span),
        None => (files.authorities_of_system(), endpoint.span),
    };
    let loaded = loaded.map_err(|error| diagnostics.push(certificate_files::diagnostic(&error, at))).ok()?;
    match loaded.unusable() {
        Some(error) if value.ca.is_some() => {
            diagnostics.push(certificate_files::diagnostic(&error, at));
            None
        }
        _ => Some(loaded),
    }
}
