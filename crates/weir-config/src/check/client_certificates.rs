//! Certificates of clients: files that can be used, and headers that nobody else writes.

use super::certificate_files::{finding, load_file, load_revocations};
use super::{Files, headers};
use crate::certificate::Authorities;
use crate::config::{ClientCertificateHeaders, ClientCertificates, Protocol};
use crate::key::{Located, Spanned};
use crate::mistake::{Finding, MistakeKind};
use crate::source_map::Span;
use crate::text::{ClientCertificatesText, HeaderChangesText, ListenerText};

pub(super) fn check(
    text: &Located<ClientCertificatesText>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> ClientCertificates {
    let ClientCertificatesText { verify, ca, crl, headers } = &text.value;
    let authorities = ca.as_ref().and_then(|ca| load_file(ca, Authorities::load, files, findings));
    if let (Some(ca), Some(error)) = (ca, authorities.as_ref().and_then(|known| known.unusable())) {
        findings.push(finding(&error, ca.at));
    }
    let revocations =
        crl.as_ref().and_then(|crl| load_revocations(crl, authorities.as_deref(), files, findings));
    ClientCertificates { verify: *verify, authorities, revocations, headers: headers.value.clone() }
}

/// Compares the headers about certificates with what else becomes of the headers of a request.
pub(super) fn check_headers(listener: &Located<ListenerText>, findings: &mut Vec<Finding>) {
    let clients = listener.value.tls.as_ref().and_then(|tls| tls.value.client_certificates.as_ref());
    let Some(clients) = clients else { return };
    let headers = &clients.value.headers;
    if listener.value.protocol == Protocol::Tcp {
        if let Some(at) = clients.changed("headers") {
            let what = "`headers` does nothing here: the listener speaks `tcp`, so there are no requests";
            findings.push(Finding::new(MistakeKind::Unused, at, what));
        }
        return;
    }
    let id = listener.value.request_id.value.header.as_ref();
    let mut seen: Vec<(&str, &str)> = id.map(|id| ("request_id.header", &**id)).into_iter().collect();
    for (key, name) in headers.value.named() {
        let at = headers.key_at(key);
        headers::report_reserved(
            &Spanned { value: name.clone(), at },
            &[("host", "choose another name")],
            findings,
        );
        if let Some((other, _)) = seen.iter().find(|(_, other)| **other == **name) {
            let what = format!("`{key}` and `{other}` are the same header, `{name}`");
            findings.push(Finding::new(MistakeKind::Conflict, at, what));
        }
        seen.push((key, name));
    }
    for route in &listener.value.route {
        report_changes(&route.value.request_headers, &headers.value, findings);
        for (name, _) in &route.value.header.0 {
            if is_one(&headers.value, &name.value) {
                let what =
                    format!("`{}` is compared as the client sends it, not as servers get it", name.value);
                let hint = "whoever asks for this route gets it";
                findings.push(Finding::new(MistakeKind::Doubtful, name.at, what).hint(hint));
            }
        }
    }
}

/// Reports changes of a route to headers that it cannot change.
fn report_changes(
    changes: &HeaderChangesText,
    headers: &ClientCertificateHeaders,
    findings: &mut Vec<Finding>,
) {
    let removed = changes.remove.iter().map(|name| (&*name.value, name.at));
    let written = changes.set.0.iter().chain(&changes.add.0).map(|(name, _)| (&*name.value, name.at));
    let named: Vec<(&str, Span)> = removed.chain(written).collect();
    for (name, at) in named {
        if is_one(headers, name) {
            let what =
                format!("`{name}` cannot be changed: it tells servers about the certificate of the client");
            let hint = "its name stands in `tls.client_certificates.headers`";
            findings.push(Finding::new(MistakeKind::Conflict, at, what).hint(hint));
        }
    }
}

fn is_one(headers: &ClientCertificateHeaders, name: &str) -> bool {
    headers.named().any(|(_, header)| header.eq_ignore_ascii_case(name))
}
