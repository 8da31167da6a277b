//! The HTTP version of the servers of an upstream: what it needs, what it excludes, and settings of HTTP/2 without effect.

use crate::config::{ServerProtocol, UpstreamFault, protocol_faults};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{ServerText, UpstreamText};

pub(in crate::check) fn check(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { protocol, proxy_protocol, .. } = text.value;
    let at = text.key_at("protocol");
    for fault in protocol_faults(protocol, !text.is_missing("tls"), proxy_protocol.is_some()) {
        let diagnostic =
            |kind, at, help: &str| Diagnostic::new(kind, at, fault.to_string()).help(help.to_owned());
        diagnostics.push(match fault {
            UpstreamFault::WithoutTls(_) => {
                let help = "write `tls = {}`, or `protocol = \"h2c\"` for HTTP/2 without TLS";
                diagnostic(DiagnosticKind::MissingKey, at, help)
            }
            UpstreamFault::H2cWithTls => {
                let Some(tls_at) = text.written("tls") else { continue };
                let help = "write `protocol = \"h2\"` for HTTP/2 over TLS, or remove `tls`";
                diagnostic(DiagnosticKind::Conflict, at, help).label(tls_at, "`tls` is here")
            }
            UpstreamFault::ProxyHeaderForFastcgi => {
                let help = "remove `proxy_protocol`: `REMOTE_ADDR` states the client address in each request";
                diagnostic(DiagnosticKind::Conflict, text.key_at("proxy_protocol"), help)
            }
            _ => {
                let help =
                    "remove `proxy_protocol`: `forwarded` of the listener states the client address in each request";
                let conflict = diagnostic(DiagnosticKind::Conflict, at, help);
                conflict.label(text.key_at("proxy_protocol"), "`proxy_protocol` is here")
            }
        });
    }
    warn_without_effect(text, diagnostics);
}

fn warn_without_effect(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { protocol, http2, .. } = &text.value;
    if !protocol.may_be_http2() {
        if let Some(at) = text.changed("http2") {
            let message = format!("`http2` has no effect with `protocol = \"{}\"`", protocol.name());
            let help = "write `protocol = \"h2\"` or `\"auto\"` with `tls`, `protocol = \"h2c\"` without";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help(help));
        }
    } else if let Some(at) = http2.changed("ping_timeout").filter(|_| http2.value.ping_interval.is_none()) {
        let message = "`ping_timeout` has no effect without `ping_interval`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    if matches!(protocol, ServerProtocol::H2 | ServerProtocol::H2c) && !is_probed_elsewhere(&text.value) {
        warn_of_http1(text, diagnostics);
    }
}

/// Rules of HTTP/1 that servers may break, where all of them speak HTTP/2.
fn warn_of_http1(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { protocol, lenient, .. } = &text.value;
    // `high_status` holds for HTTP/2 as well.
    let of_http1 = [
        "bare_lf",
        "obs_fold",
        "empty_lines",
        "control_bytes",
        "repeated_length",
        "padded_length",
        "repeated_chunked",
        "padded_chunk_size",
        "empty_chunk_extension",
    ];
    for key in of_http1 {
        if let Some(at) = lenient.changed(key) {
            let message = format!(
                "`{key}` has no effect with `protocol = \"{}\"`: it is about a rule of HTTP/1",
                protocol.name()
            );
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
}

/// Whether probes go to another port, which is another service and may speak HTTP/1.
fn is_probed_elsewhere(text: &UpstreamText) -> bool {
    let has_port =
        |server: &ServerText| server.table().is_some_and(|table| table.value.health_port.is_some());
    text.health.as_ref().is_some_and(|health| {
        let servers = text.servers.iter().flat_map(|servers| &servers.0);
        health.value.port.is_some() || servers.into_iter().any(|server| has_port(&server.value))
    })
}
