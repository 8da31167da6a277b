//! The HTTP version of the servers of an upstream: what it needs, what it excludes, and settings of HTTP/2 without effect.

use crate::config::ServerProtocol;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{ServerText, UpstreamText};

pub(in crate::check) fn check(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    check_tls(text, diagnostics);
    check_proxy_protocol(text, diagnostics);
    warn_without_effect(text, diagnostics);
}

fn check_tls(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let protocol = text.value.protocol;
    let (name, at) = (protocol.name(), text.key_at("protocol"));
    match protocol {
        ServerProtocol::Http1 | ServerProtocol::Fastcgi => {}
        ServerProtocol::H2 | ServerProtocol::Auto if text.is_missing("tls") => {
            let message = format!(
                "`protocol = \"{name}\"` needs `tls`: HTTP/2 is agreed on in the TLS handshake (ALPN)"
            );
            let help = "write `tls = {}`, or `protocol = \"h2c\"` for HTTP/2 without TLS";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
        }
        ServerProtocol::H2 | ServerProtocol::Auto => {}
        ServerProtocol::H2c => {
            if let Some(tls_at) = text.written("tls") {
                let message = "`protocol = \"h2c\"` is HTTP/2 without TLS, and the upstream has `tls`";
                let help = "write `protocol = \"h2\"` for HTTP/2 over TLS, or remove `tls`";
                let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help);
                diagnostics.push(diagnostic.label(tls_at, "`tls` is here"));
            }
        }
    }
}

fn check_proxy_protocol(text: &SpannedTable<UpstreamText>, diagnostics: &mut Vec<Diagnostic>) {
    let UpstreamText { protocol, proxy_protocol, .. } = text.value;
    if protocol == ServerProtocol::Fastcgi && proxy_protocol.is_some() {
        let message = "servers of FastCGI do not read the header of the PROXY protocol";
        let help = "remove `proxy_protocol`: `REMOTE_ADDR` states the client address in each request";
        let at = text.key_at("proxy_protocol");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    if !protocol.may_be_http2() || proxy_protocol.is_none() {
        return;
    }
    let message = format!(
        "`protocol = \"{}\"` excludes `proxy_protocol`: clients share a connection, and its header can name only one",
        protocol.name()
    );
    let help =
        "remove `proxy_protocol`: `forwarded` of the listener states the client address in each request";
    let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at("protocol"), message).help(help);
    diagnostics.push(diagnostic.label(text.key_at("proxy_protocol"), "`proxy_protocol` is here"));
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
