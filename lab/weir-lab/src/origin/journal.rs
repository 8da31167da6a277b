//! The journal of an origin: when each request came, when work on it began, when its answer was ready.
//!
//! One line per event, appended after each turn of the event loop, so that the journal of a killed origin is complete.
//! Times are those of `clock::uptime_ns`, which client and servers share. Read by the measuring side.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::clock;

/// Writes a journal.
#[derive(Debug)]
pub(super) struct JournalWriter {
    file: File,
    lines: Vec<u8>,
    requests: u64,
}

impl JournalWriter {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().create(true).append(true).open(path)?;
        Ok(Self { file, lines: Vec::new(), requests: 0 })
    }

    /// A request for `target` has come; gives its number.
    pub(super) fn got(&mut self, target: &[u8]) -> u64 {
        self.requests += 1;
        let target = String::from_utf8_lossy(target);
        self.line(&format!("got {} {target}", self.requests));
        self.requests
    }

    /// Work on request `number` has begun.
    pub(super) fn began(&mut self, number: u64) {
        self.line(&format!("began {number}"));
    }

    /// The answer to request `number` is ready.
    pub(super) fn done(&mut self, number: u64) {
        self.line(&format!("done {number}"));
    }

    /// Puts everything into the file. An origin that cannot write has nothing else to say it with.
    pub(super) fn flush(&mut self) {
        if !self.lines.is_empty() {
            self.file.write_all(&self.lines).expect("the journal can be written");
            self.lines.clear();
        }
    }

    fn line(&mut self, event: &str) {
        writeln!(self.lines, "{} {event}", clock::uptime_ns()).expect("a Vec takes every write");
    }
}

/// One request, as its server saw it. Times in nanoseconds of `clock::uptime_ns`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEntry {
    /// When its head was read.
    pub got: u64,
    /// When work on it began, if that took time.
    pub began: Option<u64>,
    /// When its answer was ready.
    pub done: Option<u64>,
    /// The target of the request.
    pub target: String,
}

impl JournalEntry {
    /// The number of the client that asked, for requests that say it.
    pub fn client(&self) -> Option<usize> {
        self.target.split_once("/client/")?.1.parse().ok()
    }
}

/// Reads a journal, in the order in which requests came. An incomplete last line is left out.
///
/// # Errors
/// When it cannot be read or is none.
pub fn read(path: &Path) -> anyhow::Result<Vec<JournalEntry>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no journal {}", path.display()))?;
    let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let mut visits = Vec::new();
    // Numbers begin anew when a server is started again with the same journal.
    let mut places: BTreeMap<u64, usize> = BTreeMap::new();
    for line in whole.lines() {
        let mut words = line.splitn(4, ' ');
        let (time, event, number) = (words.next(), words.next(), words.next());
        let time: u64 = time.and_then(|time| time.parse().ok()).with_context(|| format!("`{line}`"))?;
        let number: u64 = number.and_then(|it| it.parse().ok()).with_context(|| format!("`{line}`"))?;
        if event == Some("got") {
            places.insert(number, visits.len());
            let target = words.next().unwrap_or_default().to_owned();
            visits.push(JournalEntry { got: time, began: None, done: None, target });
            continue;
        }
        let visit = places.get(&number).and_then(|place| visits.get_mut(*place));
        let visit: &mut JournalEntry = visit.with_context(|| format!("`{line}` before the request"))?;
        match event {
            Some("began") => visit.began = Some(time),
            _ => visit.done = Some(time),
        }
    }
    Ok(visits)
}

#[cfg(test)]
mod tests {
    use super::{JournalEntry, JournalWriter, read};

    #[test]
    fn written_entries_are_read_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        for _ in 0..2 {
            let mut writer = JournalWriter::create(&path).unwrap();
            let (first, second) = (writer.got(b"/delay/20/client/7"), writer.got(b"/health"));
            writer.done(second);
            writer.began(first);
            writer.flush();
            writer.done(first);
            // Never flushed: the server was killed.
        }
        let visits = read(&path).unwrap();
        assert_eq!(visits.len(), 4);
        assert!(visits.iter().map(|visit| visit.got).is_sorted());
        for pair in visits.chunks(2) {
            assert_eq!((pair[0].client(), pair[1].client()), (Some(7), None));
            assert!(pair[0].began >= pair[1].done && pair[1].done.is_some() && pair[0].done.is_none());
        }
    }

    #[test]
    fn a_line_cut_off_is_left_out_and_a_foreign_file_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal");
        std::fs::write(&path, "5 got 1 /\n6 done 1\n7 go").unwrap();
        let visit = JournalEntry { got: 5, began: None, done: Some(6), target: "/".to_owned() };
        assert_eq!(read(&path).unwrap(), [visit]);
        for text in ["hello\n", "5 done 1\n", "5 got x /\n"] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_err(), "{text}");
        }
    }
}
