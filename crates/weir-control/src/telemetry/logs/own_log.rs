//! Weir's own log on its way to standard error: a bounded queue and a thread that writes, so that a reader of standard error that is too slow,
//! or reads nothing, does not stop the workers.
//!
//! Of equal lines, the first ten in 10 s are written, then one that says how many more there were. Lines that do not fit in the
//! queue are dropped and counted. Must not be used for the access log, which loses nothing to repetition.

use std::collections::HashMap;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::whole_lines::WholeLines;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::crashes::faults::{self, ControlFault};

/// Lines that wait to be written.
const LINES_MAX: usize = 1_000;

/// Bytes that wait to be written.
const BYTES_MAX: usize = 1 << 20;

/// Lines that are kept after they were written, and their bytes.
const LAST_LINES_MAX: usize = 500;
const LAST_BYTES_MAX: usize = 256 << 10;

/// Distinct lines that are compared for repetition at once.
const KINDS_MAX: usize = 256;

/// How long a line is remembered that was written.
const WINDOW: Duration = Duration::from_secs(10);

/// Lines of one kind that are written within [`WINDOW`].
const REPEATED_MAX: u64 = 10;

/// Lines that did not fit in the queue, since the start of the process.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The last lines that were written, for `weir report`.
static LAST: Mutex<LastLines> = Mutex::new(LastLines { lines: VecDeque::new(), bytes: 0 });

/// Lines, with the sum of their bytes.
struct LastLines {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl LastLines {
    fn keep(&mut self, lines: VecDeque<Box<[u8]>>) {
        for line in lines {
            self.bytes += line.len();
            self.lines.push_back(line);
            while self.lines.len() > LAST_LINES_MAX || self.bytes > LAST_BYTES_MAX {
                let Some(first) = self.lines.pop_front() else { break };
                self.bytes -= first.len();
            }
        }
    }
}

/// The last lines of the log.
pub(crate) fn last_lines() -> Vec<u8> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.lines.iter().flat_map(|line| line.iter().copied()).collect()
}

/// How many lines of Weir's own log were lost.
pub(crate) fn lines_dropped() -> u64 {
    DROPPED.load(Ordering::Relaxed)
}

/// The queue of lines; clones share it.
#[derive(Debug, Clone)]
pub struct OwnLog(Arc<LogQueue>);

#[derive(Debug)]
struct LogQueue {
    queue: Mutex<LineQueue>,
    /// Notified when there is something to write.
    added: Condvar,
    /// Notified when everything is written.
    written: Condvar,
    form: LineFormat,
}

/// The form of a line: the part that the filter needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineFormat {
    Text,
    Json,
}

#[derive(Debug, Default)]
struct LineQueue {
    lines: VecDeque<Box<[u8]>>,
    bytes: usize,
    /// The lines written lately, by the hash of their text.
    kinds: HashMap<u64, Repeated>,
    /// Lines that were dropped and not yet reported in the log.
    dropped: u64,
    is_writing: bool,
}

/// A line that was written lately.
#[derive(Debug)]
struct Repeated {
    since: Instant,
    /// That many lines say the same, written or not.
    count: u64,
    /// The last one that was not written.
    last: Option<Box<[u8]>>,
}

impl OwnLog {
    /// Starts the thread that writes to `output`, line by line. `is_json` says how lines look.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(output: impl Write + Send + 'static, is_json: bool) -> io::Result<Self> {
        let form = if is_json { LineFormat::Json } else { LineFormat::Text };
        let shared =
            LogQueue { queue: Mutex::default(), added: Condvar::new(), written: Condvar::new(), form };
        let log = Self(Arc::new(shared));
        let (writing, mut output) = (log.clone(), output);
        std::thread::Builder::new().name("weir-log".into()).spawn(move || {
            weir_tasks::keep_thread("the writer of this log", || writing.write_on(&mut output));
        })?;
        Ok(log)
    }

    /// Writes a line that is never folded with others: scripts wait for it.
    pub fn say(&self, line: &str) {
        let mut queue = self.lock();
        queue.push(format!("{line}\n").into_bytes().into());
        self.0.added.notify_one();
    }

    /// Has a line of the log written, unless it was repeated too often.
    pub fn take(&self, line: &[u8]) {
        let now = clock::now();
        let mut queue = self.lock();
        if queue.admits(line, self.0.form, now) {
            queue.push(line.into());
            self.0.added.notify_one();
        }
    }

    /// Waits until everything is written, for `limit` at most.
    pub fn flush(&self, limit: Duration) {
        let end = clock::now() + limit;
        let mut queue = self.lock();
        queue.tell_repeated(self.0.form, None);
        self.0.added.notify_one();
        while !queue.lines.is_empty() || queue.is_writing {
            let left = end.saturating_duration_since(clock::now());
            if left.is_zero() {
                return;
            }
            let waited = self.0.written.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, LineQueue> {
        self.0.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes all lines, to the end of the process. Those in hand at a panic are lost.
    fn write_on(&self, output: &mut impl Write) {
        self.lock().is_writing = false;
        let mut end = WholeLines::default();
        loop {
            let (lines, dropped) = self.wait();
            faults::strike_control(ControlFault::OwnLog);
            for line in &lines {
                // Standard error is closed: that is no reason to stop.
                let _lost = end.write(line, |bytes| output.write(bytes));
            }
            let _lost = output.flush();
            LAST.lock().unwrap_or_else(PoisonError::into_inner).keep(lines);
            let mut queue = self.lock();
            queue.is_writing = false;
            let is_idle = queue.lines.is_empty();
            drop(queue);
            if is_idle {
                self.0.written.notify_all();
            }
            if dropped > 0 {
                tracing::warn!(
                    dropped,
                    "lines of this log were dropped: standard error was not read fast enough"
                );
            }
        }
    }

    /// The next lines, and how many were dropped since the last ones.
    fn wait(&self) -> (VecDeque<Box<[u8]>>, u64) {
        let mut queue = self.lock();
        loop {
            queue.tell_repeated(self.0.form, Some(clock::now()));
            if !queue.lines.is_empty() {
                queue.is_writing = true;
                queue.bytes = 0;
                return (std::mem::take(&mut queue.lines), std::mem::take(&mut queue.dropped));
            }
            queue = if queue.kinds.is_empty() {
                self.0.added.wait(queue).unwrap_or_else(PoisonError::into_inner)
            } else {
                let waited = self.0.added.wait_timeout(queue, WINDOW / 10);
                waited.unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl LineQueue {
    /// Whether a line is to be written; counts it if it is not.
    fn admits(&mut self, line: &[u8], form: LineFormat, now: Instant) -> bool {
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let kind = hasher.hash_one(form.said(line));
        let is_full = self.kinds.len() >= KINDS_MAX;
        match self.kinds.entry(kind) {
            Entry::Occupied(mut known) if now.saturating_duration_since(known.get().since) < WINDOW => {
                let repeated = known.get_mut();
                repeated.count += 1;
                let is_written = repeated.count <= REPEATED_MAX;
                if !is_written {
                    repeated.last = Some(line.into());
                }
                is_written
            }
            Entry::Occupied(mut known) => {
                let over = known.insert(Repeated { since: now, count: 1, last: None });
                if let Some(line) = over.repetition_line(form) {
                    self.push(line);
                }
                true
            }
            // The thread that writes makes room when it has a moment; until then these are not counted.
            Entry::Vacant(_) if is_full => true,
            Entry::Vacant(place) => {
                place.insert(Repeated { since: now, count: 1, last: None });
                true
            }
        }
    }

    fn push(&mut self, line: Box<[u8]>) {
        if self.lines.len() >= LINES_MAX || self.bytes + line.len() > BYTES_MAX {
            self.dropped += 1;
            DROPPED.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.bytes += line.len();
        self.lines.push_back(line);
    }

    /// Reports repetitions of lines whose window is over at `now` (without `now`, of all), and forgets them.
    fn tell_repeated(&mut self, form: LineFormat, now: Option<Instant>) {
        let is_over = |_: &u64, known: &mut Repeated| {
            now.is_none_or(|now| now.saturating_duration_since(known.since) >= WINDOW)
        };
        let over: Vec<Repeated> = self.kinds.extract_if(is_over).map(|(_, known)| known).collect();
        for line in over.into_iter().filter_map(|known| known.repetition_line(form)) {
            self.push(line);
        }
    }
}

impl Repeated {
    /// The line that says how many more there were than were written.
    fn repetition_line(self, form: LineFormat) -> Option<Box<[u8]>> {
        let (last, more) = (self.last?, self.count.saturating_sub(REPEATED_MAX));
        let (line, seconds) = (last.trim_ascii_end(), WINDOW.as_secs());
        let mut text = line.to_vec();
        match form {
            LineFormat::Text => text.extend(format!(" (and {more} more like it in {seconds} s)\n").bytes()),
            LineFormat::Json => {
                text.truncate(line.len() - usize::from(line.ends_with(b"}")));
                text.extend(format!(",\"repeated\":{more},\"seconds\":{seconds}}}\n").bytes());
            }
        }
        Some(text.into())
    }
}

impl LineFormat {
    /// The text of a line, apart from its time.
    fn said(self, line: &[u8]) -> &[u8] {
        let end = match self {
            LineFormat::Text => b' ',
            LineFormat::Json => b',',
        };
        line.iter().position(|byte| *byte == end).map_or(line, |at| &line[at..])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// An output that sends what is written to the test and blocks until the test lets it continue.
    struct Stalling(Sender<String>, Receiver<()>);

    impl Write for Stalling {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _gone = self.0.send(String::from_utf8_lossy(bytes).into_owned());
            let _gone = self.1.recv();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn queue_of(lines: &[(&str, u64)], form: LineFormat) -> Vec<String> {
        let (mut queue, began) = (LineQueue::default(), clock::now());
        for (line, second) in lines {
            let now = began + Duration::from_secs(*second);
            queue.tell_repeated(form, Some(now));
            if queue.admits(line.as_bytes(), form, now) {
                queue.push(line.as_bytes().into());
            }
        }
        queue.tell_repeated(form, None);
        queue.lines.iter().map(|line| String::from_utf8_lossy(line).into_owned()).collect()
    }

    #[test]
    fn the_same_said_often_is_said_once_with_its_number() {
        let many: Vec<(String, u64)> =
            (0..47).map(|at| (format!("10:00:{at}Z  WARN it is full\n"), 0)).collect();
        let mut many: Vec<(&str, u64)> = many.iter().map(|(line, second)| (&**line, *second)).collect();
        many.push(("10:00:48Z  WARN another\n", 0));
        let said = queue_of(&many, LineFormat::Text);
        assert_eq!(said.len(), 12, "{said:?}");
        assert_eq!(said[9], "10:00:9Z  WARN it is full\n");
        assert_eq!(said[10], "10:00:48Z  WARN another\n");
        assert_eq!(said[11], "10:00:46Z  WARN it is full (and 37 more like it in 10 s)\n");
    }

    #[test]
    fn a_line_that_is_logged_rarely_is_always_logged() {
        let lines: Vec<(&str, u64)> = (0..100).map(|at| ("t  INFO reloaded\n", at)).collect();
        assert_eq!(queue_of(&lines, LineFormat::Text).len(), 100, "one a second is no flood");
    }

    #[test]
    fn the_last_lines_are_kept() {
        let mut last = LastLines { lines: VecDeque::new(), bytes: 0 };
        last.keep((0..LAST_LINES_MAX + 5).map(|at| format!("{at}\n").into_bytes().into()).collect());
        assert_eq!((last.lines.len(), &*last.lines[0]), (LAST_LINES_MAX, &b"5\n"[..]));
        last.keep((0..3).map(|_| vec![b'x'; LAST_BYTES_MAX / 2].into()).collect());
        assert_eq!((last.lines.len(), last.bytes), (2, LAST_BYTES_MAX));
    }

    #[test]
    fn json_stays_json() {
        let line = "{\"timestamp\":\"t\",\"level\":\"WARN\",\"fields\":{\"message\":\"full\"}}\n";
        let said = queue_of(&[(line, 0); 12], LineFormat::Json);
        let expected = "{\"timestamp\":\"t\",\"level\":\"WARN\",\"fields\":{\"message\":\"full\"},\"repeated\":2,\"seconds\":10}\n";
        assert_eq!((said.len(), said[10].as_str()), (11, expected));
    }

    #[test]
    fn a_reader_that_stalls_costs_lines_and_no_time() {
        let (said, heard) = channel();
        let (go, going) = channel();
        let log = OwnLog::start(Stalling(said, going), false).unwrap();
        log.take(b"t first\n");
        assert_eq!(heard.recv().unwrap(), "t first\n");
        let before = lines_dropped();
        for at in 0..LINES_MAX + 200 {
            log.take(format!("t line {at}\n").as_bytes());
        }
        assert_eq!(lines_dropped() - before, 200);
        log.flush(Duration::from_millis(20));
        drop(go);
        assert_eq!(heard.recv().unwrap(), "t line 0\n");
        log.flush(Duration::from_secs(60));
        assert_eq!(heard.try_iter().count(), LINES_MAX - 1);
    }
}
