//! Folders of certificates that change: what a look at one has found, and what becomes of the certificates in use.
//!
//! A file that cannot be used changes nothing: the content of before stays in use as long as the file is there. One that is gone is used no
//! more, unless it was the last.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_config::{
    CertificateDirectory, CertificateError, CertificateFiles, ListenerCertificate, LoadedCertificate,
    OcspResponse, UnusableCertificate,
};

use super::files::{CertificateLoad, CertificateStamps, FileStamp, read_if_changed};

/// The files of a certificate in a folder, read if they have changed.
#[derive(Debug)]
pub(super) struct ScannedFiles {
    pub(super) files: CertificateFiles,
    pub(super) stamps: [FileStamp; 2],
    read: CertificateLoad,
    ocsp: Option<Result<Arc<OcspResponse>, CertificateError>>,
}

/// Looks at all files of a folder, and reads those that are others than before.
///
/// # Errors
/// When the folder itself cannot be read.
pub(super) fn scan(
    directory: &CertificateDirectory,
    before: &CertificateStamps,
) -> Result<Vec<ScannedFiles>, CertificateError> {
    let known = |file: &Path| {
        let responses = directory.certificates.iter().filter_map(|shown| shown.ocsp.as_ref());
        responses.into_iter().find(|known| known.file == file).cloned()
    };
    let found = CertificateDirectory::find(&directory.path)?;
    let scanned = found.into_iter().map(|found| {
        let (stamps, read) = read_if_changed(&found.files, before.get(&found.files).copied());
        // One that is known is looked at with all others.
        let load = |file: &PathBuf| known(file).map_or_else(|| OcspResponse::load(file), Ok);
        ScannedFiles { ocsp: found.ocsp.as_ref().map(load), files: found.files, stamps, read }
    });
    Ok(scanned.collect())
}

/// What has become of the certificates of a folder.
#[derive(Debug, Default)]
pub(super) struct MergedDirectory {
    /// Those that are new or have changed.
    pub(super) loaded: Vec<Arc<LoadedCertificate>>,
    /// What cannot be used, where that is news.
    pub(super) refused: Vec<CertificateError>,
    /// The files of those that are gone.
    pub(super) gone: Vec<PathBuf>,
    /// Whether anything is different, if only what cannot be used.
    pub(super) has_changed: bool,
}

/// Takes over what a look has found. `is_last`: the listener has no other certificates.
pub(super) fn merge(
    directory: &mut CertificateDirectory,
    scanned: Result<Vec<ScannedFiles>, CertificateError>,
    is_last: bool,
) -> MergedDirectory {
    let mut merged = MergedDirectory::default();
    let before = directory.clone();
    match scanned {
        Ok(scanned) => {
            directory.certificates.clear();
            directory.unusable.clear();
            for files in scanned {
                merge_files(directory, files, &before, &mut merged);
            }
            if directory.certificates.is_empty() && is_last && !before.certificates.is_empty() {
                directory.certificates.clone_from(&before.certificates);
                let message = "the folder has no certificate any more that can be used; those of before stay in use, since the listener has no other";
                refuse(directory, &before.path, of_folder(&before.path, message));
            }
        }
        Err(error) => {
            directory.unusable.clear();
            refuse(directory, &before.path, error);
        }
    }
    let file = |shown: &ListenerCertificate| shown.certificate.files.certificate.clone();
    let is_gone =
        |shown: &&ListenerCertificate| directory.certificates.iter().all(|now| file(now) != file(shown));
    merged.gone = before.certificates.iter().filter(is_gone).map(file).collect();
    let news = directory.unusable.iter().filter(|one| !before.unusable.contains(one));
    merged.refused = news.map(|one| one.error.clone()).collect();
    merged.has_changed = *directory != before;
    merged
}

/// Takes over what was found of one certificate.
fn merge_files(
    directory: &mut CertificateDirectory,
    found: ScannedFiles,
    before: &CertificateDirectory,
    merged: &mut MergedDirectory,
) {
    let ScannedFiles { files, read, ocsp, .. } = found;
    let file = &files.certificate;
    let known = before.certificates.iter().map(|known| &known.certificate);
    let known = known.into_iter().find(|known| known.files.certificate == *file).cloned();
    let certificate = match read {
        Some(Ok(new)) => match known.filter(|known| known.chain == new.chain && known.key == new.key) {
            Some(known) => Some(known),
            None => {
                merged.loaded.push(Arc::clone(&new));
                Some(new)
            }
        },
        Some(Err(error)) => {
            refuse(directory, file, error);
            known
        }
        None => {
            let refused = before.unusable.iter().filter(|one| one.file == *file);
            let of_certificate = |one: &&UnusableCertificate| one.error.file == *file || one.error.is_key;
            directory.unusable.extend(refused.filter(of_certificate).cloned());
            known
        }
    };
    let ocsp = ocsp.and_then(|loaded| loaded.map_err(|error| refuse(directory, file, error)).ok());
    directory.certificates.extend(certificate.map(|certificate| ListenerCertificate::new(certificate, ocsp)));
}

fn refuse(directory: &mut CertificateDirectory, file: &Path, error: CertificateError) {
    directory.unusable.push(UnusableCertificate::new(file, error));
}

fn of_folder(folder: &Path, message: &str) -> CertificateError {
    CertificateError::new(folder, message)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A folder with certificates for these names, each in a file of its own.
    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        names.iter().for_each(|name| write(folder.path(), name));
        folder
    }

    fn write(folder: &Path, name: &str) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        let text = format!("{}{}", made.cert.pem(), made.signing_key.serialize_pem());
        std::fs::write(folder.join(format!("{name}.pem")), text).unwrap();
    }

    fn names(directory: &CertificateDirectory) -> Vec<&str> {
        directory.certificates.iter().map(|shown| &*shown.certificate.names[0]).collect()
    }

    /// One look, with the stamps of the one before.
    fn look(
        directory: &mut CertificateDirectory,
        stamps: &mut CertificateStamps,
        is_last: bool,
    ) -> MergedDirectory {
        let scanned = scan(directory, stamps);
        for one in scanned.iter().flatten() {
            stamps.insert(one.files.clone(), one.stamps);
        }
        merge(directory, scanned, is_last)
    }

    #[test]
    fn files_come_and_go_and_a_bad_one_changes_nothing_else() {
        let folder = folder(&["a.test", "b.test"]);
        let mut directory = CertificateDirectory::load(folder.path()).unwrap();
        let mut stamps = HashMap::new();
        assert!(!look(&mut directory, &mut stamps, true).has_changed, "the first look finds what is known");

        write(folder.path(), "c.test");
        let merged = look(&mut directory, &mut stamps, true);
        assert!(merged.has_changed && merged.loaded.len() == 1 && merged.refused.is_empty());
        assert_eq!(names(&directory), ["a.test", "b.test", "c.test"]);

        std::fs::write(folder.path().join("b.test.pem"), "half a file").unwrap();
        std::fs::write(folder.path().join("new.pem"), "nothing").unwrap();
        let merged = look(&mut directory, &mut stamps, true);
        assert_eq!(merged.refused.len(), 2, "{:?}", merged.refused);
        assert_eq!(names(&directory), ["a.test", "b.test", "c.test"], "the content of before stays");
        let merged = look(&mut directory, &mut stamps, true);
        assert!(!merged.has_changed && merged.refused.is_empty(), "it is said once");
        assert_eq!(directory.unusable.len(), 2);

        write(folder.path(), "b.test");
        std::fs::remove_file(folder.path().join("new.pem")).unwrap();
        std::fs::remove_file(folder.path().join("a.test.pem")).unwrap();
        let merged = look(&mut directory, &mut stamps, true);
        assert_eq!((merged.loaded.len(), merged.gone.len()), (1, 1));
        assert_eq!(names(&directory), ["b.test", "c.test"]);
        assert!(directory.unusable.is_empty());
    }

    #[test]
    fn the_last_certificates_stay() {
        let folder = folder(&["a.test"]);
        let mut directory = CertificateDirectory::load(folder.path()).unwrap();
        let mut stamps = HashMap::new();
        std::fs::remove_file(folder.path().join("a.test.pem")).unwrap();
        let merged = look(&mut directory, &mut stamps, true);
        assert!(merged.gone.is_empty() && merged.refused.len() == 1, "{merged:?}");
        assert!(!look(&mut directory, &mut stamps, true).has_changed, "it is said once");
        let path = folder.path().to_owned();
        drop(folder);
        let merged = look(&mut directory, &mut stamps, false);
        assert!(merged.refused[0].message.contains("cannot be read"), "{merged:?}");
        assert_eq!(names(&directory), ["a.test"], "a folder that cannot be read changes nothing");
        std::fs::create_dir(&path).unwrap();
        assert_eq!(look(&mut directory, &mut stamps, false).gone.len(), 1);
        assert_eq!(names(&directory), [""; 0]);
    }
}
