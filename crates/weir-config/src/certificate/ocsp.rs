//! An OCSP response (RFC 6960) from a file, which clients receive with the certificate (stapling).
//!
//! Only the parts that Weir needs are read: whether it is a successful response, for which certificates, and how long it is valid. Clients
//! verify the signature; a bad one affects only this site.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use weir_http::WallTime;
use x509_parser::prelude::{ASN1Time, FromDer as _, X509Certificate};

use super::{CertificateError, FileProblem, LoadedCertificate, pem, problem, x509};

/// A successful response.
#[derive(Debug, PartialEq, Eq)]
pub struct OcspResponse {
    /// Where it was read from.
    pub file: PathBuf,
    /// The response as clients get it.
    pub der: Vec<u8>,
    statuses: Vec<SingleResponse>,
}

/// The status of one certificate in a response.
#[derive(Debug, PartialEq, Eq)]
struct SingleResponse {
    /// The hash of the name of the issuer, if it is one by an algorithm that is known.
    issuer: Option<(&'static digest::Algorithm, Box<[u8]>)>,
    serial: Box<[u8]>,
    word: RevocationStatus,
    this_update: WallTime,
    next_update: Option<WallTime>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RevocationStatus {
    Good,
    Revoked,
    Unknown,
}

impl OcspResponse {
    /// Reads a file in DER, as `openssl ocsp -respout` and others write it.
    ///
    /// # Errors
    /// When it cannot be read or is not a successful response. Whether it is of use for a certificate is another question: see
    /// [`OcspResponse::warning`].
    pub fn load(file: &Path) -> Result<Arc<Self>, CertificateError> {
        let read = || {
            let der = pem::read(file)?;
            let statuses = read(&der)?;
            Ok(Self { file: file.to_owned(), der, statuses })
        };
        match read() {
            Ok(response) => Ok(Arc::new(response)),
            Err((message, help)) => {
                Err(CertificateError { file: file.to_owned(), is_key: false, message, help })
            }
        }
    }

    /// Why clients are not shown it with `certificate` at `now`.
    pub fn warning(&self, certificate: &LoadedCertificate, now: WallTime) -> Option<&'static str> {
        match self.of(certificate) {
            None => Some("it is for another certificate"),
            Some(status) if status.this_update > now => Some("it is not valid yet"),
            Some(status) if status.next_update.is_some_and(|until| until <= now) => Some("it is outdated"),
            Some(SingleResponse { word: RevocationStatus::Unknown, .. }) => {
                Some("its authority reports the certificate as unknown")
            }
            Some(_) => None,
        }
    }

    /// Whether it says that `certificate` has been revoked; clients are to know.
    pub fn says_revoked(&self, certificate: &LoadedCertificate) -> bool {
        self.of(certificate).is_some_and(|status| status.word == RevocationStatus::Revoked)
    }

    /// Until when it holds for `certificate`, if it says so.
    pub fn next_update(&self, certificate: &LoadedCertificate) -> Option<WallTime> {
        self.of(certificate)?.next_update
    }

    fn of(&self, certificate: &LoadedCertificate) -> Option<&SingleResponse> {
        let (_, leaf) = X509Certificate::from_der(certificate.chain.first()?).ok()?;
        let issuer = leaf.issuer().as_raw();
        self.statuses.iter().find(|status| {
            let fits = status
                .issuer
                .as_ref()
                .is_none_or(|(algorithm, name)| digest::digest(algorithm, issuer).as_ref() == &**name);
            fits && *status.serial == *leaf.raw_serial()
        })
    }
}

const INTEGER: u8 = 0x02;
const OCTET_STRING: u8 = 0x04;
const OBJECT_IDENTIFIER: u8 = 0x06;
const ENUMERATED: u8 = 0x0a;
const SEQUENCE: u8 = 0x30;
/// `[0]`, constructed.
const EXPLICIT_0: u8 = 0xa0;

/// id-pkix-ocsp-basic
const BASIC: [u8; 9] = [0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];
const SHA1: [u8; 5] = [0x2b, 0x0e, 0x03, 0x02, 0x1a];
const SHA256: [u8; 9] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];

/// Elements of DER, one behind the other.
#[derive(Debug, Clone, Copy)]
struct DerElements<'a>(&'a [u8]);

impl<'a> DerElements<'a> {
    /// The next element: its tag, which has one byte in all that is read here, and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, len, rest @ ..] = self.0 else { return None };
        let (len, rest) = match *len {
            short @ 0..=0x7f => (usize::from(short), rest),
            long @ 0x81..=0x83 => {
                let (digits, rest) = rest.split_at_checked(usize::from(long - 0x80))?;
                (digits.iter().fold(0, |len, digit| len << 8 | usize::from(*digit)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next element, which has this tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.next().filter(|(found, _)| *found == tag).map(|(_, content)| content)
    }

    /// The content of the next element if it has this tag; else it stays.
    fn take_if(&mut self, tag: u8) -> Option<&'a [u8]> {
        self.0.first().filter(|found| **found == tag)?;
        self.take(tag)
    }

    fn take_time(&mut self) -> Option<WallTime> {
        let (_, time) = ASN1Time::from_der(self.0).ok()?;
        self.next()?;
        Some(x509::time(time))
    }
}

fn read(der: &[u8]) -> Result<Vec<SingleResponse>, FileProblem> {
    let no_response = || {
        let help = "DER is required, as written by `openssl ocsp -respout FILE`";
        ("the file is not an OCSP response".to_owned(), Some(help))
    };
    let mut outer = DerElements(der);
    let mut response =
        outer.take(SEQUENCE).filter(|_| outer.0.is_empty()).map(DerElements).ok_or_else(no_response)?;
    // Section 4.2.1: a status other than 0 is an error, which carries nothing.
    match response.take(ENUMERATED) {
        Some([0]) => {}
        Some([code]) => return Err(problem(format!("the response is an error: {}", status_name(*code)))),
        _ => return Err(no_response()),
    }
    let statuses = response.take(EXPLICIT_0).and_then(|bytes| statuses(DerElements(bytes)));
    statuses.filter(|statuses| !statuses.is_empty()).ok_or_else(no_response)
}

fn status_name(code: u8) -> &'static str {
    match code {
        1 => "malformedRequest",
        2 => "internalError",
        3 => "tryLater",
        5 => "sigRequired",
        6 => "unauthorized",
        _ => "unknown",
    }
}

/// Descends to the list of single responses.
fn statuses(mut bytes: DerElements<'_>) -> Option<Vec<SingleResponse>> {
    let mut typed = DerElements(bytes.take(SEQUENCE)?);
    typed.take(OBJECT_IDENTIFIER).filter(|id| **id == BASIC)?;
    let mut basic = DerElements(typed.take(OCTET_STRING)?);
    let mut signed = DerElements(basic.take(SEQUENCE)?);
    let mut data = DerElements(signed.take(SEQUENCE)?);
    // Version, responder, time.
    data.take_if(EXPLICIT_0);
    data.next()?;
    data.take_time()?;
    let mut list = DerElements(data.take(SEQUENCE)?);
    let mut statuses = Vec::new();
    while !list.0.is_empty() {
        statuses.push(status(DerElements(list.take(SEQUENCE)?))?);
    }
    Some(statuses)
}

fn status(mut single: DerElements<'_>) -> Option<SingleResponse> {
    let mut certificate = DerElements(single.take(SEQUENCE)?);
    let mut algorithm = DerElements(certificate.take(SEQUENCE)?);
    let algorithm = algorithm.take(OBJECT_IDENTIFIER)?;
    let issuer_name = certificate.take(OCTET_STRING)?;
    let _issuer_key = certificate.take(OCTET_STRING)?;
    let serial = certificate.take(INTEGER)?.into();
    let issuer = if *algorithm == SHA1 {
        Some((&digest::SHA1_FOR_LEGACY_USE_ONLY, issuer_name.into()))
    } else if *algorithm == SHA256 {
        Some((&digest::SHA256, issuer_name.into()))
    } else {
        None
    };
    let word = match single.next()? {
        (0x80, _) => RevocationStatus::Good,
        (0xa1, _) => RevocationStatus::Revoked,
        (0x82, _) => RevocationStatus::Unknown,
        _ => return None,
    };
    let this_update = single.take_time()?;
    let next_update = match single.take_if(EXPLICIT_0) {
        Some(time) => Some(DerElements(time).take_time()?),
        None => None,
    };
    Some(SingleResponse { issuer, serial, word, this_update, next_update })
}
