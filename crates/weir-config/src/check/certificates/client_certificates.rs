//! Client certificates: usable files, and headers that nothing else sets.

use crate::certificate::Authorities;
use crate::check::certificate_files::{diagnostic, load_file, load_revocations};
use crate::check::files::Files;
use crate::check::routing::headers;
use crate::config::{ClientCertificateHeaders, ClientCertificates};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{ClientCertificatesText, HeadersText, ListenerText};

pub(in crate::check) fn check(
    text: &SpannedTable<ClientCertificatesText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ClientCertificates {
    let ClientCertificatesText { verify, ca, crl, headers } = &text.value;
    let authorities = ca.as_ref().and_then(|ca| load_file(ca, Authorities::load, files, diagnostics));
    if let (Some(ca), Some(error)) = (ca, authorities.as_ref().and_then(|known| known.unusable())) {
        diagnostics.push(diagnostic(&error, ca.span));
    }
    let revocations =
        crl.as_ref().and_then(|crl| load_revocations(crl, authorities.as_deref(), files, diagnostics));
    ClientCertificates { verify: *verify, authorities, revocations, headers: headers.value.clone() }
}

/// Compares the headers about certificates with other changes of the headers of a request.
pub(in crate::check) fn check_headers(
    listener: &SpannedTable<ListenerText>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let clients = listener.value.tls.as_ref().and_then(|tls| tls.value.client_certificates.as_ref());
    let Some(clients) = clients else { return };
    let headers = &clients.value.headers;
    if !listener.value.protocol.routes_requests() {
        if let Some(at) = clients.changed("headers") {
            let message = "`headers` has no effect here: the listener speaks `tcp`, so there are no requests";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
        return;
    }
    let id = listener.value.request_id.value.header.as_ref();
    let mut seen: Vec<(&str, &str)> = id.map(|id| ("request_id.header", &**id)).into_iter().collect();
    for (key, name) in headers.value.named() {
        let at = headers.key_at(key);
        headers::report_reserved(
            &Spanned { value: name.clone(), span: at },
            &[("host", "choose another name")],
            diagnostics,
        );
        if let Some((other, _)) = seen.iter().find(|(_, other)| **other == **name) {
            let message = format!("`{key}` and `{other}` are the same header, `{name}`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
        seen.push((key, name));
    }
    for route in &listener.value.route {
        report_changes(&route.value.request_headers, &headers.value, diagnostics);
        for (name, _) in &route.value.header.0 {
            if is_one(&headers.value, &name.value) {
                let message = format!(
                    "`{}` is matched as received from the client, not as sent to servers",
                    name.value
                );
                let help = "any client can set it and take this route";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, name.span, message).help(help));
            }
        }
    }
}

/// Reports changes of a route to headers that it cannot change.
fn report_changes(
    changes: &HeadersText,
    headers: &ClientCertificateHeaders,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let removed = changes.removed().map(|name| (&*name.value, name.span));
    let written = changes.given().map(|(name, _)| (&*name.value, name.span));
    let named: Vec<(&str, SourceSpan)> = removed.chain(written).collect();
    for (name, at) in named {
        if is_one(headers, name) {
            let message = format!("`{name}` cannot be changed: it describes the certificate of the client");
            let help = "it is named in `tls.client_certificates.headers`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
}

fn is_one(headers: &ClientCertificateHeaders, name: &str) -> bool {
    headers.named().any(|(_, header)| header.eq_ignore_ascii_case(name))
}
