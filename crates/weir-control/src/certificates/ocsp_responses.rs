//! Responses for stapling: read again when their files change, and not shown any more when they are outdated.
//!
//! Part of what `certificates` watches, by the same rules. A response that is of no use is no trouble for clients, who ask its
//! authority themselves then, but the operator wanted to spare them that: the log says so when it begins.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_config::{CertificateError, ListenerCertificate, OcspResponse};

use super::files::{FileStamp, stamp};
use weir_proxy::net::clock;

/// The responses of one listener, in the order of its certificates.
#[derive(Debug)]
pub(super) struct OcspResponses {
    /// Their files as they were when they were last read.
    stamps: Vec<Option<FileStamp>>,
    /// Why they are not shown, as the log has told it; `None` before it was looked at.
    reported: Vec<Option<Option<&'static str>>>,
}

/// What came of responses whose time had come.
#[derive(Debug, Default)]
pub(super) struct OcspVerdict {
    /// Whether others are to be shown than before.
    pub(super) has_changed: bool,
    /// When the next of them is outdated.
    pub(super) next: Option<Duration>,
}

impl OcspResponses {
    /// Those of `count` certificates.
    pub(super) fn new(count: usize) -> Self {
        Self { stamps: vec![None; count], reported: vec![None; count] }
    }

    /// Reads those whose files have changed into `shown`; gives those that are new, and errors of those that cannot be used.
    pub(super) async fn look(
        &mut self,
        shown: &mut [ListenerCertificate],
    ) -> Vec<Result<Arc<OcspResponse>, CertificateError>> {
        let mut found = Vec::new();
        for (place, before) in shown.iter_mut().zip(&mut self.stamps) {
            let Some(known) = &mut place.ocsp else { continue };
            let (file, stamp_before) = (known.file.clone(), *before);
            // Not on this thread: it resolves names and serves the metrics, and a file may be far away.
            let looked = tokio::task::spawn_blocking(move || read_if_changed(&file, stamp_before));
            let Ok((now, read)) = looked.await else { continue };
            *before = Some(now);
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

    /// Compares those in `shown` with the date and with their certificates.
    pub(super) fn review(&mut self, listener: &str, shown: &[ListenerCertificate]) -> OcspVerdict {
        let now = UNIX_EPOCH + clock::unix_now();
        let mut verdict = OcspVerdict::default();
        for (ListenerCertificate { certificate, ocsp }, reported) in shown.iter().zip(&mut self.reported) {
            let Some(response) = ocsp else { continue };
            let doubt = response.warning(certificate, now);
            if doubt.is_none() {
                let left = response.next_update(certificate).and_then(|until| until.duration_since(now).ok());
                verdict.next = [verdict.next, left].into_iter().flatten().min();
            }
            let before = reported.replace(doubt);
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
