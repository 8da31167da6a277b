//! Files of certificates, keys and revocation lists that a config names: loads them and reports errors as diagnostics.

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use weir_http::WallTime;

use crate::certificate::{
    Authorities, CertificateError, CertificateFiles, LoadedCertificate, RevocationLists,
};
use crate::check::files::Files;
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};

/// A certificate and its key, if the files may be read and can be used.
pub(in crate::check) fn load_pair(
    certificate: &Spanned<Box<str>>,
    key: &Spanned<Box<str>>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<LoadedCertificate>> {
    if !files.may_read {
        return None;
    }
    let named = CertificateFiles { certificate: files.path(certificate), key: files.path(key) };
    let mut tell = |error: &CertificateError| {
        diagnostics.push(diagnostic(error, if error.is_key { key.span } else { certificate.span }));
    };
    match named.load() {
        Ok(loaded) => Some(loaded),
        Err(error) => {
            tell(&error);
            // Without its certificate, the key has not been checked.
            if !error.is_key
                && let Err(error) = named.load_key()
            {
                tell(&error);
            }
            None
        }
    }
}

/// The certificate that Weir presents to a server that requests one: `certificate` and `key` of a table. Reports one of both without the other, and one that has run out or soon will.
pub(in crate::check) fn load_presented<T>(
    text: &SpannedTable<T>,
    pair: [&Option<Spanned<Box<str>>>; 2],
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<LoadedCertificate>> {
    let (certificate, key) = match pair.map(Option::as_ref) {
        [Some(certificate), Some(key)] => (certificate, key),
        [None, None] => return None,
        [certificate, key] => {
            let missing = if certificate.is_none() { "certificate" } else { "key" };
            if text.is_missing(missing) {
                let at = certificate.or(key).map_or(text.span, |file| file.span);
                let message = format!("`certificate` and `key` belong together: `{missing}` is missing");
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message));
            }
            return None;
        }
    };
    let loaded = load_pair(certificate, key, files, diagnostics)?;
    if let Some(doubt) = loaded.expiry_warning(now()) {
        let message = format!("`{}`: {doubt}", loaded.files.certificate.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, certificate.span, message));
    }
    Some(loaded)
}

/// The diagnostic for a file that is named at this span.
pub(in crate::check) fn diagnostic(error: &CertificateError, span: SourceSpan) -> Diagnostic {
    let message = format!("`{}`: {}", error.file.display(), error.message);
    Diagnostic::new(DiagnosticKind::Certificate, span, message).help_if(error.help.map(str::to_owned))
}

/// The authorities of the file `ca`, else those of the system, which `at` asks for.
pub(in crate::check) fn load_authorities(
    ca: Option<&Spanned<Box<str>>>,
    at: SourceSpan,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<Authorities>> {
    if !files.may_read {
        return None;
    }
    let (loaded, at) = match ca {
        Some(ca) => (Authorities::load(&files.path(ca)), ca.span),
        None => (files.authorities_of_system(), at),
    };
    let loaded = loaded.map_err(|error| diagnostics.push(diagnostic(&error, at))).ok()?;
    match loaded.unusable().filter(|_| ca.is_some()) {
        Some(error) => {
            diagnostics.push(diagnostic(&error, at));
            None
        }
        None => Some(loaded),
    }
}

/// Lists of revoked certificates, held against the authorities that they are to come from.
pub(in crate::check) fn load_revocations(
    crl: &Spanned<Box<str>>,
    authorities: Option<&Authorities>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<RevocationLists>> {
    let lists = load_file(crl, RevocationLists::load, files, diagnostics)?;
    let missing = authorities.and_then(|authorities| lists.missing_of(authorities));
    let missing = missing
        .map(|name| format!("there is no list of `{name}`: all certificates that it issued are rejected"));
    for doubt in lists.warning(now()).into_iter().chain(missing) {
        let message = format!("`{}`: {doubt}", lists.file.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, crl.span, message));
    }
    Some(lists)
}

pub(in crate::check) fn load_file<T>(
    file: &Spanned<Box<str>>,
    load: impl Fn(&Path) -> Result<Arc<T>, CertificateError>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<T>> {
    if !files.may_read {
        return None;
    }
    load(&files.path(file)).map_err(|error| diagnostics.push(diagnostic(&error, file.span))).ok()
}

#[expect(clippy::disallowed_methods, reason = "the one place where a certificate is compared with the date")]
pub(in crate::check) fn now() -> WallTime {
    SystemTime::now().into()
}
