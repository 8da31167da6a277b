//! Files of certificates, keys and revocation lists that a config names: loaded, with what is wrong in them as findings.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use super::Files;
use crate::certificate::{Authorities, Certificate, CertificateError, CertificateFiles, RevocationLists};
use crate::key::Spanned;
use crate::mistake::{Finding, MistakeKind};
use crate::source_map::Span;

/// A certificate and its key, if the files may be read and can be used.
pub(super) fn load_pair(
    certificate: &Spanned<Box<str>>,
    key: &Spanned<Box<str>>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Arc<Certificate>> {
    if !files.may_read {
        return None;
    }
    let named = CertificateFiles { certificate: files.path(certificate), key: files.path(key) };
    let mut tell = |error: &CertificateError| {
        findings.push(finding(error, if error.is_key { key.at } else { certificate.at }));
    };
    match named.load() {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            tell(&error);
            // Without its certificate, the key has not been looked at.
            if !error.is_key
                && let Err(error) = named.load_key()
            {
                tell(&error);
            }
            None
        }
    }
}

/// What is wrong with a file that stands at this place.
pub(super) fn finding(error: &CertificateError, at: Span) -> Finding {
    let what = format!("`{}`: {}", error.file.display(), error.what);
    Finding::new(MistakeKind::Certificate, at, what).hint_if(error.hint.map(str::to_owned))
}

/// Lists of revoked certificates, held against the authorities that they are to come from.
pub(super) fn load_revocations(
    crl: &Spanned<Box<str>>,
    authorities: Option<&Authorities>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Arc<RevocationLists>> {
    let lists = load_file(crl, RevocationLists::load, files, findings)?;
    let missing = authorities.and_then(|authorities| lists.missing_of(authorities));
    let missing = missing
        .map(|name| format!("there is no list of `{name}`: all certificates are refused that it issued"));
    for doubt in lists.doubt(now()).into_iter().chain(missing) {
        let what = format!("`{}`: {doubt}", lists.file.display());
        findings.push(Finding::new(MistakeKind::Doubtful, crl.at, what));
    }
    Some(lists)
}

pub(super) fn load_file<T>(
    file: &Spanned<Box<str>>,
    load: impl Fn(&Path) -> Result<Arc<T>, CertificateError>,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<Arc<T>> {
    if !files.may_read {
        return None;
    }
    load(&files.path(file)).map_err(|error| findings.push(finding(&error, file.at))).ok()
}

#[expect(clippy::disallowed_methods, reason = "the one place where a certificate is compared with the date")]
pub(super) fn now() -> SystemTime {
    SystemTime::now()
}
