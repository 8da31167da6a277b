//! Responses for stapling: read again when their files change, and not shown any more when they are outdated.
//!
//! Polled with the files of `certificates`, by the same rules. A response that cannot be used does not break clients, which then ask the
//! authority themselves, but stapling was to spare them that: the log says so when it begins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use weir_config::{CertificateError, ListenerCertificate, OcspResponse};

use super::files::{FileStamp, stamp};
use weir_proxy::net::clock;

/// The responses of one listener, by their files.
#[derive(Debug, Default)]
pub(super) struct OcspResponses {
    /// The files as they were when they were last read.
    stamps: HashMap<PathBuf, FileStamp>,
    /// The reason why each is not shown, as last logged.
    logged: HashMap<PathBuf, Option<&'static str>>,
}

/// The result of checking responses against the date.
#[derive(Debug, Default)]
pub(super) struct OcspVerdict {
    /// Whether others are to be shown than before.
    pub(super) has_changed: bool,
    /// When the next of them is outdated.
    pub(super) next: Option<Duration>,
}

impl OcspResponses {
    /// Reads changed files into `shown`; returns the new responses, and errors of files that cannot be used.
    pub(super) async fn look(
        &mut self,
        shown: impl Iterator<Item = &mut ListenerCertificate>,
    ) -> Vec<Result<Arc<OcspResponse>, CertificateError>> {
        let mut found = Vec::new();
        for place in shown {
            let Some(known) = &mut place.ocsp else { continue };
            let (file, stamp_before) = (known.file.clone(), self.stamps.get(&known.file).copied());
            // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
            let looked = tokio::task::spawn_blocking(move || read_if_changed(&file, stamp_before));
            let Ok((now, read)) = looked.await else { continue };
            self.stamps.insert(known.file.clone(), now);
            match read {
                Some(Ok(new)) if new != *known => {
                    *known = Arc::clone(&new);
                    found.push(Ok(new));
                }
                Some(Err(error)) => found.push(Err(error)),
                Some(Ok(_)) | None => {}
            }
        }
        found
    }

    /// Compares the responses in `shown` with the date and with their certificates.
    pub(super) fn review(&mut self, listener: &str, shown: &[ListenerCertificate]) -> OcspVerdict {
        let now = clock::date();
        let mut verdict = OcspVerdict::default();
        for ListenerCertificate { certificate, ocsp, .. } in shown {
            let Some(response) = ocsp else { continue };
            let doubt = response.warning(certificate, now);
            if doubt.is_none() {
                let left = response.next_update(certificate).and_then(|until| until.checked_since(now));
                verdict.next = [verdict.next, left].into_iter().flatten().min();
            }
            let before = self.logged.insert(response.file.clone(), doubt);
            if before != Some(doubt) {
                verdict.has_changed |= before.is_some();
                if let Some(reason) = doubt {
                    let file = response.file.display();
                    tracing::error!(listener, %file, reason, "an OCSP response is not shown to clients");
                }
            }
        }
        verdict
    }
}

type OcspLoad = Option<Result<Arc<OcspResponse>, CertificateError>>;

fn read_if_changed(file: &Path, before: Option<FileStamp>) -> (FileStamp, OcspLoad) {
    let now = stamp(file);
    (now, (before != Some(now)).then(|| OcspResponse::load(file)))
}
