//! One connection of a client: sends requests on streams and checks every answer, as `http2::client` does.
//!
//! Takes what has come and never waits, except for `ask`. When requests begin is the business of the driver.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, Event, ReadError, StreamEvent, StreamId,
    Transmit, VarInt,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::answer::AnswerReader;
use super::request::Http3Request;
use super::setup::Http3Setup;
use super::socket::{ClientSocket, ReceiveBuffers};
use crate::clock;
use crate::load::exchange::ExpectedBody;
use crate::load::fault::LoadFault;
use crate::load::http2::client::StreamResult;
use crate::load::seen::SeenAnswer;
use crate::wire::http3::{self, code, kind, stream};

/// Packets are made for so many calls before others have their turn.
const SENDS_MAX: usize = 16;

/// Calls that receive before others have their turn.
const RECEIVES_MAX: usize = 4;

/// How soon to try again when the kernel took no packet.
const BLOCKED: Duration = Duration::from_micros(200);

/// Longest head of a frame, or frame of the target's control stream, that matters here, in bytes.
const CONTROL_MAX: usize = 4096;

/// When a request was to begin and when it did, ns since the start of its run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestTimes {
    /// Its intended start.
    pub due: u64,
    /// Its real start.
    pub began: u64,
    /// By which its driver knows it.
    pub tag: u64,
}

/// A request that is over.
#[derive(Debug, PartialEq, Eq)]
pub struct EndedStream {
    /// When it began.
    pub times: RequestTimes,
    /// How it ended.
    pub result: StreamResult,
    /// What was seen of an answer that is not known.
    pub seen: SeenAnswer,
}

/// A request whose answer is not complete.
#[derive(Debug)]
struct OpenStream {
    times: RequestTimes,
    /// What has not been handed to QUIC: head and body.
    unsent: [Bytes; 2],
    is_finished: bool,
    expected: ExpectedBody,
    answer: AnswerReader,
}

/// A stream that the target has opened.
#[derive(Debug, Default)]
struct TargetStream {
    /// Its kind, once it has come.
    kind: Option<u64>,
    /// What was not read yet of a control stream.
    received: Vec<u8>,
}

/// See the module.
pub struct Http3Client {
    socket: ClientSocket,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    open: HashMap<StreamId, OpenStream>,
    of_target: HashMap<StreamId, TargetStream>,
    is_connected: bool,
    /// The first stream that the target will not process, once it says so.
    last_id: Option<u64>,
    closed: Option<LoadFault>,
    /// When it has something to do without being asked.
    deadline: Option<Instant>,
    /// Packets that the kernel did not take.
    blocked: Option<Transmit>,
    packets: Vec<u8>,
    ended: Vec<EndedStream>,
}

impl Http3Client {
    /// Begins to connect.
    ///
    /// # Errors
    /// When there is no socket.
    pub fn connect(target: SocketAddr, setup: &Http3Setup) -> Result<Self, LoadFault> {
        let socket = ClientSocket::open(target).map_err(|error| LoadFault::Connect(error.to_string()))?;
        let mut endpoint =
            Endpoint::new(std::sync::Arc::clone(&setup.endpoint), None, socket.may_try_sizes(), None);
        let (handle, connection) = endpoint
            .connect(clock::now(), setup.client.clone(), target, &setup.name)
            .map_err(|error| LoadFault::Connect(error.to_string()))?;
        let mut client = Self {
            socket,
            endpoint,
            handle,
            connection,
            open: HashMap::new(),
            of_target: HashMap::new(),
            is_connected: false,
            last_id: None,
            closed: None,
            deadline: None,
            blocked: None,
            packets: Vec::new(),
            ended: Vec::new(),
        };
        client.flush();
        Ok(client)
    }

    /// Requests whose answers are not complete.
    pub fn active(&self) -> usize {
        self.open.len()
    }

    /// Whether the handshake is over.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether it takes further requests, now or once it is connected.
    pub fn takes_requests(&self) -> bool {
        self.last_id.is_none() && self.closed.is_none()
    }

    /// Why it is over.
    pub fn closed(&self) -> Option<&LoadFault> {
        self.closed.as_ref()
    }

    /// When it has something to do without being asked.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// When the oldest of its requests began.
    pub fn oldest(&self) -> Option<u64> {
        self.open.values().map(|request| request.times.began).min()
    }

    /// Begins `request`, which goes out with the next `flush`; false when it takes none now.
    pub fn begin(&mut self, request: &Http3Request, times: RequestTimes) -> bool {
        if !self.is_connected || !self.takes_requests() {
            return false;
        }
        let Some(id) = self.connection.streams().open(Dir::Bi) else { return false };
        let begun = OpenStream {
            times,
            unsent: [request.head.clone(), request.body.clone()],
            is_finished: false,
            expected: request.expected.clone(),
            answer: AnswerReader::default(),
        };
        self.open.insert(id, begun);
        self.write(id);
        true
    }

    /// Takes what has come.
    pub fn receive(&mut self, buffers: &mut ReceiveBuffers) {
        for _ in 0..RECEIVES_MAX {
            let (now, handle) = (clock::now(), self.handle);
            let (endpoint, connection, packets) =
                (&mut self.endpoint, &mut self.connection, &mut self.packets);
            let received = self.socket.receive(buffers, |from, ecn, datagram| {
                match endpoint.handle(now, from, None, ecn, datagram, packets) {
                    Some(DatagramEvent::ConnectionEvent(to, event)) if to == handle => {
                        connection.handle_event(event);
                    }
                    // What belongs to no connection is not answered.
                    _ => packets.clear(),
                }
            });
            match received {
                Ok(true) => self.advance(),
                Ok(false) => return,
                Err(error) => return self.end(&self.fault_of(&error)),
            }
        }
    }

    /// Does what is due by time alone.
    pub fn on_time(&mut self, now: Instant) {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.connection.handle_timeout(now);
            self.advance();
        }
    }

    /// Sends what is to be sent.
    pub fn flush(&mut self) {
        let now = clock::now();
        for _ in 0..SENDS_MAX {
            let transmit = match self.blocked.take() {
                Some(transmit) => transmit,
                None => {
                    self.packets.clear();
                    let segments = self.socket.segments_max(self.connection.current_mtu());
                    match self.connection.poll_transmit(now, segments, &mut self.packets) {
                        Some(transmit) => transmit,
                        None => {
                            self.deadline = self.connection.poll_timeout();
                            return;
                        }
                    }
                }
            };
            match self.socket.send(&transmit, &self.packets[..transmit.size]) {
                Ok(true) => {}
                Ok(false) => {
                    self.blocked = Some(transmit);
                    self.deadline = Some(now + BLOCKED);
                    return;
                }
                Err(error) => return self.end(&self.fault_of(&error)),
            }
        }
        self.deadline = Some(now);
    }

    /// Says that it is over.
    pub fn close(&mut self) {
        self.connection.close(clock::now(), VarInt::from_u32(code::NO_ERROR), Bytes::new());
        self.flush();
    }

    /// The requests that are over since the last call.
    pub fn ended(&mut self) -> impl Iterator<Item = EndedStream> {
        self.ended.drain(..)
    }

    /// Ends the requests that began before `began`.
    pub fn give_up_before(&mut self, began: u64) {
        let late = |(id, request): (&StreamId, &OpenStream)| (request.times.began < began).then_some(*id);
        let ids: Vec<StreamId> = self.open.iter().filter_map(late).collect();
        for id in ids {
            self.finish(id, StreamResult::Failed(LoadFault::Timeout));
        }
    }

    /// Ends all requests with `fault`, and the connection.
    pub fn give_up(&mut self, fault: &LoadFault) {
        self.end(fault);
        self.close();
    }

    /// Sends `request`, waits for its answer, at most for `limit`, and closes.
    ///
    /// # Errors
    /// The fault of the exchange.
    pub fn ask(mut self, request: &Http3Request, limit: Duration) -> Result<(), LoadFault> {
        let result = self.exchange(request, limit);
        self.close();
        result
    }

    fn exchange(&mut self, request: &Http3Request, limit: Duration) -> Result<(), LoadFault> {
        let (mut buffers, deadline) = (ReceiveBuffers::empty(), clock::now() + limit);
        let mut has_begun = false;
        loop {
            has_begun = has_begun || self.begin(request, RequestTimes::default());
            self.flush();
            if let Some(ended) = self.ended.pop() {
                return match ended.result {
                    StreamResult::Answered => Ok(()),
                    StreamResult::Unprocessed => Err(LoadFault::StreamReset(code::REQUEST_REJECTED)),
                    StreamResult::Failed(fault) => Err(fault),
                };
            }
            let now = clock::now();
            if let Some(fault) = &self.closed {
                return Err(fault.clone());
            }
            if now >= deadline {
                return Err(LoadFault::Timeout);
            }
            let until = self.deadline.map_or(deadline, |own| own.min(deadline));
            let wait = Timespec::try_from(until.saturating_duration_since(now));
            let wait = wait.map_err(|_| LoadFault::Timeout)?;
            let _events = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&wait));
            self.receive(&mut buffers);
            self.on_time(clock::now());
        }
    }
}

/// Events of QUIC.
impl Http3Client {
    /// Handles what has happened.
    fn advance(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => self.open_control(),
                Event::ConnectionLost { reason } => {
                    let reason = reason.to_string();
                    self.end(&match self.is_connected {
                        true => LoadFault::Reset(reason),
                        false => LoadFault::Connect(reason),
                    });
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id),
                Event::Stream(StreamEvent::Writable { id }) => self.write(id),
                // It has read enough of the request; what it makes of that is in its answer.
                Event::Stream(StreamEvent::Stopped { id, .. }) => self.give_up_body(id),
                Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                    while let Some(id) = self.connection.streams().accept(Dir::Uni) {
                        self.of_target.insert(id, TargetStream::default());
                        self.read(id);
                    }
                }
                _ => {}
            }
        }
    }

    /// The control stream, which is never finished, with the settings: no dynamic table.
    fn open_control(&mut self) {
        self.is_connected = true;
        let Some(id) = self.connection.streams().open(Dir::Uni) else {
            return self.end(&LoadFault::Malformed("a client opens a control stream".to_owned()));
        };
        let mut first = Vec::new();
        http3::write_integer(&mut first, stream::CONTROL);
        http3::write_frame_head(&mut first, kind::SETTINGS, 0);
        // Some bytes always fit.
        let _written = self.connection.send_stream(id).write(&first);
    }

    /// Hands the rest of a request to QUIC, as far as there is room.
    fn write(&mut self, id: StreamId) {
        let Some(request) = self.open.get_mut(&id).filter(|request| !request.is_finished) else { return };
        let mut to = self.connection.send_stream(id);
        while request.unsent.iter().any(|part| !part.is_empty()) {
            // A part is cut off where it was taken in part.
            if to.write_chunks(&mut request.unsent).is_err() {
                return;
            }
        }
        request.is_finished = to.finish().is_ok();
    }

    /// Sends no more of a request.
    fn give_up_body(&mut self, id: StreamId) {
        if let Some(request) = self.open.get_mut(&id).filter(|request| !request.is_finished) {
            request.unsent = Default::default();
            request.is_finished = true;
            let _closed = self.connection.send_stream(id).reset(VarInt::from_u32(code::NO_ERROR));
        }
    }

    /// Reads what has come on a stream.
    fn read(&mut self, id: StreamId) {
        if id.dir() == Dir::Uni {
            return self.read_of_target(id);
        }
        let Some(request) = self.open.get_mut(&id) else { return };
        let mut from = self.connection.recv_stream(id);
        let Ok(mut chunks) = from.read(true) else { return };
        let result = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if let Err(fault) = request.answer.feed(&chunk.bytes, &request.expected) {
                        break Some(StreamResult::Failed(fault));
                    }
                }
                Ok(None) => {
                    break Some(match request.answer.end(&request.expected) {
                        Ok(()) => StreamResult::Answered,
                        Err(fault) => StreamResult::Failed(fault),
                    });
                }
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(reset)) => {
                    let reset = u32::try_from(reset.into_inner()).unwrap_or(u32::MAX);
                    break Some(match reset {
                        code::REQUEST_REJECTED => StreamResult::Unprocessed,
                        reset => StreamResult::Failed(LoadFault::StreamReset(reset)),
                    });
                }
            }
        };
        // What it says is sent with all else.
        let _window = chunks.finalize();
        if let Some(result) = result {
            self.finish(id, result);
        }
    }

    /// A request is over.
    fn finish(&mut self, id: StreamId, result: StreamResult) {
        if result != StreamResult::Answered {
            let _already_over =
                self.connection.recv_stream(id).stop(VarInt::from_u32(code::REQUEST_CANCELLED));
        }
        self.give_up_body(id);
        if let Some(request) = self.open.remove(&id) {
            self.ended.push(EndedStream { times: request.times, result, seen: request.answer.into_seen() });
        }
    }

    /// Reads a stream that the target has opened; of that of QPACK nothing matters to a client without a table.
    fn read_of_target(&mut self, id: StreamId) {
        let Some(opened) = self.of_target.get_mut(&id) else { return };
        let mut from = self.connection.recv_stream(id);
        let Ok(mut chunks) = from.read(true) else { return };
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            if opened.kind.is_none_or(|kind| kind == stream::CONTROL) {
                opened.received.extend_from_slice(&chunk.bytes);
            }
            if let (None, Some((kind, rest))) = (opened.kind, http3::integer(&opened.received)) {
                opened.kind = Some(kind);
                opened.received = rest.to_vec();
            }
        }
        let _window = chunks.finalize();
        if opened.kind == Some(stream::CONTROL) {
            self.read_control(id);
        } else if opened.kind == Some(stream::PUSH) {
            self.end(&LoadFault::Malformed("there is no push without its permission".to_owned()));
        }
    }

    fn read_control(&mut self, id: StreamId) {
        let Some(control) = self.of_target.get_mut(&id) else { return };
        let received = std::mem::take(&mut control.received);
        let mut rest = &received[..];
        while let Some((frame, len, after)) = http3::frame_head(rest) {
            let Some((payload, more)) = after.split_at_checked(len as usize) else { break };
            rest = more;
            if let (kind::GOAWAY, Some((first, _))) = (frame, http3::integer(payload)) {
                self.last_id = Some(first);
            }
        }
        if rest.len() > CONTROL_MAX {
            return self.end(&LoadFault::Malformed("a control frame over 4 KiB".to_owned()));
        }
        control.received = rest.to_vec();
        let Some(first) = self.last_id else { return };
        let unprocessed: Vec<StreamId> =
            self.open.keys().copied().filter(|id| VarInt::from(*id).into_inner() >= first).collect();
        for id in unprocessed {
            self.finish(id, StreamResult::Unprocessed);
        }
    }

    /// The connection is over, and all that was open on it failed.
    fn end(&mut self, fault: &LoadFault) {
        self.closed.get_or_insert_with(|| fault.clone());
        let failed = self.open.drain().map(|(_, request)| EndedStream {
            times: request.times,
            result: StreamResult::Failed(fault.clone()),
            seen: SeenAnswer::default(),
        });
        self.ended.extend(failed);
    }

    fn fault_of(&self, error: &io::Error) -> LoadFault {
        if self.is_connected { LoadFault::of(error) } else { LoadFault::Connect(error.to_string()) }
    }
}

impl AsFd for Http3Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
