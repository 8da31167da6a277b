//! The access log: lines rendered by the workers, written by a thread of its own.
//!
//! A worker appends lines to a batch and hands full batches over without waiting. When the writer is behind by more than
//! the limit, and when a line cannot be written, it is dropped and counted. A full disk or a slow syslog stops neither
//! traffic nor the end of the process.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::UdpSocket;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use weir_config::{AccessLog, AccessLogOutput, Config, Protocol};
use weir_http::{ResponseHead, Version};
use weir_observe::access_log::syslog::{Facility, Framing, Severity};
use weir_observe::access_log::{ExchangeRecord, FieldSource, Load, LogFormat, TlsRecord, UnixMicros};

use crate::net::clock;
use crate::control::profile::threads;
use crate::downstream::session::Session;
use crate::net::peer::Peer;
use crate::exchange::Exchange;
use crate::state::view::View;

/// A batch goes to the writer when it is this large, or when the worker sweeps.
const BATCH_BYTES: usize = 32 * 1024;

/// How long the end of the process waits for all writers to finish.
const CLOSE_TIME: Duration = Duration::from_secs(2);

/// Lines on their way to the writer.
struct Batch {
    text: Vec<u8>,
    /// Where each line ends.
    ends: Vec<usize>,
}

/// What the writer is told.
enum Message {
    Lines(Batch),
    /// Open files again, under the same name.
    Reopen,
}

/// The writer of one output, shared by every listener that logs there.
#[derive(Debug)]
struct Output {
    sender: Sender<Message>,
    /// Shared with the writer, which must not hold the sender.
    progress: Arc<Progress>,
    lines_max: usize,
}

/// How far a writer has come.
#[derive(Debug, Default)]
struct Progress {
    /// Lines handed over and not yet written.
    waiting: AtomicUsize,
    /// Lines that could not be written and that no worker has counted yet.
    lost: AtomicU64,
}

/// One worker's end of the access log of one listener.
pub(crate) struct LogBatches {
    format: Arc<LogFormat>,
    output: Arc<Output>,
    batch: RefCell<Batch>,
    shard: Arc<weir_observe::WorkerShard>,
}

/// The writers that run.
type Outputs = HashMap<AccessLogOutput, Arc<Output>>;

/// All access logs of the process.
pub(crate) struct AccessLogs {
    listeners: Vec<Option<(Arc<LogFormat>, Arc<Output>)>>,
    outputs: Outputs,
    /// Held by every writer until it has finished.
    writing: Sender<Infallible>,
    /// Says nothing, and is disconnected when the last writer has finished.
    finished: Receiver<Infallible>,
}

impl AccessLogs {
    /// Opens the outputs that the config names and starts a writer for each.
    ///
    /// # Errors
    /// When an output cannot be opened; the message names it.
    pub(crate) fn open(config: &Config) -> io::Result<Self> {
        let (writing, finished) = channel();
        let mut logs = Self { listeners: Vec::new(), outputs: Outputs::new(), writing, finished };
        logs.follow(config)?;
        Ok(logs)
    }

    /// Opens what the next config names besides. The outputs of before stay open as long as it names them, and their writers end when the
    /// last worker has let go of them.
    ///
    /// # Errors
    /// As [`AccessLogs::open`]; then nothing has changed.
    pub(crate) fn follow(&mut self, config: &Config) -> io::Result<()> {
        let mut outputs = Outputs::new();
        let mut listeners = Vec::new();
        for listener in &config.listeners {
            let log = &listener.access_log;
            let Some(format) = &log.format else {
                listeners.push(None);
                continue;
            };
            let known = outputs.get(&log.output).or_else(|| self.known(log));
            let output = match known {
                Some(output) => Arc::clone(output),
                None => start(&log.output, log.lines_max, self.writing.clone())?,
            };
            outputs.insert(log.output.clone(), Arc::clone(&output));
            let format = match listener.protocol {
                Protocol::Http => format.format().clone(),
                Protocol::Tcp => format.format().of_connections(),
            };
            listeners.push(Some((Arc::new(format), output)));
        }
        (self.listeners, self.outputs) = (listeners, outputs);
        Ok(())
    }

    /// The output of before that takes the lines of `log`.
    fn known(&self, log: &AccessLog) -> Option<&Arc<Output>> {
        self.outputs.get(&log.output).filter(|output| output.lines_max == log.lines_max)
    }
    /// One worker's ends, one for each listener that logs.
    pub(crate) fn for_worker(&self, shard: &Arc<weir_observe::WorkerShard>) -> Vec<Option<LogBatches>> {
        let end = |(format, output): &(Arc<LogFormat>, Arc<Output>)| LogBatches {
            format: Arc::clone(format),
            output: Arc::clone(output),
            batch: RefCell::new(Batch { text: Vec::new(), ends: Vec::new() }),
            shard: Arc::clone(shard),
        };
        self.listeners.iter().map(|log| log.as_ref().map(end)).collect()
    }

    /// Opens log files again, as after they were renamed by a log rotation.
    pub(crate) fn reopen(&self) {
        for output in self.outputs.values() {
            let _writer_gone = output.sender.send(Message::Reopen);
        }
    }

    /// Waits until every line of the workers, which are gone, is written, but neither for an output that takes none nor for a worker
    /// that is stuck.
    pub(crate) fn close(self) {
        drop(self.listeners);
        drop(self.outputs);
        drop(self.writing);
        if let Err(RecvTimeoutError::Timeout) = self.finished.recv_timeout(CLOSE_TIME) {
            tracing::warn!(
                "the last lines of the access log are lost: its output takes none, or a worker is stuck"
            );
        }
    }
}

/// Starts a writer, which holds `writing` until it has finished.
fn start(to: &AccessLogOutput, lines_max: usize, writing: Sender<Infallible>) -> io::Result<Arc<Output>> {
    let mut destination = Destination::open(to)?;
    let (sender, receiver) = channel();
    let progress = Arc::new(Progress::default());
    let output = Arc::new(Output { sender, progress: Arc::clone(&progress), lines_max });
    std::thread::Builder::new().name("weir-access-log".into()).spawn(move || {
        let _enrolled = threads::enrol();
        write_all(&receiver, &mut destination, &progress);
        drop(writing);
    })?;
    Ok(output)
}

impl LogBatches {
    /// Whether its lines show where the client connected to.
    pub(crate) fn shows_local(&self) -> bool {
        self.format.shows_local()
    }

    /// Hands the lines gathered so far to the writer.
    pub(crate) fn flush(&self) {
        let progress = &self.output.progress;
        let lost = progress.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.shard.log_lines_dropped.add(lost);
        }
        let mut batch = self.batch.borrow_mut();
        if batch.ends.is_empty() {
            return;
        }
        let lines = batch.ends.len();
        if progress.waiting.load(Ordering::Relaxed) + lines > self.output.lines_max {
            self.shard.log_lines_dropped.add(lines as u64);
            batch.text.clear();
            batch.ends.clear();
            return;
        }
        progress.waiting.fetch_add(lines, Ordering::Relaxed);
        let full = std::mem::replace(&mut *batch, Batch { text: Vec::new(), ends: Vec::new() });
        let _writer_gone = self.output.sender.send(Message::Lines(full));
    }
}

/// Writes the line of an exchange, if its listener logs.
pub(crate) fn write(session: &Session, exchange: &Exchange, view: &View) {
    let log = session.listener.log();
    let Some(log) = &*log else { return };
    let full = {
        let mut batch = log.batch.borrow_mut();
        let Batch { text, ends } = &mut *batch;
        with_record(session, exchange, view, |record| log.format.render(record, text));
        ends.push(text.len());
        text.len() >= BATCH_BYTES
    };
    if full {
        log.flush();
    }
}

/// The fields of both heads, for formats that name some.
struct Heads<'a> {
    exchange: &'a Exchange,
}

impl FieldSource for Heads<'_> {
    fn request_field(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.request_text[..];
        self.exchange.request.fields().get_by_name(text, name).map(|field| field.value.of(text))
    }

    fn response_field(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.response_text[..];
        let response: &ResponseHead = &self.exchange.response;
        response.fields().get_by_name(text, name).map(|field| field.value.of(text))
    }
}

fn with_record(
    session: &Session,
    exchange: &Exchange,
    view: &View,
    render: impl FnOnce(&ExchangeRecord<'_>),
) {
    let snapshot = &view.snapshot;
    let record = &exchange.record;
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let listener = &snapshot.listeners[record.listener()];
    let upstream =
        record.upstream.zip(record.served()).map(|(index, served)| &served.snapshot.upstreams[index]);
    let server = upstream.zip(record.server).map(|(upstream, index)| &*upstream.config.servers[index].name);
    let address = |peer: Peer| match peer {
        Peer::Inet(addr) => Some(addr),
        Peer::Unix => None,
    };
    // A request whose head could not be read has nothing to show but what its failure says.
    let whole = !text.is_empty();
    let client = address(session.peer).map(|client| match whole {
        true => {
            (crate::exchange::forwarded::client_address(session, exchange, listener), client.port()).into()
        }
        false => client,
    });
    let ago = clock::now().saturating_duration_since(record.began);
    let began = clock::unix_now().saturating_sub(ago);
    let identity = session.certificate().map(|certificate| &certificate.identity);
    let trace_id = record.trace.id_digits();
    let head = |span: weir_http::TextSpan| if whole { span.of(text) } else { &[] };
    render(&ExchangeRecord {
        time: UnixMicros(u64::try_from(began.as_micros()).unwrap_or(u64::MAX)),
        listener: &listener.config.name,
        client,
        peer: address(session.sender()),
        local: session.local.as_deref().copied(),
        exchange_number: session.requests,
        method: head(request.method_span()),
        target: head(request.target()),
        version: if !whole {
            b""
        } else if request.version() == Version::Http10 {
            b"HTTP/1.0"
        } else {
            b"HTTP/1.1"
        },
        host: if whole { request.authority().of(text) } else { b"" },
        request_id: &record.request_id,
        trace_id: trace_id.as_ref().map_or(b"", |digits| digits.as_slice()),
        fields: &Heads { exchange },
        status: (record.status != 0).then_some(record.status),
        failure: record.failure,
        bytes_in: record.bytes_in,
        bytes_out: exchange.to_client.sent,
        body_bytes_in: record.tunnelled.map_or(exchange.request_body.received(), |(up, _)| up),
        body_bytes_out: record.body_bytes_out(exchange.response_relay.moved),
        route: record.route.map_or("", |index| &listener.route_plans[index].config.name),
        upstream: upstream.map_or("", |upstream| &upstream.config.name),
        server: server.unwrap_or(""),
        attempts: record.attempts,
        reused: (record.attempts > 0).then_some(record.reused),
        queue_position: record.queue_position,
        kept: record.kept,
        tls: session.client.tls.as_ref().map(|tls| TlsRecord {
            client_subject: identity.map_or("", |identity| &identity.subject),
            client_fingerprint: identity.map_or("", |identity| &identity.fingerprint),
            ..tls.record()
        }),
        ended_by: record.ended_by,
        phases: record.times,
        load: load(session, exchange),
    });
}

fn load(session: &Session, exchange: &Exchange) -> Load {
    let shared = &session.worker.shared;
    let process = shared.loads.iter().map(|load| load.0.load(Ordering::Relaxed)).sum();
    let listener = session.listener.state.connections.count();
    let served = exchange.record.upstream.zip(exchange.record.served());
    let states =
        served.map_or(&[][..], |(index, served)| served.snapshot.upstreams[index].balancer().states());
    Load {
        process,
        listener,
        upstream: states.iter().map(|state| state.in_flight()).sum(),
        server: exchange
            .record
            .server
            .and_then(|index| states.get(index))
            .map_or(0, |state| state.in_flight()),
    }
}

/// Where lines go.
enum Destination {
    Stdout,
    Stderr,
    File { path: PathBuf, file: File },
    SyslogUnix { path: PathBuf, socket: UnixDatagram, framing: Framing },
    SyslogUdp { socket: UdpSocket, framing: Framing },
}

impl Destination {
    fn open(output: &AccessLogOutput) -> io::Result<Self> {
        Ok(match output {
            AccessLogOutput::Stdout => Self::Stdout,
            AccessLogOutput::Stderr => Self::Stderr,
            AccessLogOutput::File(path) => Self::File { path: path.clone(), file: open_file(path)? },
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
        let whole = |error| Lost { lines: batch.ends.len(), error };
        match self {
            Self::Stdout => io::stdout().lock().write_all(&batch.text).map_err(whole),
            Self::Stderr => io::stderr().lock().write_all(&batch.text).map_err(whole),
            Self::File { file, .. } => file.write_all(&batch.text).map_err(whole),
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
        if let Self::File { path, file } = self {
            *file = open_file(path)?;
        }
        Ok(())
    }
}

fn open_file(path: &PathBuf) -> io::Result<File> {
    // A FIFO opened for writing alone waits for somebody who reads it.
    let is_fifo = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo());
    OpenOptions::new()
        .create(true)
        .append(true)
        .read(is_fifo)
        .open(path)
        .map_err(|error| io::Error::new(error.kind(), format!("access log {}: {error}", path.display())))
}

fn framing() -> Framing {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Framing::new(Facility::Local0, &host, "weir", std::process::id(), "access")
}

/// Lines of a batch that were not written, or not in full, and why.
struct Lost {
    lines: usize,
    error: io::Error,
}

/// Sends every line, also after one that could not be sent.
fn each_datagram(
    batch: &Batch,
    framing: &Framing,
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

/// Writes until the last sender is gone. Trouble is logged at most once a second.
fn write_all(receiver: &Receiver<Message>, destination: &mut Destination, progress: &Progress) {
    let mut datagram = Vec::new();
    let mut complained = None;
    while let Ok(message) = receiver.recv() {
        let outcome = match message {
            Message::Lines(batch) => {
                let outcome = destination.write(&batch, &mut datagram);
                progress.waiting.fetch_sub(batch.ends.len(), Ordering::Relaxed);
                outcome.map_err(|Lost { lines, error }| {
                    progress.lost.fetch_add(lines as u64, Ordering::Relaxed);
                    error
                })
            }
            Message::Reopen => destination.reopen(),
        };
        if let Err(error) = outcome {
            let now = clock::now();
            if complained.is_none_or(|before| now.saturating_duration_since(before) >= Duration::from_secs(1))
            {
                complained = Some(now);
                tracing::error!(%error, "the access log cannot be written");
            }
        }
    }
}
