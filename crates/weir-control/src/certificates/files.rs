//! Files of certificates: whether one has changed since it was read, and when a certificate expires.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_config::{CertificateError, CertificateFiles, LoadedCertificate};

/// How often the date is compared where files are not looked at.
pub(super) const DATE_INTERVAL: Duration = Duration::from_secs(3600);

/// Days before its end from which on the log names a certificate, once a day.
const EXPIRY_WARNING_DAYS: u64 = 14;

/// What tells that a file is another one than before; `None` while there is none.
pub(super) type FileStamp = Option<(u64, u64, u64, i64, i64)>;

/// How long a certificate is valid yet, if that is to be told now: it is not for long, and nobody was told of that many days.
pub(super) fn days_to_tell(
    reported: &mut Option<u64>,
    certificate: &LoadedCertificate,
    now: SystemTime,
) -> Option<Duration> {
    let left = certificate.not_after.duration_since(now).unwrap_or_default();
    let days = left.as_secs() / 86_400;
    if days > EXPIRY_WARNING_DAYS {
        *reported = None;
        return None;
    }
    (reported.replace(days) != Some(days)).then_some(left)
}

/// Seconds since 1970.
pub(crate) fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

pub(super) type CertificateLoad = Option<Result<Arc<LoadedCertificate>, CertificateError>>;

/// The marks of both files, and what is in them if those are not the marks of before.
pub(super) fn read_if_changed(
    files: &CertificateFiles,
    before: Option<[FileStamp; 2]>,
) -> ([FileStamp; 2], CertificateLoad) {
    let now = [stamp(&files.certificate), stamp(&files.key)];
    (now, (before != Some(now)).then(|| files.load()))
}

/// The mark of a file as it is now.
pub(super) fn stamp(path: &Path) -> FileStamp {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec()))
}
