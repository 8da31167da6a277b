//! Certificates whose files change: read again and used from the next handshake on, without a connection noticing.
//!
//! Files are polled rather than watched, which also detects changes on network file systems and swapped links. Files
//! that cannot be used change nothing, and the log says why; when the second of two has arrived as well, they are read again. Warns in time
//! when a certificate is about to expire.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_config::{Listener, ListenerCertificate, LoadedCertificate};

use super::client_authorities;
use super::files::{DATE_INTERVAL, FileStamp, days_to_tell, read_if_changed, seconds};
use super::ocsp_responses::OcspResponses;
use super::ticket_keys;
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
    stamps: Vec<Option<[FileStamp; 2]>>,
    /// Days left of which the log has spoken.
    reported_days: Vec<Option<u64>>,
    responses: OcspResponses,
}

impl ListenerWatch {
    fn new(listener: &Listener, certificates: Arc<Certificates>) -> Self {
        let count = certificates.in_use().len();
        Self {
            listener: listener.name.clone(),
            certificates,
            stamps: vec![None; count],
            reported_days: vec![None; count],
            responses: OcspResponses::new(count),
        }
    }

    async fn run(mut self, interval: Option<Duration>) {
        loop {
            self.tell_expiry();
            let outdated_in = self.review_responses();
            let pause = interval.unwrap_or(DATE_INTERVAL);
            tokio::time::sleep(outdated_in.map_or(pause, |left| left.min(pause))).await;
            if interval.is_some() {
                self.look().await;
            }
        }
    }

    /// Reads changed files.
    async fn look(&mut self) {
        let mut shown = self.certificates.in_use();
        let mut changed = Vec::new();
        for (ListenerCertificate { certificate: place, .. }, stamps) in shown.iter_mut().zip(&mut self.stamps)
        {
            let (files, before) = (place.files.clone(), *stamps);
            // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
            let Ok((now, read)) = tokio::task::spawn_blocking(move || read_if_changed(&files, before)).await
            else {
                continue;
            };
            *stamps = Some(now);
            match read {
                None => {}
                Some(Ok(new)) if new.chain == place.chain && new.key == place.key => {}
                Some(Ok(new)) => {
                    changed.push(Arc::clone(&new));
                    *place = new;
                }
                Some(Err(error)) => {
                    self.certificates.count_reload(false);
                    tell_refusal(&self.listener, &error.file, &error.message);
                }
            }
        }
        let mut has_changed = !changed.is_empty();
        for read in self.responses.look(&mut shown).await {
            self.certificates.count_reload(read.is_ok());
            has_changed |= read.is_ok();
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
        if has_changed {
            self.replace(shown, &changed);
        }
    }

    /// Stops to show responses that are of no use any more; how long the others are at least.
    fn review_responses(&mut self) -> Option<Duration> {
        let shown = self.certificates.in_use();
        let verdict = self.responses.review(&self.listener, &shown);
        if verdict.has_changed {
            self.replace(shown, &[]);
        }
        verdict.next
    }

    /// Uses `certificates`, of which `changed` are new, from now on, or keeps the old ones if they cannot be used.
    fn replace(&self, certificates: Vec<ListenerCertificate>, changed: &[Arc<LoadedCertificate>]) {
        let replaced = self.certificates.replace(certificates);
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
        let now = UNIX_EPOCH + clock::unix_now();
        let shown = self.certificates.in_use();
        for (ListenerCertificate { certificate, .. }, logged) in shown.iter().zip(&mut self.reported_days) {
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
    let expires = seconds(certificate.not_after);
    tracing::info!(listener, %file, expires, "a certificate has changed: the new one is used from now on");
    if let Some(doubt) = certificate.warning(UNIX_EPOCH + clock::unix_now()) {
        tracing::warn!(listener, %file, "{doubt}");
    }
}

fn tell_refusal(listener: &str, file: &Path, reason: &str) {
    let file = file.display();
    tracing::error!(
        listener, %file, reason, "a certificate has changed and cannot be used; the old one stays in use"
    );
}
