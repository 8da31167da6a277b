//! The certificates that clients are shown, for reports: those of the config, and those that Weir obtains by itself.

use std::path::Path;
use std::sync::Arc;

use weir_config::{CertificateSource, UnusableCertificate};
use weir_http::WallTime;
use weir_observe::IssuanceStats;
use weir_observe::overview::CertificateOverview;
use weir_proxy::net::clock;
use weir_proxy::net::tls::issued::{HostStatus, IssuanceState, IssuedCertificates, ListenerIssued};
use weir_proxy::state::snapshot::Snapshot;

use crate::tls::internal_authority;

/// All of them, now.
pub(crate) fn certificates(snapshot: &Snapshot) -> Vec<CertificateOverview> {
    let mut found = Vec::new();
    for issued in issuers(snapshot) {
        for (host, status) in issued.hosts() {
            found.push(of_host(snapshot, issued, &host, status));
        }
    }
    found.extend(of_files(snapshot));
    found.extend(of_internal_authority(snapshot));
    found
}

/// The figures of those that Weir obtains by itself; `None` where it does not.
pub(crate) fn issuance(snapshot: &Snapshot) -> Option<IssuanceStats> {
    let orders = snapshot.issuers.as_ref()?.orders();
    let states: Vec<IssuanceState> = issuers(snapshot)
        .into_iter()
        .flat_map(IssuedCertificates::hosts)
        .map(|(_, status)| status.state)
        .collect();
    let count = |state: IssuanceState| states.iter().filter(|other| **other == state).count() as u64;
    Some(IssuanceStats { hosts: IssuanceState::ALL.map(|state| (state.name(), count(state))).into(), orders })
}

/// Each issuer of the config once.
fn issuers(snapshot: &Snapshot) -> Vec<&IssuedCertificates> {
    let mut found: Vec<&Arc<IssuedCertificates>> = Vec::new();
    for (_, issued) in listeners(snapshot) {
        if !found.iter().any(|known| Arc::ptr_eq(known, &issued.issued)) {
            found.push(&issued.issued);
        }
    }
    found.into_iter().map(|issued| &**issued).collect()
}

fn listeners(snapshot: &Snapshot) -> impl Iterator<Item = (&str, &ListenerIssued)> {
    snapshot
        .listeners
        .iter()
        .filter_map(|plan| Some((&*plan.config.name, plan.tls.as_ref()?.certificates.issued()?)))
}

fn of_host(
    snapshot: &Snapshot,
    issued: &IssuedCertificates,
    host: &str,
    status: HostStatus,
) -> CertificateOverview {
    let shows = |listener: &ListenerIssued| {
        std::ptr::eq(&*listener.issued, issued)
            && (listener.config.hosts.iter().any(|own| **own == *host) || listener.config.is_on_demand(host))
    };
    let listeners = listeners(snapshot).filter(|(_, listener)| shows(listener));
    let file = issued.installed(host).map(|loaded| loaded.files.certificate.display().to_string());
    CertificateOverview {
        listeners: listeners.map(|(name, _)| name.to_owned()).collect(),
        host: host.to_owned(),
        source: "acme",
        state: status.state.name(),
        ca: status.ca.map(String::from),
        file,
        not_after_s: status.not_after.map(WallTime::seconds),
        next_attempt_s: status.next_attempt.map(WallTime::seconds),
        last_error: status.last_error.map(String::from),
        obtained: status.obtained,
        failed: status.failed,
    }
}

fn of_files(snapshot: &Snapshot) -> Vec<CertificateOverview> {
    let now = clock::date();
    let mut found: Vec<CertificateOverview> = Vec::new();
    for plan in &snapshot.listeners {
        let Some(tls) = &plan.tls else { continue };
        let sources = tls.certificates.sources();
        let unusable: Vec<&UnusableCertificate> = sources.iter().flat_map(unusable_of).collect();
        let is_file = |source: &&CertificateSource| !matches!(source, CertificateSource::Internal(_));
        for shown in sources.iter().filter(is_file).flat_map(CertificateSource::certificates) {
            let certificate = &shown.certificate;
            let file = certificate.files.certificate.display().to_string();
            let name = plan.config.name.to_string();
            if let Some(known) = found.iter_mut().find(|known| known.file.as_ref() == Some(&file)) {
                known.listeners.push(name);
                continue;
            }
            found.push(CertificateOverview {
                listeners: vec![name],
                host: certificate.names.join(", "),
                source: "file",
                state: if certificate.not_after <= now { "expired" } else { "valid" },
                ca: None,
                file: Some(file),
                not_after_s: Some(certificate.not_after.seconds()),
                next_attempt_s: None,
                last_error: reason_of(&unusable, &certificate.files.certificate),
                obtained: 0,
                failed: 0,
            });
        }
        for one in unusable {
            let file = one.file.display().to_string();
            if found.iter().any(|known| known.file.as_ref() == Some(&file)) {
                continue;
            }
            found.push(CertificateOverview {
                listeners: vec![plan.config.name.to_string()],
                host: String::new(),
                source: "file",
                state: "unusable",
                ca: None,
                file: Some(file),
                not_after_s: None,
                next_attempt_s: None,
                last_error: Some(one.error.to_string()),
                obtained: 0,
                failed: 0,
            });
        }
    }
    found
}

/// Those of the authority for development; the file is its root, for clients that are to trust it.
fn of_internal_authority(snapshot: &Snapshot) -> Vec<CertificateOverview> {
    let now = clock::date();
    let mut found = Vec::new();
    for plan in &snapshot.listeners {
        let Some(tls) = &plan.tls else { continue };
        for source in tls.certificates.sources() {
            let CertificateSource::Internal(internal) = source else { continue };
            let not_after = internal.certificate.as_ref().map(|shown| shown.certificate.not_after);
            let names = internal.authority.names.iter().map(ToString::to_string);
            let addresses = internal.authority.addresses.iter().map(ToString::to_string);
            let is_over = not_after.is_none_or(|at| at <= now);
            found.push(CertificateOverview {
                listeners: vec![plan.config.name.to_string()],
                host: names.chain(addresses).collect::<Vec<_>>().join(", "),
                source: "internal",
                state: match (&internal.last_error, is_over) {
                    (_, true) => IssuanceState::Expired.name(),
                    (Some(_), false) => IssuanceState::RenewalFailed.name(),
                    (None, false) => IssuanceState::Valid.name(),
                },
                ca: None,
                file: Some(internal.authority.folder().join("root.pem").display().to_string()),
                not_after_s: not_after.map(WallTime::seconds),
                next_attempt_s: Some(internal_authority::renewal_at(&internal).seconds()),
                last_error: internal.last_error.map(String::from),
                obtained: 0,
                failed: 0,
            });
        }
    }
    found
}

/// The certificates of a folder that cannot be used.
fn unusable_of(source: &CertificateSource) -> &[UnusableCertificate] {
    match source {
        CertificateSource::Files(_) | CertificateSource::Internal(_) => &[],
        CertificateSource::Directory(directory) => &directory.unusable,
    }
}

/// Why a file that is in use as it was before cannot be used as it is now.
fn reason_of(unusable: &[&UnusableCertificate], file: &Path) -> Option<String> {
    unusable.iter().find(|one| one.file == file).map(|one| one.error.to_string())
}
