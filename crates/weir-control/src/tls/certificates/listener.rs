//! Certificates whose files change: read again and used from the next handshake on, without a connection noticing.
//!
//! Files are polled rather than watched, which also detects changes on network file systems and swapped links. Files
//! that cannot be used change nothing, and the log says why; when the second of two has arrived as well, they are read again. Warns in time
//! when a certificate is about to expire.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_config::{
    CertificateDirectory, CertificateSource, Listener, ListenerCertificate, LoadedCertificate,
};

use super::client_authorities;
use super::directory::{merge, scan};
use super::files::{CertificateStamps, DATE_INTERVAL, days_to_tell, read_if_changed};
use super::ocsp_responses::OcspResponses;
use super::ticket_keys;
use crate::tls::internal_authority;
use weir_proxy::net::clock;
use weir_proxy::net::tls::certificates::Certificates;
use weir_proxy::state::snapshot::ListenerPlan;

/// Keeps the certificates of a listener current until the task is dropped.
pub(crate) async fn keep_current(plan: Arc<ListenerPlan>) {
    if let (Some(tls), Some(config)) = (&plan.tls, &plan.config.tls) {
        let watch = ListenerWatch::new(&plan.config, Arc::clone(&tls.certificates));
        tokio::join!(
            watch.run(config.reload),
            client_authorities::keep_current(&plan),
            ticket_keys::keep_current(&plan)
        );
    }
}

/// The certificates of one listener and the state of their files.
struct ListenerWatch {
    listener: Box<str>,
    certificates: Arc<Certificates>,
    /// Of certificate and key, as they were when they were last read.
    stamps: CertificateStamps,
    /// The same of the files of each folder.
    directory_stamps: HashMap<PathBuf, CertificateStamps>,
    /// Days left of which the log has spoken, by the file of the certificate.
    reported_days: HashMap<PathBuf, Option<u64>>,
    responses: OcspResponses,
}

/// What a look at the files has found.
#[derive(Debug, Default)]
struct ChangedCertificates {
    /// Certificates that are new or have changed.
    loaded: Vec<Arc<LoadedCertificate>>,
    /// Whether anything else is different.
    is_other: bool,
}

impl ListenerWatch {
    fn new(listener: &Listener, certificates: Arc<Certificates>) -> Self {
        Self {
            listener: listener.name.clone(),
            certificates,
            stamps: HashMap::new(),
            reported_days: HashMap::new(),
            directory_stamps: HashMap::new(),
            responses: OcspResponses::default(),
        }
    }

    async fn run(mut self, interval: Option<Duration>) {
        loop {
            self.tell_expiry();
            let outdated_in = self.review_responses();
            let renewed_in = self.renew_internal().await;
            let sooner = outdated_in.into_iter().chain(renewed_in);
            tokio::time::sleep(sooner.fold(interval.unwrap_or(DATE_INTERVAL), Duration::min)).await;
            if interval.is_some() {
                self.look().await;
            }
        }
    }

    /// Renews the certificate of the internal authority when it is due; how long until then.
    async fn renew_internal(&self) -> Option<Duration> {
        let (listener, certificates) = (self.listener.clone(), Arc::clone(&self.certificates));
        let renewed =
            tokio::task::spawn_blocking(move || internal_authority::renew(&listener, &certificates));
        renewed.await.ok()?
    }

    /// Reads changed files.
    async fn look(&mut self) {
        let mut sources = self.certificates.sources();
        let mut changed = ChangedCertificates::default();
        for source in &mut sources {
            match source {
                CertificateSource::Files(shown) => self.look_at_files(shown, &mut changed).await,
                CertificateSource::Directory(directory) => {
                    self.look_in_directory(directory, &mut changed).await;
                }
                CertificateSource::Internal(_) => {}
            }
        }
        let shown = sources.iter_mut().flat_map(|source| match source {
            CertificateSource::Files(shown) => std::slice::from_mut(shown),
            CertificateSource::Directory(directory) => directory.certificates.as_mut_slice(),
            CertificateSource::Internal(_) => &mut [],
        });
        for read in self.responses.look(shown).await {
            self.certificates.count_reload(read.is_ok());
            changed.is_other |= read.is_ok();
            match read {
                Ok(new) => {
                    let (listener, file) = (&*self.listener, new.file.display());
                    tracing::info!(listener, %file, "an OCSP response has changed");
                }
                Err(error) => {
                    let (listener, file) = (&*self.listener, error.file.display());
                    tracing::error!(
                        listener, %file, reason = error.message,
                        "an OCSP response has changed and cannot be used; the old one stays in use"
                    );
                }
            }
        }
        if changed.is_other || !changed.loaded.is_empty() {
            self.replace(sources, &changed.loaded);
        }
    }

    /// Reads the files of one certificate if they have changed.
    async fn look_at_files(&mut self, shown: &mut ListenerCertificate, changed: &mut ChangedCertificates) {
        let place = &mut shown.certificate;
        let (files, before) = (place.files.clone(), self.stamps.get(&place.files).copied());
        // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
        let Ok((now, read)) = tokio::task::spawn_blocking(move || read_if_changed(&files, before)).await
        else {
            return;
        };
        self.stamps.insert(place.files.clone(), now);
        match read {
            None => {}
            Some(Ok(new)) if new.chain == place.chain && new.key == place.key => {}
            Some(Ok(new)) => {
                changed.loaded.push(Arc::clone(&new));
                *place = new;
            }
            Some(Err(error)) => {
                self.certificates.count_reload(false);
                tell_refusal(&self.listener, &error.file, &error.message);
            }
        }
    }

    /// Reads the files of a folder that have come or changed, and drops those that are gone.
    async fn look_in_directory(
        &mut self,
        directory: &mut CertificateDirectory,
        changed: &mut ChangedCertificates,
    ) {
        let known = directory.clone();
        let stamps = self.directory_stamps.get(&directory.path).cloned().unwrap_or_default();
        let Ok(scanned) = tokio::task::spawn_blocking(move || scan(&known, &stamps)).await else { return };
        if let Ok(scanned) = &scanned {
            let stamps = scanned.iter().map(|one| (one.files.clone(), one.stamps)).collect();
            self.directory_stamps.insert(directory.path.clone(), stamps);
        }
        let is_last = self.certificates.issued().is_none()
            && self.certificates.in_use().len() == directory.certificates.len();
        let merged = merge(directory, scanned, is_last);
        let listener = &*self.listener;
        for gone in &merged.gone {
            let file = gone.display();
            tracing::info!(listener, %file, "a certificate is gone from its folder: it is used no more");
        }
        for error in &merged.refused {
            self.certificates.count_reload(false);
            let (file, reason) = (error.file.display(), &*error.message);
            tracing::error!(
                listener, %file, reason,
                "a folder of certificates has something that cannot be used; the others, and what was there before, stay in use"
            );
        }
        changed.is_other |= merged.has_changed;
        changed.loaded.extend(merged.loaded);
    }

    /// Stops to show responses that are of no use any more; how long the others are at least.
    fn review_responses(&mut self) -> Option<Duration> {
        let shown = self.certificates.in_use();
        let verdict = self.responses.review(&self.listener, &shown);
        if verdict.has_changed {
            self.replace(self.certificates.sources(), &[]);
        }
        verdict.next
    }

    /// Uses `sources`, of which `changed` are new, from now on, or keeps the old ones if they cannot be used.
    fn replace(&self, sources: Vec<CertificateSource>, changed: &[Arc<LoadedCertificate>]) {
        let replaced = self.certificates.replace(sources);
        for certificate in changed {
            self.certificates.count_reload(replaced.is_ok());
            match &replaced {
                Ok(()) => tell_reload(&self.listener, certificate),
                Err(error) => {
                    let file = &certificate.files.certificate;
                    tell_refusal(&self.listener, file, &error.to_string());
                }
            }
        }
    }

    /// Names certificates that expire soon, or have expired, once a day.
    fn tell_expiry(&mut self) {
        let now = clock::date();
        let sources = self.certificates.sources();
        // That of the internal authority is short-lived, and renewed here.
        let is_file = |source: &&CertificateSource| !matches!(source, CertificateSource::Internal(_));
        let shown: Vec<&ListenerCertificate> =
            sources.iter().filter(is_file).flat_map(CertificateSource::certificates).collect();
        let is_shown = |file: &PathBuf| shown.iter().any(|one| one.certificate.files.certificate == *file);
        if self.reported_days.len() > shown.len() {
            self.reported_days.retain(|file, _| is_shown(file));
        }
        for ListenerCertificate { certificate, .. } in shown {
            let logged = self.reported_days.entry(certificate.files.certificate.clone()).or_default();
            let (listener, file) = (&*self.listener, certificate.files.certificate.display());
            match days_to_tell(logged, certificate, now) {
                None => {}
                Some(Duration::ZERO) => {
                    tracing::error!(listener, %file, "a certificate has expired: clients refuse it");
                }
                Some(left) => {
                    let days = left.as_secs() / 86_400;
                    tracing::warn!(listener, %file, days, "a certificate expires soon");
                }
            }
        }
    }
}

fn tell_reload(listener: &str, certificate: &LoadedCertificate) {
    let file = certificate.files.certificate.display();
    let expires = certificate.not_after.seconds();
    tracing::info!(listener, %file, expires, "a certificate has changed: the new one is used from now on");
    if let Some(doubt) = certificate.warning(clock::date()) {
        tracing::warn!(listener, %file, "{doubt}");
    }
}

fn tell_refusal(listener: &str, file: &Path, reason: &str) {
    let file = file.display();
    tracing::error!(
        listener, %file, reason, "a certificate has changed and cannot be used; the old one stays in use"
    );
}
