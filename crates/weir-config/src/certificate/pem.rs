//! The blocks of a PEM file (RFC 7468): certificates, revocation lists, or one private key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustls_pki_types::pem::{Error, PemObject as _, SectionKind};
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
    check_markers(text)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match chain {
        Err(error) => Err(unreadable(&error)),
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
    check_markers(text)?;
    let lists: Result<Vec<_>, _> = CertificateRevocationListDer::pem_slice_iter(text).collect();
    match lists {
        Err(error) => Err(unreadable(&error)),
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
    check_markers(text)?;
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match (error, first_kind(text)) {
        (Error::NoItemsFound, _) if contains(text, b"ENCRYPTED") => {
            let help = "`openssl pkey -in KEY -out PLAIN_KEY` removes the passphrase";
            ("the key is encrypted".to_owned(), Some(help))
        }
        (Error::NoItemsFound, Some(SectionKind::Certificate)) => {
            ("the file has no PEM block `PRIVATE KEY`".to_owned(), Some("is this the certificate file?"))
        }
        (Error::NoItemsFound, _) => no_block("PRIVATE KEY"),
        (error, _) => unreadable(&error),
    })
}

/// Checks that the first and the last line of each block are lines of their own (RFC 7468 section 3). What stands before or behind them on
/// the same line would be passed over: of a chain that was joined without a line break, the second certificate.
fn check_markers(text: &[u8]) -> Result<(), FileProblem> {
    let is_break = |byte: u8| byte == b'\n' || byte == b'\r';
    for at in memchr::memmem::find_iter(text, b"-----") {
        let rest = &text[at..];
        let is_begin = rest.starts_with(b"-----BEGIN ");
        if !is_begin && !rest.starts_with(b"-----END ") || at == 0 || is_break(text[at - 1]) {
            continue;
        }
        let line = 1 + memchr::memchr_iter(b'\n', &text[..at]).count();
        let marker = if is_begin { "-----BEGIN" } else { "-----END" };
        let help = "files are joined with a line break between them: `(cat a.pem; echo; cat b.pem)`";
        return Err((format!("line {line}: `{marker}` does not begin its line"), Some(help)));
    }
    Ok(())
}

/// Why a block cannot be read, without its bytes: they may be secret.
fn unreadable(error: &Error) -> FileProblem {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    problem(match error {
        Error::MissingSectionEnd { end_marker } => {
            format!("the file is not PEM: the line `-----END {}-----` is missing", text(end_marker).trim())
        }
        Error::IllegalSectionStart { .. } => {
            "the file is not PEM: a line that begins with `-----BEGIN` does not end with `-----`".to_owned()
        }
        Error::Base64Decode(_) => "the file is not PEM: a block is not base64, or not whole".to_owned(),
        error => format!("the file is not PEM: {error}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn block(label: &str) -> String {
        format!("-----BEGIN {label}-----\nMIIB\nAAAA\n-----END {label}-----\n")
    }

    #[test]
    fn blocks_that_are_joined_without_a_line_break_are_refused() {
        let [certificate, list, key] = ["CERTIFICATE", "X509 CRL", "PRIVATE KEY"].map(block);
        assert_eq!(
            certificates(format!("text\n{certificate}\r\n{certificate}").as_bytes()).unwrap().len(),
            2
        );
        let joined = |first: &str, second: &str| format!("{}{second}", first.trim_end());
        let problems = [
            certificates(joined(&certificate, &certificate).as_bytes()).unwrap_err(),
            certificates(joined(&key, &certificate).as_bytes()).unwrap_err(),
            revocation_lists(joined(&list, &list).as_bytes()).unwrap_err(),
            private_key(joined(&certificate, &key).as_bytes()).unwrap_err(),
        ];
        for (message, help) in problems {
            assert_eq!(message, "line 4: `-----BEGIN` does not begin its line");
            assert!(help.is_some_and(|help| help.contains("line break")));
        }
        let (message, _) = certificates(certificate.replace("AAAA\n", "AAAA").as_bytes()).unwrap_err();
        assert_eq!(message, "line 3: `-----END` does not begin its line");
    }

    #[test]
    fn what_is_missing_is_said_in_text() {
        for label in ["CERTIFICATE", "PRIVATE KEY"] {
            let text = block(label);
            let text = &text.as_bytes()[..text.len() - 12];
            let message = match label {
                "CERTIFICATE" => certificates(text).unwrap_err().0,
                _ => private_key(text).map(drop).unwrap_err().0,
            };
            assert_eq!(message, format!("the file is not PEM: the line `-----END {label}-----` is missing"));
        }
        let (message, _) = certificates(block("CERTIFICATE").replace("MIIB", "MI?B").as_bytes()).unwrap_err();
        assert_eq!(message, "the file is not PEM: a block is not base64, or not whole");
    }
}
