//! Files of maps that change: read again while Weir runs.
//!
//! What cannot be used changes nothing, and the log says why.

use std::time::Duration;

use weir_config::{OwnValue, ReadMap, load_map, map_marks};

/// Keeps the table of a map current, until the task is dropped.
pub(super) async fn keep_current(map: OwnValue, reload: Duration) {
    loop {
        tokio::time::sleep(reload).await;
        let looked = map.clone();
        // Not on this thread: a file may be far away, and a large one takes a while.
        if weir_tasks::blocking(move || read_changes(&looked)).await.is_none() {
            return;
        }
    }
}

/// Reads the files of a map, if they have changed since.
fn read_changes(map: &OwnValue) {
    let Some(definition) = map.map() else { return };
    let Some(live) = definition.live() else { return };
    let marks = map_marks(definition);
    if live.is_of(&marks) {
        return;
    }
    let files: Vec<String> = definition.files.iter().map(|file| file.display().to_string()).collect();
    match load_map(map) {
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
}
