//! TLS: usable files, and versions and suites that fit each other.

use std::path::PathBuf;
use std::sync::Arc;

use super::certificate_files::{diagnostic, load_file, load_pair, now};
use super::{Files, acme, client_certificates};
use crate::certificate::{LoadedCertificate, OcspResponse, TicketKey};
use crate::config::{CipherSuite, KeyExchangeGroup, ListenerCertificate, ListenerTls, Route, TlsVersion};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{NonEmpty, OneOrMany, Spanned, SpannedTable};
use crate::source_map::SourceSpan;
use crate::text::{CertificateText, ListenerTlsText};

pub(super) fn check(
    text: &SpannedTable<ListenerTlsText>,
    routes: &[Route],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ListenerTls {
    let value = &text.value;
    let mut certificates: Vec<(SourceSpan, ListenerCertificate)> = Vec::new();
    if let Some(NonEmpty(list)) = &value.certificates {
        check_default(list, diagnostics);
        let mut in_order: Vec<_> = list.iter().collect();
        in_order.sort_by_key(|certificate| !certificate.value.default);
        let loaded =
            |text: &SpannedTable<CertificateText>| Some((text.span, load(text, files, diagnostics)?));
        certificates = in_order.into_iter().filter_map(loaded).collect();
    }
    if text.is_missing("certificates") && text.is_missing("acme") {
        let message = "`certificates` is missing";
        let help =
            "name files in `certificates`, or write `acme = {}` for certificates that Weir obtains by itself";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
    }
    let acme = value.acme.as_ref().map(|acme| acme::check(acme, routes, files, diagnostics));
    // A suite or group that could not be read may be the one that is missed.
    if text.is_sound {
        let suites = text.written("cipher_suites");
        check_suites(&value.versions.0, &value.cipher_suites.0, text.span, suites, diagnostics);
        warn_groups(&value.versions.0, &value.groups.0, text.key_at("groups"), diagnostics);
        warn_kinds(&value.versions.0, &value.cipher_suites.0, &certificates, diagnostics);
    }
    ListenerTls {
        certificates: certificates.into_iter().map(|(_, certificate)| certificate).collect(),
        acme,
        versions: value.versions.0.clone(),
        cipher_suites: value.cipher_suites.0.clone(),
        groups: value.groups.0.clone(),
        session_tickets: value.session_tickets,
        ticket_keys: ticket_keys(text, files, diagnostics),
        session_cache: value.session_cache,
        handshake_rate: value.handshake_rate,
        client_certificates: value
            .client_certificates
            .as_ref()
            .map(|clients| client_certificates::check(clients, files, diagnostics)),
        key_log: value.key_log.as_ref().map(|file| key_log(file, files, diagnostics)),
        reload: value.reload,
    }
}

/// The keys of tickets, without which a node has its own.
fn ticket_keys(
    text: &SpannedTable<ListenerTlsText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Arc<TicketKey>> {
    let Some(OneOrMany(named)) = &text.value.ticket_keys else { return Vec::new() };
    let at = text.key_at("ticket_keys");
    if !text.value.session_tickets {
        let message = "`ticket_keys` has no effect without `session_tickets`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    if text.value.client_certificates.is_some() {
        let message = "`ticket_keys` does not go with `client_certificates`";
        let help = "a ticket of another node would let a client in whose certificate is not accepted any more: remove one of them";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    named.iter().filter_map(|file| load_file(file, TicketKey::load, files, diagnostics)).collect()
}

/// The file for the secrets of connections, never without a warning.
pub(super) fn key_log(
    text: &Spanned<Box<str>>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> PathBuf {
    let file = files.path(text);
    let message = format!("with `{}`, this traffic can be decrypted", file.display());
    let help = "use it for debugging only: remove `key_log` afterwards, and delete the file";
    diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.span, message).help(help));
    file
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
    let (Some(certificate), Some(key)) = (&text.value.certificate, &text.value.key) else { return None };
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
    let mut doubt = |message: &str| {
        let message = format!("`{}`: {message}", loaded.file.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.span, message));
    };
    if let Some(reason) = loaded.warning(certificate, now()) {
        doubt(&format!("the OCSP response is not sent to clients: {reason}"));
    } else if loaded.says_revoked(certificate) {
        doubt("the certificate has been revoked: clients reject it");
    }
    Some(loaded)
}

/// Every version has a suite, and every suite that the text names, at `suites_at`, a version.
pub(super) fn check_suites(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
    table_at: SourceSpan,
    suites_at: Option<SourceSpan>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for version in versions {
        if !suites.iter().any(|suite| suite.version() == *version) {
            let message = format!("no suite of `cipher_suites` is for TLS {}", version.name());
            let diagnostic =
                Diagnostic::new(DiagnosticKind::Conflict, suites_at.unwrap_or(table_at), message);
            diagnostics.push(
                diagnostic.help(format!("remove `\"{}\"` from `versions`, or add a suite", version.name())),
            );
        }
    }
    let idle = |suite: &&CipherSuite| !versions.contains(&suite.version());
    if let Some(at) = suites_at
        && let Some(suite) = suites.iter().find(idle)
    {
        let message =
            format!("`{}` is for TLS {}, which is not in `versions`", suite.name(), suite.version().name());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
}

/// Warns when TLS 1.2 has no group: it knows none that is hybrid.
pub(super) fn warn_groups(
    versions: &[TlsVersion],
    groups: &[KeyExchangeGroup],
    groups_at: SourceSpan,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if versions.contains(&TlsVersion::Tls12) && groups.iter().all(|group| group.is_hybrid()) {
        let message = "no group of `groups` is for TLS 1.2: connections of that version fail";
        let help = "remove `\"1.2\"` from `versions`, or add a group such as `\"x25519\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, groups_at, message).help(help));
    }
}

/// Warns of certificates that TLS 1.2 cannot use, because its suites are for the other kind of key. No warning when certificates with the
/// right kind of key have the same names.
fn warn_kinds(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
    certificates: &[(SourceSpan, ListenerCertificate)],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let of_1_2 = || suites.iter().filter(|suite| suite.version() == TlsVersion::Tls12);
    let fits = |is_rsa: bool| of_1_2().any(|suite| suite.fits(is_rsa));
    // The absence of any suite has been reported.
    if !versions.contains(&TlsVersion::Tls12) || fits(true) == fits(false) {
        return;
    }
    let (shown, others): (Vec<_>, Vec<_>) =
        certificates.iter().partition(|(_, shown)| fits(shown.certificate.has_rsa_key()));
    let (kind, suite) = match fits(true) {
        true => ("ECDSA or Ed25519", CipherSuite::EcdsaAes128Gcm),
        false => ("RSA", CipherSuite::RsaAes128Gcm),
    };
    for (at, other) in others {
        let has = |shown: &LoadedCertificate, name: &str| shown.names.iter().any(|own| **own == *name);
        let is_replaced = |name: &str| shown.iter().any(|(_, shown)| has(&shown.certificate, name));
        let names = &other.certificate.names;
        if !names.is_empty() && names.iter().all(|name| is_replaced(name)) {
            continue;
        }
        let message = format!(
            "TLS 1.2 cannot use this certificate: its key is for {kind}, and no suite of that version in `cipher_suites` is"
        );
        let help = format!("remove `\"1.2\"` from `versions`, or add a suite such as `\"{}\"`", suite.name());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, *at, message).help(help));
    }
}
