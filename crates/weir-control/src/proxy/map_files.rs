//! Files of maps that change: read again while Weir runs.
//!
//! What cannot be used changes nothing, and the log says why.

use std::time::Duration;

use weir_config::{MapFileMark, OwnValue, ReadMap, load_map, map_marks};

/// Keeps the table of a map current, until the task is dropped.
pub(super) async fn keep_current(map: OwnValue, reload: Duration) {
    let mut last_seen = None;
    loop {
        // What has just changed is looked at again soon, since it may still be written.
        let wait = if last_seen.is_some() { reload.min(SETTLING) } else { reload };
        tokio::time::sleep(wait).await;
        let looked = map.clone();
        // Not on this thread: a file may be far away, and a large one takes a while.
        match weir_tasks::blocking(move || read_changes(&looked, last_seen)).await {
            Some(seen) => last_seen = seen,
            None => return,
        }
    }
}

/// For so long a file has to stay as it is before it is read: programs that do not replace it but write into it are not done with it at once.
const SETTLING: Duration = Duration::from_secs(1);

/// Reads the files of a map, if they have changed since and are as they were when they were looked at last; the marks of those that are not yet.
fn read_changes(map: &OwnValue, last_seen: Option<Vec<MapFileMark>>) -> Option<Vec<MapFileMark>> {
    let definition = map.map()?;
    let live = definition.live()?;
    let marks = map_marks(definition);
    if live.is_of(&marks) {
        return None;
    }
    if last_seen.is_none_or(|seen| seen != marks) {
        return Some(marks);
    }
    let files: Vec<String> = definition.sources().map(|file| file.display().to_string()).collect();
    let loaded = load_map(map);
    let after = map_marks(definition);
    if after != marks {
        return Some(after);
    }
    match loaded {
        Ok(table) => {
            let entries = table.len();
            live.replace(ReadMap { table: table.into(), marks });
            tracing::info!(map = map.name(), entries, "the entries of the changed files count from now on");
        }
        Err(problems) => {
            let reason = problems.join("; ");
            live.note_problem(&reason, marks);
            tracing::error!(
                map = map.name(),
                files = files.join(", "),
                reason,
                "a file of a map has changed and cannot be used; the entries of before stay"
            );
        }
    }
    None
}
