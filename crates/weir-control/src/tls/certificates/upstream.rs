//! Files of TLS with servers that change: read again and used from the next connection on.
//!
//! As with the certificates of listeners, files that cannot be used change nothing, and the log says why. Connections that were opened before end
//! with the request that they carry, as after a reload. Must not decide about trust: that is `tls::client_config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_config::{Authorities, CertificateError, LoadedCertificate, RevocationLists, UpstreamTls};
use weir_http::WallTime;

use super::files::{DATE_INTERVAL, FileStamp, days_to_tell, read_if_changed, stamp};
use weir_proxy::net::clock;
use weir_proxy::net::tls::client_config::{TlsClientConfig, UpstreamTlsFiles};
use weir_proxy::state::snapshot::UpstreamPlan;

/// Keeps the TLS files of an upstream current until the task is dropped.
pub(crate) async fn keep_current(plan: Arc<UpstreamPlan>) {
    UpstreamWatch::new(plan).run().await;
}

/// The files of one upstream and their state.
struct UpstreamWatch {
    plan: Arc<UpstreamPlan>,
    /// As they were when they were last read.
    stamps: FileStamps,
    /// Days left of which the log has spoken.
    reported_days: Option<u64>,
    /// The end of the list of which the log has said that it is over.
    reported_list: Option<WallTime>,
}

#[derive(Debug, Clone, Copy, Default)]
struct FileStamps {
    authorities: Option<FileStamp>,
    revocations: Option<FileStamp>,
    certificate: Option<[FileStamp; 2]>,
}

/// The result of polling the files.
struct ChangedFiles {
    stamps: FileStamps,
    authorities: Option<Result<Arc<Authorities>, CertificateError>>,
    revocations: Option<Result<Arc<RevocationLists>, CertificateError>>,
    certificate: Option<Result<Arc<LoadedCertificate>, CertificateError>>,
}

impl UpstreamWatch {
    fn new(plan: Arc<UpstreamPlan>) -> Self {
        Self { plan, stamps: FileStamps::default(), reported_days: None, reported_list: None }
    }

    async fn run(mut self) {
        let plan = Arc::clone(&self.plan);
        let (Some(client_config), Some(config)) = (&plan.tls, &plan.config.tls) else { return };
        loop {
            self.tell_expiry(client_config);
            self.tell_outdated(client_config);
            tokio::time::sleep(config.reload.unwrap_or(DATE_INTERVAL)).await;
            if config.reload.is_some() {
                self.look(client_config, config).await;
            }
        }
    }

    /// Reads changed files.
    async fn look(&mut self, client_config: &TlsClientConfig, config: &UpstreamTls) {
        let (before, stamps) = (client_config.files(), self.stamps);
        let known = before.clone();
        // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
        let Ok(found) = tokio::task::spawn_blocking(move || find(&known, stamps)).await else { return };
        self.stamps = found.stamps;
        let mut files = before.clone();
        let mut changed = Vec::new();
        if let Some(new) = self.usable(found.authorities)
            && files.authorities.as_ref() != Some(&new)
        {
            changed.extend(new.file.clone());
            files.authorities = Some(new);
        }
        if let Some(new) = self.usable(found.revocations)
            && files.revocations.as_ref() != Some(&new)
        {
            changed.push(new.file.clone());
            files.revocations = Some(new);
        }
        if let Some(new) = self.usable(found.certificate)
            && files.certificate.as_ref() != Some(&new)
        {
            changed.push(new.files.certificate.clone());
            files.certificate = Some(new);
        }
        if changed.is_empty() {
            return;
        }
        let replaced = client_config.replace(config, files);
        if replaced.is_ok() {
            self.plan.end_connections(clock::now());
        }
        self.tell(&changed, &replaced);
        if replaced.is_ok() {
            // Handshakes that were under way have used the files of before. Those of after end with them, which costs a few more.
            tokio::time::sleep(self.plan.config.timeouts.connect).await;
            self.plan.end_connections(clock::now());
        }
    }

    fn tell(&self, changed: &[PathBuf], replaced: &Result<(), rustls::Error>) {
        for file in changed {
            match replaced {
                Ok(()) => {
                    let (upstream, file) = (&*self.plan.config.name, file.display());
                    tracing::info!(upstream, %file, "a file has changed: it holds for connections to servers from now on");
                }
                Err(error) => self.tell_refusal(file, &error.to_string()),
            }
        }
    }

    /// The content that was read, if it could be.
    fn usable<T>(&self, read: Option<Result<T, CertificateError>>) -> Option<T> {
        match read? {
            Ok(new) => Some(new),
            Err(error) => {
                self.tell_refusal(&error.file, &error.message);
                None
            }
        }
    }

    fn tell_refusal(&self, file: &Path, reason: &str) {
        let (upstream, file) = (&*self.plan.config.name, file.display());
        tracing::error!(
            upstream, %file, reason, "a file has changed and cannot be used; the old one stays in use"
        );
    }

    /// Says once when a list of revoked certificates is outdated: every request would fail, and the list is to blame.
    fn tell_outdated(&mut self, client_config: &TlsClientConfig) {
        let Some(lists) = client_config.files().revocations else { return };
        let is_over = lists.next_update <= clock::date();
        if is_over && self.reported_list.replace(lists.next_update) != Some(lists.next_update) {
            let (upstream, file) = (&*self.plan.config.name, lists.file.display());
            tracing::error!(
                upstream, %file, since = lists.next_update.seconds(),
                "a list of revoked certificates is outdated: servers with certificates of its authority are rejected"
            );
        }
    }

    /// Names the certificate that servers are shown when it expires soon, or has expired, once a day.
    fn tell_expiry(&mut self, client_config: &TlsClientConfig) {
        let Some(certificate) = client_config.files().certificate else { return };
        let now = clock::date();
        let (upstream, file) = (&*self.plan.config.name, certificate.files.certificate.display());
        match days_to_tell(&mut self.reported_days, &certificate, now) {
            None => {}
            Some(Duration::ZERO) => {
                tracing::error!(upstream, %file, "a certificate has expired: servers refuse it");
            }
            Some(left) => {
                let days = left.as_secs() / 86_400;
                tracing::warn!(upstream, %file, days, "a certificate expires soon");
            }
        }
    }
}

/// Reads the files whose stamps have changed.
fn find(known: &UpstreamTlsFiles, before: FileStamps) -> ChangedFiles {
    let mut found = ChangedFiles { stamps: before, authorities: None, revocations: None, certificate: None };
    if let Some(file) = known.authorities.as_ref().and_then(|known| known.file.as_ref()) {
        let now = stamp(file);
        if found.stamps.authorities.replace(now) != Some(now) {
            found.authorities = Some(Authorities::load(file));
        }
    }
    if let Some(file) = known.revocations.as_ref().map(|known| &known.file) {
        let now = stamp(file);
        if found.stamps.revocations.replace(now) != Some(now) {
            found.revocations = Some(RevocationLists::load(file));
        }
    }
    if let Some(files) = known.certificate.as_ref().map(|known| &known.files) {
        let (stamps, read) = read_if_changed(files, before.certificate);
        found.stamps.certificate = Some(stamps);
        found.certificate = read;
    }
    found
}
