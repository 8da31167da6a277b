//! Certificates that are all in one folder: which of its files belong together, and which of them can be used.
//!
//! One that cannot be used is left out and named; it takes no other with it. The folder is read in the same way when Weir starts and while
//! it runs. Must not know which certificate a client gets.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_sort::CompactSort as _;

use super::{CertificateError, CertificateFiles, LoadedCertificate, OcspResponse};

/// The endings of files with certificates.
const CERTIFICATES: [&str; 3] = ["pem", "crt", "cer"];

/// The most files and folders that are looked at.
const ENTRIES_MAX: usize = 100_000;

/// A certificate for clients, with the OCSP response of its authority.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ListenerCertificate {
    /// With its chain and its key.
    pub certificate: Arc<LoadedCertificate>,
    /// The response for stapling (RFC 6066 section 8), which may be outdated: see [`OcspResponse::warning`].
    pub ocsp: Option<Arc<OcspResponse>>,
}

impl ListenerCertificate {
    /// A certificate, with what is stapled to it.
    pub fn new(certificate: Arc<LoadedCertificate>, ocsp: Option<Arc<OcspResponse>>) -> Self {
        Self { certificate, ocsp }
    }
}

/// A folder of certificates.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CertificateDirectory {
    /// The folder.
    pub path: PathBuf,
    /// Those in use, in the order of their files.
    pub certificates: Vec<ListenerCertificate>,
    /// Those that cannot be used, in the same order. The content of before may be in use.
    pub unusable: Vec<UnusableCertificate>,
}

/// A certificate in a folder that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusableCertificate {
    /// The file with the certificate.
    pub file: PathBuf,
    /// The reason, which may be in the file with the key.
    pub error: CertificateError,
}

impl UnusableCertificate {
    /// The certificate of this file, for this reason.
    pub fn new(file: impl Into<PathBuf>, error: CertificateError) -> Self {
        Self { file: file.into(), error }
    }
}

/// The files of one certificate in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DirectoryFiles {
    /// Certificate and key.
    pub files: CertificateFiles,
    /// The OCSP response, if there is one.
    pub ocsp: Option<PathBuf>,
}

impl CertificateDirectory {
    /// Reads all certificates of a folder.
    ///
    /// # Errors
    /// When the folder itself cannot be read.
    pub fn load(path: &Path) -> Result<Self, CertificateError> {
        let mut read = Self { path: path.to_owned(), certificates: Vec::new(), unusable: Vec::new() };
        for found in Self::find(path)? {
            match found.files.load() {
                Ok(certificate) => {
                    let ocsp = found.ocsp.as_ref().map(|file| OcspResponse::load(file));
                    let ocsp = ocsp.and_then(|loaded| {
                        loaded.map_err(|error| read.refuse(&found.files.certificate, error)).ok()
                    });
                    read.certificates.push(ListenerCertificate { certificate, ocsp });
                }
                Err(error) => read.refuse(&found.files.certificate, error),
            }
        }
        Ok(read)
    }

    fn refuse(&mut self, file: &Path, error: CertificateError) {
        self.unusable.push(UnusableCertificate { file: file.to_owned(), error });
    }

    /// The files that belong together, by name: `NAME.pem`, `NAME.crt` or `NAME.cer` with the key in `NAME.key`, `NAME-key.pem`, a file with
    /// `.key` behind the whole name, or the same file; in a folder below it, `fullchain.pem` with `privkey.pem`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn find(path: &Path) -> Result<Vec<DirectoryFiles>, CertificateError> {
        let failed =
            |message: String| CertificateError { file: path.to_owned(), is_key: false, message, help: None };
        let unreadable = |error: std::io::Error| failed(format!("the folder cannot be read: {error}"));
        let mut names = Vec::new();
        for entry in fs::read_dir(path).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            // Hidden ones are of editors, and of the tools that write the folder.
            if let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) {
                names.push(name.to_owned());
            }
            if names.len() > ENTRIES_MAX {
                return Err(failed(format!("the folder has more than {ENTRIES_MAX} files")));
            }
        }
        names.sort_compact();
        Ok(names.iter().filter_map(|name| files_of(path, name, &names)).collect())
    }
}

/// The files of the certificate in the file or folder `name`, if it has one.
fn files_of(folder: &Path, name: &str, names: &[String]) -> Option<DirectoryFiles> {
    let has = |name: &str| names.binary_search_by(|known| known.as_str().cmp(name)).is_ok();
    let Some((stem, _)) = name.rsplit_once('.').filter(|(_, ending)| CERTIFICATES.contains(ending)) else {
        return live_folder(&folder.join(name));
    };
    let is_key = stem
        .strip_suffix("-key")
        .is_some_and(|of| CERTIFICATES.iter().any(|ending| has(&format!("{of}.{ending}"))));
    if is_key {
        return None;
    }
    if folder.join(name).is_dir() {
        return live_folder(&folder.join(name));
    }
    let keys = [format!("{stem}.key"), format!("{stem}-key.pem"), format!("{name}.key")];
    let key = keys.iter().find(|key| has(key)).map_or(name, String::as_str);
    let responses = [format!("{stem}.ocsp"), format!("{name}.ocsp")];
    Some(DirectoryFiles {
        files: CertificateFiles { certificate: folder.join(name), key: folder.join(key) },
        ocsp: responses.iter().find(|response| has(response)).map(|response| folder.join(response)),
    })
}

/// A folder as certbot leaves it: `/etc/letsencrypt/live/NAME`.
fn live_folder(folder: &Path) -> Option<DirectoryFiles> {
    let certificate = folder.join("fullchain.pem");
    let files = CertificateFiles { key: folder.join("privkey.pem"), certificate };
    files.certificate.exists().then_some(DirectoryFiles { files, ocsp: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_belong_together_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("live.example.org")).unwrap();
        for name in [
            "a.pem",
            "a.key",
            "b.crt",
            "b.crt.key",
            "b.ocsp",
            "c.pem",
            "c-key.pem",
            "d.cer",
            ".hidden.pem",
            "README",
            "notes.txt",
            "live.example.org/fullchain.pem",
            "live.example.org/privkey.pem",
            "live.example.org/chain.pem",
            "e-key.pem",
        ] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("empty.crt")).unwrap();
        let found = CertificateDirectory::find(folder.path()).unwrap();
        let short = |path: &Path| path.strip_prefix(folder.path()).unwrap().display().to_string();
        let found: Vec<String> = found
            .iter()
            .map(|one| {
                let ocsp = one.ocsp.as_deref().map(short).unwrap_or_default();
                format!("{} {} {ocsp}", short(&one.files.certificate), short(&one.files.key))
            })
            .collect();
        assert_eq!(
            found,
            [
                "a.pem a.key ",
                "b.crt b.crt.key b.ocsp",
                "c.pem c-key.pem ",
                "d.cer d.cer ",
                "e-key.pem e-key.pem ",
                "live.example.org/fullchain.pem live.example.org/privkey.pem ",
            ]
        );
        let error = CertificateDirectory::find(&folder.path().join("none")).unwrap_err();
        assert!(error.message.starts_with("the folder cannot be read: "), "{error}");
    }
}
