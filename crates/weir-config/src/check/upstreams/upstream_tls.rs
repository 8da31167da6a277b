//! TLS with servers: their names, the trusted authorities, and the certificate that Weir presents.

use std::sync::Arc;

use rustls_pki_types::ServerName;

use crate::certificate::{Authorities, RevocationLists};
use crate::check::certificate_files;
use crate::check::certificates::tls;
use crate::check::files::Files;
use crate::config::{Server, UpstreamTls};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{ServerText, UpstreamText, UpstreamTlsText};
use crate::value::{CertificateName, ServerAddress};

/// How the servers of an upstream are spoken to; `None`: without TLS.
pub(in crate::check) fn check(
    upstream: &UpstreamText,
    servers: &[Server],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<UpstreamTls> {
    let Some(text) = &upstream.tls else {
        report_names(upstream, diagnostics);
        return None;
    };
    let value = &text.value;
    let authorities = authorities(text, files, diagnostics);
    let revocations = revocations(text, authorities.as_deref(), files, diagnostics);
    let certificate =
        certificate_files::load_presented(text, [&value.certificate, &value.key], files, diagnostics);
    if text.is_sound {
        let suites = text.written("cipher_suites");
        tls::check_suites(&value.versions.0, &value.cipher_suites.0, text.span, suites, diagnostics);
        tls::warn_groups(&value.versions.0, &value.groups.0, text.key_at("groups"), diagnostics);
    }
    Some(UpstreamTls {
        authorities,
        revocations,
        certificate,
        names: names(upstream, text, servers, diagnostics),
        server_name: text.value.server_name.as_ref().map(|name| name.0.clone()),
        subject_alt_names: subject_alt_names(text, diagnostics),
        versions: value.versions.0.clone(),
        cipher_suites: value.cipher_suites.0.clone(),
        groups: value.groups.0.clone(),
        session_reuse: value.session_reuse,
        key_log: value.key_log.as_ref().map(|file| tls::key_log(file, files, diagnostics)),
        reload: value.reload,
    })
}

/// Reports server names without TLS.
fn report_names(upstream: &UpstreamText, diagnostics: &mut Vec<Diagnostic>) {
    let entries = upstream.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let named = |entry: &Spanned<ServerText>| {
        let table = entry.value.table()?;
        table.value.server_name.as_ref().map(|_| table.key_at("server_name"))
    };
    for at in entries.iter().filter_map(named) {
        let message = "`server_name` has no effect: the upstream has no `tls`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message).help("write `tls = {}`"));
    }
}

fn subject_alt_names(
    text: &SpannedTable<UpstreamTlsText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<CertificateName> {
    let Some(names) = &text.value.subject_alt_names else { return Vec::new() };
    if !text.value.verify {
        let message = "`subject_alt_names` has no effect with `verify = false`";
        let at = text.key_at("subject_alt_names");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    names.0.clone()
}

fn authorities(
    text: &SpannedTable<UpstreamTlsText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<Authorities>> {
    let value = &text.value;
    if !value.verify {
        let message = "certificates of servers are not verified: an attacker on the network path can read and change everything";
        let help = "set `ca` to a file with their authority, or with the certificate itself";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::Suspicious, text.key_at("verify"), message).help(help));
        if let Some(ca) = &value.ca {
            let message = "`ca` has no effect with `verify = false`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, ca.span, message));
        }
        return None;
    }
    if !files.may_read {
        return None;
    }
    let (loaded, at) = match &value.ca {
        Some(ca) => (Authorities::load(&files.path(ca)), ca.span),
        None => (files.authorities_of_system(), text.span),
    };
    loaded.map_err(|error| diagnostics.push(certificate_files::diagnostic(&error, at))).ok()
}

fn revocations(
    text: &SpannedTable<UpstreamTlsText>,
    authorities: Option<&Authorities>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<RevocationLists>> {
    let crl = text.value.crl.as_ref()?;
    if !text.value.verify {
        let message = "`crl` has no effect with `verify = false`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, crl.span, message));
        return None;
    }
    // The authorities of the system are many, and the lists of all are never at hand.
    let named = authorities.filter(|authorities| authorities.file.is_some());
    certificate_files::load_revocations(crl, named, files, diagnostics)
}

/// The name that the certificate of each server has to match.
fn names(
    upstream: &UpstreamText,
    text: &SpannedTable<UpstreamTlsText>,
    servers: &[Server],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<ServerName<'static>> {
    let entries = upstream.servers.as_ref().map_or(&[][..], |servers| &servers.0);
    let own = |server: &Server| entries.iter().find_map(|entry| own_name(entry, &server.address));
    let common = text.value.server_name.as_ref().map(|name| name.0.clone());
    let mut nameless = None;
    let names = servers.iter().map(|server| {
        own(server).or_else(|| common.clone()).unwrap_or_else(|| {
            if matches!(server.address, ServerAddress::Unix(_)) {
                nameless = nameless.or(Some(&server.address));
            }
            server.tls_name()
        })
    });
    let names = names.collect();
    let has_names = text.value.subject_alt_names.is_some() || !text.is_missing("server_name");
    if let Some(address) = nameless.filter(|_| text.value.verify && !has_names) {
        let message = format!("the certificate of `{address}` has no name to match");
        let help = "write a `server_name`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
    }
    names
}

fn own_name(entry: &Spanned<ServerText>, address: &ServerAddress) -> Option<ServerName<'static>> {
    let table = &entry.value.table()?.value;
    let is_it = table.address.as_ref().is_some_and(|known| known.value == *address);
    table.server_name.as_ref().filter(|_| is_it).map(|name| name.0.clone())
}
