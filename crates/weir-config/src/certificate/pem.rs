//! The blocks of a PEM file (RFC 7468): certificates, revocation lists, or one private key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustls_pki_types::pem::{PemObject as _, SectionKind};
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

use super::{FileProblem, problem};

/// The largest file that is taken for a certificate or a key.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The content of a file of a reasonable size.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, FileProblem> {
    read_up_to(path, FILE_BYTES_MAX)
}

/// The content of a file of at most `bytes_max` bytes, a whole number of MiB.
pub(super) fn read_up_to(path: &Path, bytes_max: u64) -> Result<Vec<u8>, FileProblem> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut text));
    match read {
        Err(error) => Err(problem(format!("the file cannot be read: {error}"))),
        Ok(_) if text.len() as u64 > bytes_max => {
            Err(problem(format!("the file is larger than {} MiB", bytes_max >> 20)))
        }
        Ok(_) => Ok(text),
    }
}

/// All certificates of a file, at least one.
pub(super) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, FileProblem> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match chain {
        Err(error) => Err(problem(format!("the file is not PEM: {error}"))),
        Ok(chain) if chain.is_empty() => Err(match first_kind(text) {
            None => no_block("CERTIFICATE"),
            Some(kind) => {
                let help = "is this the key file?";
                let help = is_key(kind).then_some(help);
                ("the file has no PEM block `CERTIFICATE`".to_owned(), help)
            }
        }),
        Ok(chain) => Ok(chain),
    }
}

/// All lists of revoked certificates of a file, at least one.
pub(super) fn revocation_lists(
    text: &[u8],
) -> Result<Vec<CertificateRevocationListDer<'static>>, FileProblem> {
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    match lists {
        Err(error) => Err(problem(format!("the file is not PEM: {error}"))),
        Ok(lists) if lists.is_empty() => Err(match first_kind(text) {
            None => {
                let help =
                    "PEM is text that begins with `-----BEGIN`; convert with `openssl crl -inform der`";
                ("the file has no PEM block `X509 CRL`".to_owned(), Some(help))
            }
            Some(_) => problem("the file has no PEM block `X509 CRL`"),
        }),
        Ok(lists) => Ok(lists),
    }
}

/// The private key of a file.
pub(super) fn private_key(text: &[u8]) -> Result<PrivateKeyDer<'static>, FileProblem> {
    use rustls_pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match (error, first_kind(text)) {
        (Error::NoItemsFound, _) if contains(text, b"ENCRYPTED") => {
            let help = "`openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase";
            ("the key is encrypted".to_owned(), Some(help))
        }
        (Error::NoItemsFound, Some(SectionKind::Certificate)) => {
            ("the file has no PEM block `PRIVATE KEY`".to_owned(), Some("is this the certificate file?"))
        }
        (Error::NoItemsFound, _) => no_block("PRIVATE KEY"),
        (error, _) => problem(format!("the file is not PEM: {error}")),
    })
}

fn no_block(label: &str) -> FileProblem {
    let help = "PEM is text that begins with `-----BEGIN`; convert with `openssl x509 -inform der` and `openssl pkey -inform der`";
    (format!("the file has no PEM block `{label}`"), Some(help))
}

fn is_key(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// The type of the first block of a file, if it is a known one.
fn first_kind(text: &[u8]) -> Option<SectionKind> {
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text).next()?.ok().map(|(kind, _)| kind)
}
