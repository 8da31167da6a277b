//! TLS: files that can be used, versions and suites that fit each other.

use std::path::PathBuf;
use std::sync::Arc;

use super::certificate_files::{finding, load_pair, now};
use super::{Files, client_certificates};
use crate::certificate::{Certificate, OcspResponse};
use crate::config::{CipherSuite, KeyExchangeGroup, ListenerCertificate, ListenerTls, TlsVersion};
use crate::key::{Located, Many, Spanned};
use crate::mistake::{Finding, MistakeKind};
use crate::source_map::Span;
use crate::text::{CertificateText, ListenerTlsText};

pub(super) fn check(
    text: &Located<ListenerTlsText>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> ListenerTls {
    let value = &text.value;
    let mut certificates: Vec<(Span, ListenerCertificate)> = Vec::new();
    if let Some(Many(list)) = &value.certificates {
        check_default(list, findings);
        let mut in_order: Vec<_> = list.iter().collect();
        in_order.sort_by_key(|certificate| !certificate.value.default);
        let loaded = |text: &Located<CertificateText>| Some((text.at, load(text, files, findings)?));
        certificates = in_order.into_iter().filter_map(loaded).collect();
    }
    // A suite or group that could not be read may be the one that is missed.
    if text.is_sound {
        let suites = text.written("cipher_suites");
        check_suites(&value.versions.0, &value.cipher_suites.0, text.at, suites, findings);
        warn_groups(&value.versions.0, &value.groups.0, text.key_at("groups"), findings);
        warn_kinds(&value.versions.0, &value.cipher_suites.0, &certificates, findings);
    }
    ListenerTls {
        certificates: certificates.into_iter().map(|(_, certificate)| certificate).collect(),
        versions: value.versions.0.clone(),
        cipher_suites: value.cipher_suites.0.clone(),
        groups: value.groups.0.clone(),
        session_tickets: value.session_tickets,
        session_cache: value.session_cache,
        handshake_rate: value.handshake_rate,
        client_certificates: value
            .client_certificates
            .as_ref()
            .map(|clients| client_certificates::check(clients, files, findings)),
        key_log: value.key_log.as_ref().map(|file| key_log(file, files, findings)),
        reload: value.reload,
    }
}

/// The file for the secrets of connections, never without a warning.
pub(super) fn key_log(text: &Spanned<Box<str>>, files: &Files<'_>, findings: &mut Vec<Finding>) -> PathBuf {
    let file = files.path(text);
    let what = format!("whoever reads `{}` can decrypt this traffic", file.display());
    let hint = "it is for a search after a fault: take `key_log` out afterwards, and delete the file";
    findings.push(Finding::new(MistakeKind::Doubtful, text.at, what).hint(hint));
    file
}

/// One certificate at most is the default.
fn check_default(list: &[Located<CertificateText>], findings: &mut Vec<Finding>) {
    let mut defaults = list.iter().filter(|certificate| certificate.value.default);
    let Some(first) = defaults.next() else { return };
    for other in defaults {
        let finding =
            Finding::new(MistakeKind::Conflict, other.key_at("default"), "two certificates are the default");
        findings.push(finding.related(first.key_at("default"), "the first is here"));
    }
}

fn load(
    text: &Located<CertificateText>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<ListenerCertificate> {
    let (Some(certificate), Some(key)) = (&text.value.certificate, &text.value.key) else { return None };
    let loaded = load_pair(certificate, key, files, findings)?;
    if let Some(doubt) = loaded.doubt(now()) {
        let what = format!("`{}`: {doubt}", loaded.files.certificate.display());
        findings.push(Finding::new(MistakeKind::Doubtful, certificate.at, what));
    }
    let ocsp = text.value.ocsp.as_ref().and_then(|file| ocsp(file, &loaded, files, findings));
    Some(ListenerCertificate { certificate: loaded, ocsp })
}

/// The response for stapling. One that is of no use now may be replaced at any time.
fn ocsp(
    text: &Spanned<Box<str>>,
    certificate: &Certificate,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Arc<OcspResponse>> {
    let loaded =
        OcspResponse::load(&files.path(text)).map_err(|error| findings.push(finding(&error, text.at)));
    let loaded = loaded.ok()?;
    let mut doubt = |what: &str| {
        let what = format!("`{}`: {what}", loaded.file.display());
        findings.push(Finding::new(MistakeKind::Doubtful, text.at, what));
    };
    if let Some(reason) = loaded.doubt(certificate, now()) {
        doubt(&format!("clients are not shown the OCSP response: {reason}"));
    } else if loaded.says_revoked(certificate) {
        doubt("the certificate has been revoked: clients refuse it");
    }
    Some(loaded)
}

/// Every version has a suite, and every suite that the text names, at `suites_at`, a version.
pub(super) fn check_suites(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
    table_at: Span,
    suites_at: Option<Span>,
    findings: &mut Vec<Finding>,
) {
    for version in versions {
        if !suites.iter().any(|suite| suite.version() == *version) {
            let what = format!("no suite of `cipher_suites` is for TLS {}", version.name());
            let finding = Finding::new(MistakeKind::Conflict, suites_at.unwrap_or(table_at), what);
            findings.push(
                finding.hint(format!("take `\"{}\"` out of `versions`, or add a suite", version.name())),
            );
        }
    }
    let idle = |suite: &&CipherSuite| !versions.contains(&suite.version());
    if let Some(at) = suites_at
        && let Some(suite) = suites.iter().find(idle)
    {
        let what =
            format!("`{}` is for TLS {}, which `versions` leaves out", suite.name(), suite.version().name());
        findings.push(Finding::new(MistakeKind::Unused, at, what));
    }
}

/// Warns when TLS 1.2 has no group: it knows none that is hybrid.
pub(super) fn warn_groups(
    versions: &[TlsVersion],
    groups: &[KeyExchangeGroup],
    groups_at: Span,
    findings: &mut Vec<Finding>,
) {
    if versions.contains(&TlsVersion::Tls12) && groups.iter().all(|group| group.is_hybrid()) {
        let what = "no group of `groups` is for TLS 1.2: no connection of that version comes about";
        let hint = "take `\"1.2\"` out of `versions`, or add a group such as `\"x25519\"`";
        findings.push(Finding::new(MistakeKind::Doubtful, groups_at, what).hint(hint));
    }
}

/// Warns of certificates that TLS 1.2 cannot show, because its suites are for the other kind of key. One with the right kind and the same
/// names stands in for them.
fn warn_kinds(
    versions: &[TlsVersion],
    suites: &[CipherSuite],
    certificates: &[(Span, ListenerCertificate)],
    findings: &mut Vec<Finding>,
) {
    let of_1_2 = || suites.iter().filter(|suite| suite.version() == TlsVersion::Tls12);
    let fits = |is_rsa: bool| of_1_2().any(|suite| suite.fits(is_rsa));
    // Where there is no suite at all, that has been said.
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
        let has = |shown: &Certificate, name: &str| shown.names.iter().any(|own| **own == *name);
        let is_replaced = |name: &str| shown.iter().any(|(_, shown)| has(&shown.certificate, name));
        let names = &other.certificate.names;
        if !names.is_empty() && names.iter().all(|name| is_replaced(name)) {
            continue;
        }
        let what = format!(
            "TLS 1.2 cannot show this certificate: its key is for {kind}, and no suite of that version in `cipher_suites` is"
        );
        let hint = format!("take `\"1.2\"` out of `versions`, or add a suite such as `\"{}\"`", suite.name());
        findings.push(Finding::new(MistakeKind::Doubtful, *at, what).hint(hint));
    }
}
