//! TLS: usable files, and versions and suites that fit each other.

use std::path::PathBuf;
use std::sync::Arc;

use super::{acme, certificate_sources, client_certificates, internal};
use crate::certificate::{LoadedCertificate, TicketKey};
use crate::check::certificate_files::load_file;
use crate::check::files::Files;
use crate::config::{
    CertificateSource, CipherSuite, InternalSource, KeyExchangeGroup, ListenerFault, ListenerTls, Route,
    TlsVersion, versions_without_suite,
};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{OneOrMany, Spanned, SpannedTable};
use crate::text::ListenerTlsText;

pub(in crate::check) fn check(
    text: &SpannedTable<ListenerTlsText>,
    routes: &[Route],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ListenerTls {
    let value = &text.value;
    let mut sources = certificate_sources::check(text, files, diagnostics);
    if let Some(internal) = &value.internal {
        let authority = internal::check(internal, routes, files, diagnostics);
        let source = InternalSource { authority, certificate: None, last_error: None };
        sources.push((internal.span, CertificateSource::Internal(source)));
        if value.acme.is_some() {
            let message = "`acme` and `internal` exclude each other";
            let help = "`internal` is for development: leave it out where clients trust public authorities";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at("internal"), message);
            diagnostics.push(diagnostic.label(text.key_at("acme"), "the other is here").help(help));
        }
    }
    if value.internal.is_none() && ["certificates", "acme", "internal"].iter().all(|key| text.is_missing(key))
    {
        let message = "`certificates` is missing";
        let help = "name files in `certificates`, write `acme = {}` for certificates that Weir obtains by itself, or `internal = {}` for development";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
    }
    let acme = value.acme.as_ref().map(|acme| acme::check(acme, routes, files, diagnostics));
    // A suite or group that could not be read may be the one that is missed.
    if text.is_sound {
        let suites = text.written("cipher_suites");
        check_suites(&value.versions.0, &value.cipher_suites.0, text.span, suites, diagnostics);
        warn_groups(&value.versions.0, &value.groups.0, text.key_at("groups"), diagnostics);
        warn_kinds(&value.versions.0, &value.cipher_suites.0, &sources, diagnostics);
    }
    ListenerTls {
        sources: sources.into_iter().map(|(_, source)| source).collect(),
        acme,
        versions: value.versions.0.clone(),
        cipher_suites: value.cipher_suites.0.clone(),
        groups: value.groups.0.clone(),
        session_tickets: value.session_tickets,
        ticket_keys: ticket_keys(text, files, diagnostics),
        session_cache: value.session_cache,
        handshake_rate: value.handshake_rate,
        unknown_names: value.unknown_names,
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
        let message = ListenerFault::TicketsAndClientCertificates.to_string();
        let help = "a ticket of another node would let a client in whose certificate is not accepted any more: remove one of them";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
    named.iter().filter_map(|file| load_file(file, TicketKey::load, files, diagnostics)).collect()
}

/// The file for the secrets of connections, never without a warning.
pub(in crate::check) fn key_log(
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

/// Every version has a suite, and every suite that the text names, at `suites_at`, a version.
pub(in crate::check) fn check_suites(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
    table_at: SourceSpan,
    suites_at: Option<SourceSpan>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for version in versions_without_suite(versions, suites) {
        let message = ListenerFault::NoSuite(version.name()).to_string();
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, suites_at.unwrap_or(table_at), message);
        let help = format!("remove `\"{}\"` from `versions`, or add a suite", version.name());
        diagnostics.push(diagnostic.help(help));
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
pub(in crate::check) fn warn_groups(
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
    sources: &[(SourceSpan, CertificateSource)],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let of_1_2 = || suites.iter().filter(|suite| suite.version() == TlsVersion::Tls12);
    let fits = |is_rsa: bool| of_1_2().any(|suite| suite.fits(is_rsa));
    // The absence of any suite has been reported.
    if !versions.contains(&TlsVersion::Tls12) || fits(true) == fits(false) {
        return;
    }
    let each = sources.iter().flat_map(|(at, source)| source.certificates().iter().map(move |one| (at, one)));
    let (shown, others): (Vec<_>, Vec<_>) =
        each.partition(|(_, shown)| fits(shown.certificate.has_rsa_key()));
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
        let named = match sources.iter().find(|(source_at, _)| source_at == at) {
            Some((_, CertificateSource::Directory(_))) => {
                format!("`{}`", other.certificate.files.certificate.display())
            }
            Some((_, CertificateSource::Files(_) | CertificateSource::Internal(_))) | None => {
                "this certificate".to_owned()
            }
        };
        let message = format!(
            "TLS 1.2 cannot use {named}: its key is for {kind}, and no suite of that version in `cipher_suites` is"
        );
        let help = format!("remove `\"1.2\"` from `versions`, or add a suite such as `\"{}\"`", suite.name());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, *at, message).help(help));
    }
}
