//! A file of users that changes: read again while Weir runs.
//!
//! A file that cannot be used changes nothing, and the log says why.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{doubt_about_users, load_users};
use weir_proxy::state::access::LiveUsers;

use crate::certificates::{FileStamp, stamp};

/// Problems of a file that the log names.
const TOLD_MAX: usize = 5;

/// Keeps the users of one file current, until the task is dropped.
pub(crate) async fn keep_current(users: Arc<LiveUsers>, file: Arc<Path>, reload: Duration) {
    let mut seen = None;
    loop {
        let (path, before, first) = (Arc::clone(&file), seen.flatten(), seen.is_none());
        // Not on this thread: a file may be far away.
        let looked = tokio::task::spawn_blocking(move || {
            let now: FileStamp = stamp(&path);
            (now, (first || now != before).then(|| load_users(&path)))
        });
        let Ok((now, read)) = looked.await else { return };
        seen = Some(now);
        match read {
            // The first time it is the file that the config was read with, or one that has changed since.
            Some(Ok(read)) if *read != *users.now() => {
                if let Some(doubt) = doubt_about_users(&read) {
                    tracing::warn!(file = %file.display(), "{doubt}");
                }
                tracing::info!(file = %file.display(), users = read.len(), "the users of the changed file count from now on");
                users.replace(read);
            }
            Some(Ok(_)) | None => {}
            Some(Err(problems)) => {
                let reason =
                    problems.iter().take(TOLD_MAX).map(String::as_str).collect::<Vec<_>>().join("; ");
                tracing::error!(
                    file = %file.display(), reason,
                    "a file of users has changed and cannot be used; the users of before stay"
                );
            }
        }
        tokio::time::sleep(reload).await;
    }
}
