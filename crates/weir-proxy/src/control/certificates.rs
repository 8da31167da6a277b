//! Certificates whose files change: read again and used from the next handshake on, without a connection noticing.
//!
//! Files are looked at again and again rather than watched, which also sees what network file systems and swapped links do. Files
//! that cannot be used change nothing, and the log says why; when the second of two has arrived as well, they are read again. Tells in time
//! when a certificate is about to expire.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_config::{Certificate, CertificateError, CertificateFiles, Listener};

use super::clients;
use crate::clock;
use crate::snapshot::Snapshot;
use crate::tls::certificates::Certificates;

/// How often the date is compared where files are not looked at.
pub(super) const DATE_INTERVAL: Duration = Duration::from_secs(3600);

/// Days before its end from which on the log names a certificate, once a day.
const EXPIRY_WARNING_DAYS: u64 = 14;

/// What tells that a file is another one than before; `None` while there is none.
pub(super) type Mark = Option<(u64, u64, u64, i64, i64)>;

/// Keeps the certificates of every listener current until the task is dropped.
pub(crate) async fn keep_current(snapshot: Arc<Snapshot>) {
    let mut watches = tokio::task::JoinSet::new();
    for (index, listener) in snapshot.listeners.iter().enumerate() {
        if let (Some(tls), Some(config)) = (&listener.tls, &listener.config.tls) {
            let watch = Watch::new(&listener.config, Arc::clone(&tls.certificates));
            watches.spawn(watch.run(config.reload));
            watches.spawn(clients::keep_current(Arc::clone(&snapshot), index));
        }
    }
    while watches.join_next().await.is_some() {}
}

/// The certificates of one listener and what is known of their files.
struct Watch {
    listener: Box<str>,
    certificates: Arc<Certificates>,
    /// Of certificate and key, as they were when they were last read.
    marks: Vec<Option<[Mark; 2]>>,
    /// Days left of which the log has spoken.
    told_days: Vec<Option<u64>>,
}

impl Watch {
    fn new(listener: &Listener, certificates: Arc<Certificates>) -> Self {
        let count = certificates.in_use().len();
        Self {
            listener: listener.name.clone(),
            certificates,
            marks: vec![None; count],
            told_days: vec![None; count],
        }
    }

    async fn run(mut self, interval: Option<Duration>) {
        loop {
            self.tell_expiry();
            tokio::time::sleep(interval.unwrap_or(DATE_INTERVAL)).await;
            if interval.is_some() {
                self.look().await;
            }
        }
    }

    /// Reads what has changed.
    async fn look(&mut self) {
        let mut certificates = self.certificates.in_use();
        let mut changed = false;
        for (place, marks) in certificates.iter_mut().zip(&mut self.marks) {
            let (files, before) = (place.files.clone(), *marks);
            // Not on this thread, which probes servers meanwhile.
            let Ok((now, read)) = tokio::task::spawn_blocking(move || read_if_changed(&files, before)).await
            else {
                continue;
            };
            *marks = Some(now);
            match read {
                None => {}
                Some(Ok(new)) if new.chain == place.chain && new.key == place.key => {}
                Some(Ok(new)) => {
                    *place = new;
                    changed = true;
                    self.certificates.count_reload(true);
                    tell_reload(&self.listener, place);
                }
                Some(Err(error)) => {
                    self.certificates.count_reload(false);
                    let (listener, file) = (&*self.listener, error.file.display());
                    tracing::error!(
                        listener, %file, reason = error.what,
                        "a certificate has changed and cannot be used; the old one stays in use"
                    );
                }
            }
        }
        if changed && let Err(error) = self.certificates.replace(certificates) {
            tracing::error!(listener = &*self.listener, %error, "the certificates cannot be used; the old ones stay");
        }
    }

    /// Names certificates that expire soon, or have expired, once a day.
    fn tell_expiry(&mut self) {
        let now = UNIX_EPOCH + clock::unix_now();
        for (certificate, told) in self.certificates.in_use().iter().zip(&mut self.told_days) {
            let left = certificate.not_after.duration_since(now).unwrap_or_default();
            let days = left.as_secs() / 86_400;
            if days > EXPIRY_WARNING_DAYS {
                *told = None;
            } else if *told != Some(days) {
                *told = Some(days);
                let (listener, file) = (&*self.listener, certificate.files.certificate.display());
                if left.is_zero() {
                    tracing::error!(listener, %file, "a certificate has expired: clients refuse it");
                } else {
                    tracing::warn!(listener, %file, days, "a certificate expires soon");
                }
            }
        }
    }
}

fn tell_reload(listener: &str, certificate: &Certificate) {
    let file = certificate.files.certificate.display();
    let expires = seconds(certificate.not_after);
    tracing::info!(listener, %file, expires, "a certificate has changed: the new one is used from now on");
    if let Some(doubt) = certificate.doubt(UNIX_EPOCH + clock::unix_now()) {
        tracing::warn!(listener, %file, "{doubt}");
    }
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

type Read = Option<Result<Arc<Certificate>, CertificateError>>;

/// The marks of both files, and what is in them if those are not the marks of before.
fn read_if_changed(files: &CertificateFiles, before: Option<[Mark; 2]>) -> ([Mark; 2], Read) {
    let now = [mark(&files.certificate), mark(&files.key)];
    (now, (before != Some(now)).then(|| files.load()))
}

/// The mark of a file as it is now.
pub(super) fn mark(path: &Path) -> Mark {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}
