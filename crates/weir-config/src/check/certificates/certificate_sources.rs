//! `certificates` of a listener: files that the config names, and folders of such.

use std::sync::Arc;

use weir_sort::CompactSort as _;

use crate::certificate::{CertificateDirectory, ListenerCertificate, LoadedCertificate, OcspResponse};
use crate::check::certificate_files::{diagnostic, load_pair, now};
use crate::check::files::Files;
use crate::config::CertificateSource;
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{NonEmpty, Spanned, SpannedTable};
use crate::text::{CertificateText, ListenerTlsText};

/// Findings about the files of one folder that are reported one by one.
const FINDINGS_MAX: usize = 10;

/// All of them with their spans, that of the default first.
pub(in crate::check) fn check(
    text: &SpannedTable<ListenerTlsText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(SourceSpan, CertificateSource)> {
    let Some(NonEmpty(list)) = &text.value.certificates else { return Vec::new() };
    check_default(list, diagnostics);
    let mut in_order: Vec<_> = list.iter().collect();
    in_order.sort_compact_by_key(|certificate| !certificate.value.default);
    let mut source = |text: &SpannedTable<CertificateText>| {
        let source = match &text.value.directory {
            Some(folder) => {
                check_alone(text, diagnostics);
                CertificateSource::Directory(directory(folder, files, diagnostics)?)
            }
            None => CertificateSource::Files(load(text, files, diagnostics)?),
        };
        Some((text.span, source))
    };
    let sources: Vec<_> = in_order.into_iter().filter_map(&mut source).collect();
    check_empty(text, &sources, files, diagnostics);
    sources
}

/// A folder is named without files.
fn check_alone(text: &SpannedTable<CertificateText>, diagnostics: &mut Vec<Diagnostic>) {
    for key in ["certificate", "key", "ocsp"] {
        if let Some(at) = text.written(key) {
            let message = format!("`{key}` and `directory` exclude each other");
            let help = "the files of a folder are found by their names: write a second entry for other files";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
}

/// Without any certificate, every handshake would fail.
fn check_empty(
    text: &SpannedTable<ListenerTlsText>,
    sources: &[(SourceSpan, CertificateSource)],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let is_other = text.value.certificates.as_ref().is_none_or(|list| list.0.len() != sources.len())
        || text.value.acme.is_some()
        || text.value.internal.is_some();
    if is_other || !files.may_read || sources.iter().any(|(_, source)| !source.certificates().is_empty()) {
        return;
    }
    if let Some((at, CertificateSource::Directory(directory))) = sources.first() {
        let path = directory.path.display();
        let message =
            format!("there is no certificate that can be used in `{path}`: no handshake could succeed");
        let help = "put `NAME.pem` with `NAME.key` into the folder, or name another certificate beside it";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Certificate, *at, message).help(help));
    }
}

/// A folder. Files in it that cannot be used are no error: the others are not to suffer from them.
fn directory(
    text: &Spanned<Box<str>>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<CertificateDirectory> {
    let path = files.listed_folder(text);
    if !files.may_read {
        return None;
    }
    let found =
        CertificateDirectory::load(&path).map_err(|error| diagnostics.push(diagnostic(&error, text.span)));
    let found = found.ok()?;
    let mut findings = Vec::new();
    for one in &found.unusable {
        files.note(&one.file);
        files.note(&one.error.file);
        let is_ocsp = found.certificates.iter().any(|shown| shown.certificate.files.certificate == one.file);
        let what = if is_ocsp { "the OCSP response is left out" } else { "the certificate is left out" };
        findings
            .push((format!("`{}`: {}; {what}", one.error.file.display(), one.error.message), one.error.help));
    }
    for ListenerCertificate { certificate, ocsp } in &found.certificates {
        files.note(&certificate.files.certificate);
        files.note(&certificate.files.key);
        let doubt = |file: &std::path::Path, doubt: String| (format!("`{}`: {doubt}", file.display()), None);
        findings.extend(certificate.warning(now()).map(|why| doubt(&certificate.files.certificate, why)));
        if let Some(ocsp) = ocsp {
            files.note(&ocsp.file);
            findings.extend(ocsp_doubt(ocsp, certificate).map(|why| doubt(&ocsp.file, why)));
        }
    }
    let more = findings.len().saturating_sub(FINDINGS_MAX);
    for (message, help) in findings.into_iter().take(FINDINGS_MAX) {
        let finding = Diagnostic::new(DiagnosticKind::Suspicious, text.span, message);
        diagnostics.push(finding.help_if(help.map(str::to_owned)));
    }
    if more > 0 {
        let message = format!("{more} more findings about files in `{}`", path.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.span, message));
    }
    Some(found)
}

/// One certificate at most is the default.
fn check_default(list: &[SpannedTable<CertificateText>], diagnostics: &mut Vec<Diagnostic>) {
    let mut defaults = list.iter().filter(|certificate| certificate.value.default);
    let Some(first) = defaults.next() else { return };
    for other in defaults {
        let diagnostic = Diagnostic::new(
            DiagnosticKind::Conflict,
            other.key_at("default"),
            "two certificates are the default",
        );
        diagnostics.push(diagnostic.label(first.key_at("default"), "the first is here"));
    }
}

fn load(
    text: &SpannedTable<CertificateText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ListenerCertificate> {
    let (Some(certificate), Some(key)) = (&text.value.certificate, &text.value.key) else {
        report_missing(text, diagnostics);
        return None;
    };
    let loaded = load_pair(certificate, key, files, diagnostics)?;
    if let Some(doubt) = loaded.warning(now()) {
        let message = format!("`{}`: {doubt}", loaded.files.certificate.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, certificate.span, message));
    }
    let ocsp = text.value.ocsp.as_ref().and_then(|file| ocsp(file, &loaded, files, diagnostics));
    Some(ListenerCertificate { certificate: loaded, ocsp })
}

/// The response for stapling. One that is of no use now may be replaced at any time.
fn ocsp(
    text: &Spanned<Box<str>>,
    certificate: &LoadedCertificate,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<OcspResponse>> {
    let loaded = OcspResponse::load(&files.path(text))
        .map_err(|error| diagnostics.push(diagnostic(&error, text.span)));
    let loaded = loaded.ok()?;
    if let Some(doubt) = ocsp_doubt(&loaded, certificate) {
        let message = format!("`{}`: {doubt}", loaded.file.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.span, message));
    }
    Some(loaded)
}

/// Why a response does not help clients.
fn ocsp_doubt(response: &OcspResponse, certificate: &LoadedCertificate) -> Option<String> {
    match response.warning(certificate, now()) {
        Some(reason) => Some(format!("the OCSP response is not sent to clients: {reason}")),
        None if response.says_revoked(certificate) => {
            Some("the certificate has been revoked: clients reject it".to_owned())
        }
        None => None,
    }
}

/// Reports that a certificate or its key is not named.
fn report_missing(text: &SpannedTable<CertificateText>, diagnostics: &mut Vec<Diagnostic>) {
    if !text.is_sound {
        return;
    }
    for key in ["certificate", "key"] {
        if text.is_missing(key) {
            let message = format!("`{key}` is missing");
            let help =
                "name both files, which may be the same one, or a folder of certificates in `directory`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
        }
    }
}
