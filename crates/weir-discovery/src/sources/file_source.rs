//! A file of servers, watched: looked at four times a second, and read when it is another one, whether it was written anew, replaced by a
//! rename, or a symbolic link on its path leads elsewhere, as in the volumes of Kubernetes' ConfigMaps. That works on network file systems,
//! too, for which the kernel reports no changes.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::last_known::report::Reporter;
use crate::server_set::DiscoveredServer;
use crate::sources::file_format;

/// How often the file is looked at: one system call.
const INTERVAL: Duration = Duration::from_millis(250);

/// The largest file.
const BYTES_MAX: u64 = 32 << 20;

/// Device, inode, length and time of the last change.
type ServersFileStamp = (u64, u64, u64, i64, i64);

/// Follows a file until the task is dropped.
pub(crate) async fn follow(path: PathBuf, reporter: Reporter) {
    let mut seen = None;
    loop {
        let look_at = path.clone();
        // On a thread that may wait: the file system may be one of a network.
        let Some(news) = weir_tasks::blocking(move || look(&look_at, seen)).await else { return };
        if let Some(found) = news {
            seen = found.stamp;
            match found.servers {
                Ok(servers) => reporter.said(servers),
                Err(problem) => reporter.failed(&problem),
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// What a look has found.
struct FileNews {
    /// `None`: there is no file.
    stamp: Option<ServersFileStamp>,
    servers: Result<Vec<DiscoveredServer>, String>,
}

/// Reads the file if it is not the one that was seen. A missing one is always news: it is shown once all the same.
fn look(path: &Path, seen: Option<ServersFileStamp>) -> Option<FileNews> {
    // Before it is read: a change meanwhile is found by the next look.
    let stamp = stamp(path);
    (stamp.is_none() || stamp != seen).then(|| FileNews { stamp, servers: read(path) })
}

fn stamp(path: &Path) -> Option<ServersFileStamp> {
    let file = std::fs::metadata(path).ok()?;
    Some((file.dev(), file.ino(), file.len(), file.ctime(), file.ctime_nsec()))
}

fn read(path: &Path) -> Result<Vec<DiscoveredServer>, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_string(&mut text));
    let len = file.map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    if len as u64 > BYTES_MAX {
        return Err(format!("{} is larger than {} MiB", path.display(), BYTES_MAX >> 20));
    }
    file_format::parse(path, &text).map_err(|problem| format!("{}, {problem}", path.display()))
}
