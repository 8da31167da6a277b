//! The folder with accounts, certificates, records and answers to challenges.
//!
//! Only the user of Weir may read it. Files are replaced as a whole, so that no reader meets half of one; a certificate and its key are one
//! file. Several nodes may share the folder: what changes something holds a lock, which the system releases when its process ends.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_config::{CertificateError, CertificateFiles, LoadedCertificate};
use weir_proxy::net::tls::issued::TokenAnswer;

use crate::system::atomic_file::replace;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Bytes of the digest of a URL that the name of its folder has.
const DIGEST_BYTES: usize = 6;

/// The folder.
#[derive(Debug, Clone)]
pub(super) struct AcmeStore {
    folder: PathBuf,
}

/// A lock that is held until it is dropped.
#[derive(Debug)]
pub(super) struct StoreLock(#[expect(dead_code, reason = "the lock goes with the file")] File);

impl AcmeStore {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes the folders that are not there yet.
    ///
    /// # Errors
    /// When one cannot be made.
    pub(super) fn prepare(&self) -> io::Result<()> {
        for name in ["certificates", "accounts", "challenges", "locks"] {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(self.folder.join(name))?;
        }
        Ok(())
    }

    /// The file with certificate and key of a host.
    pub(super) fn certificate_path(&self, host: &str) -> PathBuf {
        self.folder.join("certificates").join(format!("{}.pem", file_name(host)))
    }

    /// The certificate of a host; `None` while there is none.
    ///
    /// # Errors
    /// When there is a file that cannot be used.
    pub(super) fn load_certificate(
        &self,
        host: &str,
    ) -> Result<Option<Arc<LoadedCertificate>>, CertificateError> {
        let file = self.certificate_path(host);
        if !file.exists() {
            return Ok(None);
        }
        CertificateFiles::new(file.clone(), file).load().map(Some)
    }

    /// Stores the chain and the key of a host, both PEM.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save_certificate(&self, host: &str, chain: &str, key: &str) -> io::Result<()> {
        let separator = if chain.ends_with('\n') { "" } else { "\n" };
        replace(&self.certificate_path(host), format!("{chain}{separator}{key}").as_bytes(), FILE_MODE)
    }

    /// Removes what is remembered of a host that has no certificate: clients may invent any number of them.
    pub(super) fn forget_host(&self, host: &str) {
        if !self.certificate_path(host).exists()
            && let Ok(Some(_lock)) = self.lock(host)
        {
            let _was_gone = fs::remove_file(self.record_path(host));
            let _was_gone = fs::remove_file(self.lock_path(host));
        }
    }

    /// The record of a host; an empty one where there is none that can be read.
    pub(super) fn record<T: DeserializeOwned + Default>(&self, host: &str) -> T {
        read_json(&self.record_path(host)).unwrap_or_default()
    }

    /// Stores the record of a host.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save_record(&self, host: &str, record: &impl Serialize) -> io::Result<()> {
        write_json(&self.record_path(host), record)
    }

    fn record_path(&self, host: &str) -> PathBuf {
        self.folder.join("certificates").join(format!("{}.json", file_name(host)))
    }

    /// What is known of the account at an authority: `account`, `orders` or `made`.
    pub(super) fn account<T: DeserializeOwned>(&self, ca: &str, what: &str) -> Option<T> {
        read_json(&self.account_path(ca, what))
    }

    /// Stores that.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save_account(&self, ca: &str, what: &str, value: &impl Serialize) -> io::Result<()> {
        let path = self.account_path(ca, what);
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
        }
        write_json(&path, value)
    }

    /// Removes the account at an authority that does not know it any more.
    pub(super) fn forget_account(&self, ca: &str) {
        let _was_gone = fs::remove_file(self.account_path(ca, "account"));
    }

    fn account_path(&self, ca: &str, what: &str) -> PathBuf {
        self.folder.join("accounts").join(ca_name(ca)).join(format!("{what}.json"))
    }

    /// Locks what has this name, if nothing else has locked it.
    ///
    /// # Errors
    /// When the file of the lock cannot be made or locked for another reason.
    pub(super) fn lock(&self, name: &str) -> io::Result<Option<StoreLock>> {
        let file = OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(self.lock_path(name))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(StoreLock(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn lock_path(&self, name: &str) -> PathBuf {
        self.folder.join("locks").join(format!("{}.lock", file_name(name)))
    }

    /// The name of the lock of the account at an authority.
    pub(super) fn account_lock(ca: &str) -> String {
        format!("account-{}", ca_name(ca))
    }

    /// Stores the answer to a challenge, for other nodes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn save_token(&self, token: &str, answer: &TokenAnswer) -> io::Result<()> {
        let path = self.token_path(token).ok_or(io::ErrorKind::InvalidInput)?;
        replace(&path, format!("{}\n{}", answer.host, answer.text).as_bytes(), FILE_MODE)
    }

    /// Removes it.
    pub(super) fn remove_token(&self, token: &str) {
        if let Some(path) = self.token_path(token) {
            let _was_gone = fs::remove_file(path);
        }
    }

    /// The answer to a challenge that another node may have stored.
    pub(super) fn token(&self, token: &str) -> Option<TokenAnswer> {
        let text = fs::read_to_string(self.token_path(token)?).ok()?;
        let (host, text) = text.split_once('\n')?;
        Some(TokenAnswer { host: host.into(), text: text.into() })
    }

    /// `None` for what is no token, and might lead out of the folder.
    fn token_path(&self, token: &str) -> Option<PathBuf> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let fits = !token.is_empty() && token.len() <= 255 && token.bytes().all(is_token);
        fits.then(|| self.folder.join("challenges").join(token))
    }
}

/// The name of the file of a host.
fn file_name(host: &str) -> String {
    host.replace('*', "_wildcard").replace('/', "_")
}

/// The name of the folder of an authority: its host, for readers, and a digest of its URL.
fn ca_name(ca: &str) -> String {
    let host = ca.trim_start_matches("https://").split(['/', ':']).next().unwrap_or_default();
    let digest = digest::digest(&digest::SHA256, ca.as_bytes());
    format!("{host}-{}", HEXLOWER.encode(&digest.as_ref()[..DIGEST_BYTES]))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let text = fs::read(path).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| {
            let file = path.display();
            tracing::warn!(%file, %error, "a file of the ACME folder cannot be read, and is written anew");
        })
        .ok()
}

fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, &serde_json::to_vec_pretty(value)?, FILE_MODE)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::tls::acme::record::HostRecord;

    fn store() -> (tempfile::TempDir, AcmeStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = AcmeStore::new(&folder.path().join("acme"));
        store.prepare().unwrap();
        (folder, store)
    }

    #[test]
    fn files_are_for_the_owner_only() {
        let (_folder, store) = store();
        store.save_certificate("*.example.com", "chain", "key").unwrap();
        store.save_record("example.com", &HostRecord::default()).unwrap();
        store.save_account("https://ca.test/dir", "account", &1).unwrap();
        let mut pending = vec![store.folder.clone()];
        let mut files = Vec::new();
        while let Some(path) = pending.pop() {
            let metadata = fs::metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            if metadata.is_dir() {
                assert_eq!(mode, FOLDER_MODE, "{}", path.display());
                pending.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                assert_eq!(mode, FILE_MODE, "{}", path.display());
                files.push(path.strip_prefix(&store.folder).unwrap().display().to_string());
            }
        }
        files.sort();
        assert_eq!(files.len(), 3, "no temporary file is left: {files:?}");
        assert_eq!(files[1], "certificates/_wildcard.example.com.pem");
        assert_eq!(fs::read_to_string(store.certificate_path("*.example.com")).unwrap(), "chain\nkey");
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let (_folder, store) = store();
        let first = store.lock("example.com").unwrap();
        assert!(first.is_some());
        assert!(store.lock("example.com").unwrap().is_none());
        assert!(store.lock("example.org").unwrap().is_some());
        drop(first);
        assert!(store.lock("example.com").unwrap().is_some());
    }

    #[test]
    fn hosts_without_a_certificate_leave_nothing_behind() {
        let (_folder, store) = store();
        for host in ["invented.example.com", "real.example.com"] {
            store.save_record(host, &HostRecord::default()).unwrap();
            assert!(store.lock(host).unwrap().is_some());
        }
        store.save_certificate("real.example.com", "chain", "key").unwrap();
        store.forget_host("invented.example.com");
        store.forget_host("real.example.com");
        assert!(!store.record_path("invented.example.com").exists());
        assert!(!store.lock_path("invented.example.com").exists());
        assert!(
            store.record_path("real.example.com").exists() && store.lock_path("real.example.com").exists()
        );
    }

    #[test]
    fn tokens_stay_in_their_folder() {
        let (_folder, store) = store();
        let answer = TokenAnswer { host: "example.com".into(), text: "token.thumb".into() };
        store.save_token("token", &answer).unwrap();
        assert_eq!(store.token("token"), Some(answer.clone()));
        store.remove_token("token");
        assert_eq!(store.token("token"), None);
        for bad in ["", "../accounts/x", "a/b", "a.b", ".."] {
            assert!(store.save_token(bad, &answer).is_err(), "{bad}");
            assert_eq!(store.token(bad), None);
        }
    }

    #[test]
    fn authorities_have_folders_of_their_own() {
        let [one, other] = ["https://ca.test:14000/dir", "https://ca.test:14000/other"].map(ca_name);
        assert_ne!(one, other);
        assert!(one.starts_with("ca.test-") && one.len() == "ca.test-".len() + 12, "{one}");
    }
}
