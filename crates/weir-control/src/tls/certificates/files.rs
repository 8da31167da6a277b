//! Files of certificates: whether one has changed since it was read, and when a certificate expires.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{CertificateError, CertificateFiles, LoadedCertificate};
use weir_http::WallTime;

/// How often the date is compared when no file is read.
pub(super) const DATE_INTERVAL: Duration = Duration::from_secs(3600);

/// Days before its end from which on the log names a certificate, once a day.
const EXPIRY_WARNING_DAYS: u64 = 14;

/// Detects that a file is another one than before, or has another owner or other permissions; `None` while there is none.
pub(crate) type FileStamp = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// The stamps of certificates and their keys, as they were when they were last read.
pub(super) type CertificateStamps = HashMap<CertificateFiles, [FileStamp; 2]>;

/// How long a certificate remains valid, if that is to be logged now: it expires soon, and was not logged with that many days.
pub(super) fn days_to_tell(
    logged: &mut Option<u64>,
    certificate: &LoadedCertificate,
    now: WallTime,
) -> Option<Duration> {
    let left = certificate.not_after - now;
    let days = left.as_secs() / 86_400;
    if days > EXPIRY_WARNING_DAYS {
        *logged = None;
        return None;
    }
    (logged.replace(days) != Some(days)).then_some(left)
}

pub(super) type CertificateLoad = Option<Result<Arc<LoadedCertificate>, CertificateError>>;

/// The stamps of both files, and their content if the stamps have changed.
pub(super) fn read_if_changed(
    files: &CertificateFiles,
    before: Option<[FileStamp; 2]>,
) -> ([FileStamp; 2], CertificateLoad) {
    let now = [stamp(&files.certificate), stamp(&files.key)];
    (now, (before != Some(now)).then(|| files.load()))
}

/// The stamp of a file as it is now.
pub(crate) fn stamp(path: &Path) -> FileStamp {
    let file = std::fs::metadata(path).ok()?;
    // The time of the last change of owner or mode: a file that could not be read may be readable from then on.
    let changed = (file.ctime(), file.ctime_nsec());
    Some((file.dev(), file.ino(), file.len(), file.mtime(), file.mtime_nsec(), changed.0, changed.1))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_with_other_permissions_is_another_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.key");
        std::fs::write(&file, "key").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let before = stamp(&file);
        assert_eq!(stamp(&file), before);
        // The clock of the file system has steps of some milliseconds.
        let changes = (0..1_000_000).any(|_| {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
            stamp(&file) != before
        });
        assert!(changes && before.is_some());
    }
}
