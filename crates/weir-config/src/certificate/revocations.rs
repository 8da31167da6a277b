//! Certificate revocation lists (CRLs, RFC 5280 section 5).
//!
//! Read in the same way as in a handshake, so that loaded lists are usable. The signature of a list is verified only together with a
//! certificate of its authority.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::CertificateRevocationListDer;
use webpki::BorrowedCertRevocationList;
use weir_http::WallTime;
use x509_parser::prelude::{CertificateRevocationList, FromDer as _, X509Certificate};

use super::distinguished_name::print_name;
use super::{Authorities, CertificateError, FileProblem, pem, problem, x509};

/// The largest file that is taken for lists: authorities with millions of certificates have such.
const FILE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// The content of a file of lists: at least one, each of which can be used.
#[derive(Debug, PartialEq, Eq)]
pub struct RevocationLists {
    /// Where they were read from.
    pub file: PathBuf,
    /// One for each authority, as a rule.
    pub lists: Vec<CertificateRevocationListDer<'static>>,
    /// When the first of them is outdated: from then on all certificates of its authority are rejected.
    pub next_update: WallTime,
    /// The names of their issuers, in DER.
    issuers: Vec<Box<[u8]>>,
}

impl RevocationLists {
    /// Reads a PEM file with one list or more.
    ///
    /// # Errors
    /// When the file cannot be read, holds no list, or one that is damaged or of a kind that cannot be used. That one is outdated is
    /// none: see [`RevocationLists::warning`].
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        match read(file) {
            Ok(lists) => Ok(Arc::new(lists)),
            Err((message, help)) => {
                Err(CertificateError { file: file.to_owned(), is_key: false, message, help })
            }
        }
    }

    /// Why clients will be refused that have done nothing wrong: a list is outdated at `now`.
    pub fn warning(&self, now: WallTime) -> Option<String> {
        (self.next_update <= now).then(|| {
            "a list is outdated: all certificates of its authority are rejected until there is a new one"
                .to_owned()
        })
    }

    /// The first of `authorities` that has no list here, by its name.
    pub fn missing_of(&self, authorities: &Authorities) -> Option<String> {
        authorities.certificates.iter().find_map(|certificate| {
            let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
            let subject = certificate.subject();
            let has_list = self.issuers.iter().any(|issuer| **issuer == *subject.as_raw());
            (!has_list).then(|| print_name(subject))
        })
    }
}

fn read(file: &Path) -> Result<RevocationLists, FileProblem> {
    let lists = pem::revocation_lists(&pem::read_up_to(file, FILE_BYTES_MAX)?)?;
    let mut next_update: Option<WallTime> = None;
    let mut issuers = Vec::new();
    for (index, list) in lists.iter().enumerate() {
        let of_list = |(message, help): FileProblem| (format!("list {}: {message}", index + 1), help);
        let damaged = || of_list(problem("the list is damaged"));
        let (_, parsed) = CertificateRevocationList::from_der(list).map_err(|_| damaged())?;
        if parsed.version().is_none() {
            let help = "`openssl ca -gencrl` writes version 2 if `crl_extensions` and `crlnumber` are set";
            let message = "the list has version 1: version 2 is required".to_owned();
            return Err(of_list((message, Some(help))));
        }
        if parsed.extensions().is_empty() {
            return Err(of_list((
                "the list has no extensions: a list number (`cRLNumber`) is required, RFC 5280 section 5.2"
                    .to_owned(),
                Some("`openssl ca -gencrl` writes them if `crl_extensions` and `crlnumber` are set"),
            )));
        }
        BorrowedCertRevocationList::from_der(list).map_err(|error| of_list(refused(&error)))?;
        let without_end = || of_list(problem("the list does not say when the next one comes (`nextUpdate`)"));
        let until = x509::time(parsed.next_update().ok_or_else(without_end)?);
        next_update = Some(next_update.map_or(until, |first| first.min(until)));
        issuers.push(parsed.issuer().as_raw().into());
    }
    let next_update = next_update.expect("there is at least one list");
    Ok(RevocationLists { file: file.to_owned(), lists, next_update, issuers })
}

fn refused(error: &webpki::Error) -> FileProblem {
    use webpki::Error;
    let message = match error {
        Error::UnsupportedDeltaCrl => "it is a delta CRL: a complete one is required",
        Error::UnsupportedIndirectCrl => "it is an indirect CRL, for certificates of other authorities",
        Error::UnsupportedCriticalExtension => "it has an unknown critical extension",
        _ => "the list is damaged",
    };
    problem(message)
}
