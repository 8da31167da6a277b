//! Files of users and of keys that change: read again while Weir runs.
//!
//! A file that cannot be used changes nothing, and the log says why.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_access::{KeySet, Users};
use weir_config::{doubt_about_users, load_keys, load_users};
use weir_proxy::state::routes::access::LiveFile;

use crate::tls::certificates::{FileStamp, stamp};

/// Problems of a file that the log names.
const TOLD_MAX: usize = 5;

/// What a file holds.
pub(crate) struct CredentialKind<T> {
    load: fn(&Path) -> Result<Arc<T>, Vec<String>>,
    doubt: fn(&T) -> Option<String>,
    name: &'static str,
}

impl<T> Clone for CredentialKind<T> {
    fn clone(&self) -> Self {
        Self { ..*self }
    }
}

/// Users with the hashes of their passwords.
pub(crate) const USERS: CredentialKind<Users> =
    CredentialKind { load: load_users, doubt: doubt_about_users, name: "users" };

/// Keys of tokens.
pub(crate) const KEYS: CredentialKind<KeySet> =
    CredentialKind { load: load_keys, doubt: |_| None, name: "keys" };

/// Keeps the content of one file current, until the task is dropped.
pub(crate) async fn keep_current<T: PartialEq + Send + Sync + 'static>(
    live: Arc<LiveFile<T>>,
    file: Arc<Path>,
    reload: Duration,
    kind: CredentialKind<T>,
) {
    // The first time it is the file that the config was read with, or one that has changed since.
    let mut seen: Option<FileStamp> = None;
    loop {
        let (path, before, load) = (Arc::clone(&file), seen, kind.load);
        // Not on this thread: a file may be far away.
        let looked = weir_tasks::blocking(move || {
            let now = stamp(&path);
            (now, (before != Some(now)).then(|| load(&path)))
        });
        let Some((now, read)) = looked.await else { return };
        seen = Some(now);
        match read {
            Some(Ok(read)) if *read != *live.now() => {
                if let Some(doubt) = (kind.doubt)(&read) {
                    tracing::warn!(file = %file.display(), "{doubt}");
                }
                live.replace(read);
                tracing::info!(file = %file.display(), "the {} of the changed file count from now on", kind.name);
            }
            Some(Ok(_)) | None => {}
            Some(Err(problems)) => {
                let reason =
                    problems.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
                tracing::error!(
                    file = %file.display(), reason,
                    "a file of {} has changed and cannot be used; those of before stay", kind.name
                );
            }
        }
        tokio::time::sleep(reload).await;
    }
}
