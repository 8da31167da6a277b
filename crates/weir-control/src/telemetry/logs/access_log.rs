//! The access log: lines rendered by the workers, written by a thread of its own.
//!
//! A worker appends lines to a batch and hands full batches over without waiting. When the writer is behind by more than
//! the limit, and when a line cannot be written, it is dropped and counted. A full disk or a slow syslog stops neither
//! traffic nor the end of the process.

use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use weir_config::{AccessLog, AccessLogOutput, Config, ListenerProtocol};
use weir_observe::access_log::syslog::{Facility, Severity, SyslogFraming};
use weir_observe::access_log::{LogTemplate, UnixMicros};

use super::whole_lines::WholeLines;
use crate::lifecycle::privileges;
use crate::system::threads;
use weir_proxy::net::clock;
use weir_proxy::state::crashes::faults::{self, ControlFault};
use weir_proxy::state::log_batches::{Batch, LogBatches, LogMessage, LogOutput, LogProgress, WorkerLogs};

/// How long the end of the process waits for all writers to finish.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// The writers that run.
type Outputs = HashMap<AccessLogOutput, Arc<LogOutput>>;

/// Outputs that are open, and that no writer has yet.
pub(crate) type OpenedLogs = HashMap<AccessLogOutput, LogDestination>;

/// A format, and the writer of its lines.
type LogEnd = (Arc<LogTemplate>, Arc<LogOutput>);

/// All access logs of the process.
pub(crate) struct AccessLogs {
    listeners: Vec<Option<LogEnd>>,
    /// Those that routes have of their own, each once.
    routes: Vec<LogEnd>,
    /// For each listener, the places in `routes` for its routes; nothing for a listener whose routes have none.
    places: Vec<Arc<[Option<u32>]>>,
    outputs: Outputs,
    /// Those that have no writer yet.
    opened: OpenedLogs,
    /// Held by every writer until it has finished.
    writing: Sender<Infallible>,
    /// Says nothing, and is disconnected when the last writer has finished.
    finished: Receiver<Infallible>,
}

impl AccessLogs {
    /// Starts a writer for each output that the config names; those of `opened` are open already.
    ///
    /// # Errors
    /// When an output cannot be opened; the message names it.
    pub(crate) fn start(config: &Config, opened: OpenedLogs) -> io::Result<Self> {
        let (writing, finished) = channel();
        let (listeners, routes, places) = (Vec::new(), Vec::new(), Vec::new());
        let outputs = Outputs::new();
        let mut logs = Self { listeners, routes, places, outputs, opened, writing, finished };
        logs.follow(config)?;
        Ok(logs)
    }

    /// Opens the outputs that the next config adds. The others stay open as long as it names them, and the writers of removed ones end when the
    /// last worker has released them.
    ///
    /// # Errors
    /// As [`AccessLogs::open`]; then nothing has changed.
    pub(crate) fn follow(&mut self, config: &Config) -> io::Result<()> {
        let mut outputs = Outputs::new();
        let mut listeners = Vec::new();
        let (mut routes, mut places) = (Vec::new(), Vec::with_capacity(config.listeners.len()));
        let mut known: HashMap<(&AccessLogOutput, String, bool), u32> = HashMap::new();
        for listener in &config.listeners {
            listeners.push(self.end(&listener.access_log, listener.protocol, &mut outputs)?);
            if listener.routes.iter().all(|route| route.access_log.own().is_none()) {
                places.push(Arc::default());
                continue;
            }
            let mut of_listener = vec![None; listener.routes.len()];
            for (place, route) in of_listener.iter_mut().zip(&listener.routes) {
                let Some(log) = route.access_log.own() else { continue };
                let Some(format) = &log.format else { continue };
                let key = (&log.output, format.to_string(), listener.protocol.routes_requests());
                *place = known.get(&key).copied();
                if place.is_none()
                    && let Some(end) = self.end(log, listener.protocol, &mut outputs)?
                {
                    let at = u32::try_from(routes.len()).expect("there are fewer routes than that");
                    routes.push(end);
                    known.insert(key, at);
                    *place = Some(at);
                }
            }
            places.push(of_listener.into());
        }
        (self.listeners, self.routes, self.places, self.outputs) = (listeners, routes, places, outputs);
        self.opened.clear();
        Ok(())
    }

    /// Where the lines of `log` go: to a writer of `outputs`, which gets one that runs already, or else a new one.
    fn end(
        &mut self,
        log: &AccessLog,
        protocol: ListenerProtocol,
        outputs: &mut Outputs,
    ) -> io::Result<Option<LogEnd>> {
        let Some(format) = &log.format else { return Ok(None) };
        let known = outputs.get(&log.output).or_else(|| self.known(log));
        let output = match known {
            Some(output) => Arc::clone(output),
            None => {
                let destination = match self.opened.remove(&log.output) {
                    Some(opened) => opened,
                    None => LogDestination::open(&log.output)?,
                };
                start((&log.output, destination), log.lines_max, self.writing.clone())?
            }
        };
        outputs.insert(log.output.clone(), Arc::clone(&output));
        let format = if protocol.routes_requests() {
            format.format().clone()
        } else {
            format.format().of_connections()
        };
        Ok(Some((Arc::new(format), output)))
    }

    /// The output of before that takes the lines of `log`.
    fn known(&self, log: &AccessLog) -> Option<&Arc<LogOutput>> {
        self.outputs.get(&log.output).filter(|output| output.lines_max == log.lines_max)
    }

    /// One worker's ends.
    pub(crate) fn for_worker(&self, shard: &Arc<weir_observe::WorkerShard>) -> WorkerLogs {
        let end = |(format, output): &LogEnd| LogBatches::new(format, output, shard);
        WorkerLogs {
            listeners: self.listeners.iter().map(|log| log.as_ref().map(end)).collect(),
            routes: self.routes.iter().map(end).collect(),
            places: self.places.clone(),
        }
    }

    /// Opens log files again, as after they were renamed by a log rotation.
    pub(crate) fn reopen(&self) {
        for output in self.outputs.values() {
            let _writer_gone = output.sender.send(LogMessage::Reopen);
        }
    }

    /// Waits until every line of the workers, which are gone, is written, but neither for an output that takes none nor for a worker
    /// that is stuck.
    pub(crate) fn close(self) {
        drop((self.listeners, self.routes));
        drop(self.outputs);
        drop(self.writing);
        if let Err(RecvTimeoutError::Timeout) = self.finished.recv_timeout(CLOSE_TIME) {
            tracing::warn!(
                "the last lines of the access log are lost: its output takes none, or a worker is stuck"
            );
        }
    }
}

/// Opens the files that the config names, and gives those that are new to the user that the process becomes, which opens them again after a
/// rotation.
///
/// # Errors
/// When one cannot be opened; the message names it.
pub(crate) fn open(config: &Config) -> io::Result<OpenedLogs> {
    let mut opened = OpenedLogs::new();
    let account = config.identity.account.as_ref().filter(|_| rustix::process::geteuid().is_root());
    for log in config.access_logs() {
        let AccessLogOutput::File(path) = &log.output else { continue };
        if opened.contains_key(&log.output) {
            continue;
        }
        let is_new = !path.exists();
        let file = open_file(path)?;
        if let Some(account) = account.filter(|_| is_new) {
            let uid = account.user.as_ref().map(|(_, uid)| *uid);
            std::os::unix::fs::fchown(&file, uid, Some(account.group))?;
        }
        opened.insert(log.output.clone(), LogDestination::of_file(path, file));
    }
    Ok(opened)
}

/// Starts a writer, which holds `writing` until it has finished.
fn start(
    (output, mut destination): (&AccessLogOutput, LogDestination),
    lines_max: usize,
    writing: Sender<Infallible>,
) -> io::Result<Arc<LogOutput>> {
    let (sender, receiver) = channel();
    let progress = Arc::new(LogProgress::default());
    let name = output.to_string();
    let output = Arc::new(LogOutput { sender, progress: Arc::clone(&progress), lines_max });
    std::thread::Builder::new().name("weir-access-log".into()).spawn(move || {
        let _registration = threads::register();
        weir_tasks::keep_thread("the writer of an access log", || {
            write_all(&receiver, (&name, &mut destination), &progress);
        });
        drop(writing);
    })?;
    Ok(output)
}

/// Where lines go.
pub(crate) enum LogDestination {
    Stdout(WholeLines),
    Stderr(WholeLines),
    File { path: PathBuf, file: File, lines: WholeLines },
    SyslogUnix { path: PathBuf, socket: UnixDatagram, framing: SyslogFraming },
    SyslogUdp { socket: UdpSocket, framing: SyslogFraming },
}

impl LogDestination {
    fn of_file(path: &Path, file: File) -> Self {
        Self::File { path: path.to_owned(), file, lines: WholeLines::default() }
    }

    fn open(output: &AccessLogOutput) -> io::Result<Self> {
        Ok(match output {
            AccessLogOutput::Stdout => Self::Stdout(WholeLines::default()),
            AccessLogOutput::Stderr => Self::Stderr(WholeLines::default()),
            AccessLogOutput::File(path) => Self::of_file(path, open_file(path)?),
            AccessLogOutput::SyslogUnix(path) => {
                let socket = UnixDatagram::unbound()?;
                // The log daemon may come up later than Weir: a datagram that cannot be sent is dropped and counted.
                let _not_there_yet = socket.connect(path);
                Self::SyslogUnix { path: path.clone(), socket, framing: framing() }
            }
            AccessLogOutput::SyslogUdp(addr) => {
                let any = if addr.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
                let socket = UdpSocket::bind(any)?;
                socket.connect(addr)?;
                Self::SyslogUdp { socket, framing: framing() }
            }
        })
    }

    fn write(&mut self, batch: &Batch, datagram: &mut Vec<u8>) -> Result<(), Lost> {
        // What of a line was written before a failure is no line.
        let lost = |(written, error): (usize, io::Error)| Lost {
            lines: batch.ends.iter().filter(|end| **end > written).count(),
            error,
        };
        match self {
            Self::Stdout(lines) => lines.write_to(&io::stdout(), &batch.text).map_err(lost),
            Self::Stderr(lines) => lines.write_to(&io::stderr(), &batch.text).map_err(lost),
            Self::File { file, lines, .. } => lines.write_to(file, &batch.text).map_err(lost),
            Self::SyslogUnix { path, socket, framing } => {
                each_datagram(batch, framing, datagram, |datagram| {
                    if socket.send(datagram).is_err() {
                        // The daemon was restarted: its socket is a new one.
                        socket.connect(&*path)?;
                        socket.send(datagram)?;
                    }
                    Ok(())
                })
            }
            Self::SyslogUdp { socket, framing } => {
                each_datagram(batch, framing, datagram, |datagram| socket.send(datagram).map(|_| ()))
            }
        }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let Self::File { path, file, lines } = self {
            let opened = open_file(path)?;
            // A rotation by a copy leaves the same file, without what was in it.
            lines.begin_other(file, &opened);
            *file = opened;
        }
        Ok(())
    }
}

fn open_file(path: &PathBuf) -> io::Result<File> {
    // Opening a FIFO for writing alone blocks until a process reads it.
    let is_fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    OpenOptions::new().create(true).append(true).read(is_fifo).open(path).map_err(|error| {
        let why = privileges::why_refused(path).filter(|_| error.kind() == io::ErrorKind::PermissionDenied);
        let why = why.map(|why| format!(" ({why})")).unwrap_or_default();
        io::Error::new(error.kind(), format!("access log {}: {error}{why}", path.display()))
    })
}

fn framing() -> SyslogFraming {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    SyslogFraming::new(Facility::Local0, &host, "weir", std::process::id(), "access")
}

/// Lines of a batch that were not written, or not in full, and why.
struct Lost {
    lines: usize,
    error: io::Error,
}

/// Sends every line, also after one that could not be sent.
fn each_datagram(
    batch: &Batch,
    framing: &SyslogFraming,
    datagram: &mut Vec<u8>,
    mut send: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Lost> {
    let mut lost: Option<Lost> = None;
    let now = UnixMicros(u64::try_from(clock::unix_now().as_micros()).unwrap_or(u64::MAX));
    let mut start = 0;
    for &end in &batch.ends {
        datagram.clear();
        framing.frame(Severity::Informational, now, batch.text[start..end].trim_ascii_end(), datagram);
        if let Err(error) = send(datagram) {
            let lines = lost.map_or(0, |lost| lost.lines) + 1;
            lost = Some(Lost { lines, error });
        }
        start = end;
    }
    lost.map_or(Ok(()), Err)
}

/// The lines of a batch that is being written: they wait until then, and are lost when that panics.
struct LinesInHand<'a> {
    progress: &'a LogProgress,
    lines: usize,
}

impl Drop for LinesInHand<'_> {
    fn drop(&mut self) {
        self.progress.waiting.fetch_sub(self.lines, Ordering::Relaxed);
        if std::thread::panicking() {
            self.progress.lost.fetch_add(self.lines as u64, Ordering::Relaxed);
        }
    }
}

/// Writes until the last sender is gone. Trouble is logged at most once a second.
fn write_all(
    receiver: &Receiver<LogMessage>,
    (name, destination): (&str, &mut LogDestination),
    progress: &LogProgress,
) {
    let mut datagram = Vec::new();
    let mut complained = None;
    while let Ok(message) = receiver.recv() {
        let outcome = match message {
            LogMessage::Lines(batch) => {
                let in_hand = LinesInHand { progress, lines: batch.ends.len() };
                faults::strike_control(ControlFault::AccessLog);
                let outcome = destination.write(&batch, &mut datagram);
                drop(in_hand);
                outcome.map_err(|Lost { lines, error }| {
                    progress.lost.fetch_add(lines as u64, Ordering::Relaxed);
                    error
                })
            }
            LogMessage::Reopen => destination.reopen(),
        };
        if let Err(error) = outcome {
            let now = clock::now();
            if complained.is_none_or(|before| now.saturating_duration_since(before) >= Duration::from_secs(1))
            {
                complained = Some(now);
                tracing::error!(output = name, %error, "the access log cannot be written");
            }
        }
    }
}
