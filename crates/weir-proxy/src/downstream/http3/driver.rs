//! A connection of HTTP/3 without its transport: what concerns all of its streams.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quinn_proto::{ConnectionError, Dir, Event, StreamEvent, StreamId};
use weir_http::Rule;
use weir_http::h3::{
    Http3Code, Http3Connection, Http3Fault, Http3Limits, Http3Settings, OwnStream, PeerEvent, PeerReceived,
    RequestAdmission, Role, StreamInput, UnidirectionalStream,
};
use weir_observe::{Cause, ListenerShard};

use super::heads::{AwaitedHead, AwaitedProgress};
use super::shared::{Http3Shared, Http3State, OpenStreams, StreamReader, Unread};
use super::stream::Http3Stream;
use super::transport_watch::TransportWatch;
use super::upload_window::UploadWindow;
use crate::downstream::stream_driver::{ClientFault, ConnectionEnd, EndReason, Standing, StreamDriver};
use crate::downstream::transport::{DatagramTransport, Transport as _};
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::quic::link::STREAMS_AT_FIRST;
use crate::net::quic::trace::{TracedEnd, TracedStream};
use crate::state::budgets::inbox_budget::InboxBudget;
use crate::state::snapshot::ListenerPlan;

/// The dynamic table of clients, in bytes, and how many heads may wait for it at once (RFC 9204 section 5).
const TABLE_BYTES_MAX: u64 = 4_096;
const BLOCKED_MAX: u64 = 16;

/// With how many requests a client may have as many open at once as the config says.
const STREAMS_FEW: u64 = 4;

/// How long a connection with streams is silent before it shows that it is there: less than networks keep the way of a silent one open.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How long a head is on its way before the client is expected to go on with it: the time limit of heads begins then.
const HEAD_TIME: Duration = Duration::from_secs(1);

/// How long a client takes at most to notice an announcement, beside two round trips.
const NOTICE_TIME: Duration = Duration::from_millis(50);

/// Counts a connection as one of HTTP/3.
pub(crate) struct Http3ConnectionCount(Arc<ListenerShard>);

impl Drop for Http3ConnectionCount {
    fn drop(&mut self) {
        self.0.http3_connections_open.decrement();
    }
}

/// The driver of the streams of one connection.
pub(crate) struct Http3Driver {
    shared: Rc<Http3Shared>,
    /// Streams whose head is not whole.
    awaited: Vec<AwaitedHead>,
    /// Streams in one direction that the client has opened.
    peers: Vec<PeerReading>,
    /// Ours: control, encoder, decoder.
    own: [Option<StreamId>; 3],
    /// How many requests the client may have open at once, when it has shown that it sends several.
    streams_max: u32,
    begun: Vec<Http3Stream>,
    opened: u64,
    /// Streams of the client that can be read.
    readable: Vec<StreamId>,
    /// Streams whose responses it does not want.
    stopped: Vec<StreamId>,
    /// Whether nothing more is taken from the client.
    is_deaf: bool,
    /// When the client knows of the end.
    told_at: Option<Instant>,
    /// When it next shows that it is there.
    alive_at: Option<Instant>,
    /// When the handshake is over at the latest, where requests came before.
    confirmed_by: Option<Instant>,
    /// Where the client was last.
    peer: SocketAddr,
    counts: StreamCounts,
    watch: TransportWatch,
    window: UploadWindow,
}

/// What has happened since it was last counted.
#[derive(Default)]
struct StreamCounts {
    /// Opened before the handshake was over.
    early: u64,
    reset: u64,
    refused: u64,
}

/// A stream in one direction that is read.
struct PeerReading {
    id: StreamId,
    stream: UnidirectionalStream,
    reader: StreamReader,
}

impl Http3Driver {
    /// Everything that has happened to the connection; why it is over, if it is.
    fn hear(&mut self) -> Result<Option<ConnectionError>, Http3Fault> {
        while let Some(event) = self.shared.link.next_event() {
            match event {
                Event::Stream(event) => self.hear_of_stream(&event)?,
                Event::ConnectionLost { reason } => return Ok(Some(reason)),
                Event::Connected => self.confirm(),
                Event::HandshakeDataReady | Event::DatagramReceived | Event::DatagramsUnblocked => {}
            }
        }
        Ok(None)
    }

    /// The handshake is over: requests that came before go on, should they have waited for that.
    #[cold]
    fn confirm(&mut self) {
        self.confirmed_by = None;
        self.shared.state.borrow().streams.values().for_each(|stream| stream.wake());
    }

    fn hear_of_stream(&mut self, event: &StreamEvent) -> Result<(), Http3Fault> {
        let shared = &self.shared;
        match *event {
            StreamEvent::Opened { .. } | StreamEvent::Available { .. } => {}
            StreamEvent::Readable { id } => {
                let Some(stream) = shared.state.borrow().streams.get(&id).cloned() else {
                    self.readable.push(id);
                    return Ok(());
                };
                // Whether its exchange reads it now, waits for something else, or has read everything.
                let reset = shared.link.with(|connection| connection.recv_stream(id).received_reset());
                if !matches!(reset, Ok(Some(_))) {
                    stream.wake();
                    return Ok(());
                }
                stream.leave(Cause::Reset);
                self.counts.reset += 1;
                let (now, state) = (shared.turn_millis(), &mut *shared.state.borrow_mut());
                state.codec.decoder.cancel(id.into());
                state.codec.budgets.charge_reset(now)?;
            }
            StreamEvent::Writable { id } => {
                if let Some(stream) = shared.state.borrow().streams.get(&id) {
                    stream.wake();
                }
            }
            StreamEvent::Finished { .. } => {
                let state = &mut *shared.state.borrow_mut();
                state.unacknowledged = state.unacknowledged.saturating_sub(1);
            }
            StreamEvent::Stopped { id, .. } if self.own.contains(&Some(id)) => {
                return Err(Http3Fault::closed_critical_stream());
            }
            // It may be one that has not been taken yet.
            StreamEvent::Stopped { id, .. } => self.stopped.push(id),
        }
        Ok(())
    }

    /// Takes the streams that the client has opened.
    fn accept(&mut self) -> Result<(), Http3Fault> {
        let link = Rc::clone(&self.shared.link);
        let next = |dir| link.with(|connection| connection.streams().accept(dir));
        while let Some(id) = next(Dir::Uni) {
            let reading =
                PeerReading { id, stream: UnidirectionalStream::new(), reader: StreamReader::default() };
            self.peers.push(reading);
            self.readable.push(id);
        }
        while let Some(id) = next(Dir::Bi) {
            let admitted = self.shared.state.borrow_mut().codec.admit_request(id.into())?;
            if admitted == RequestAdmission::Rejected || self.is_deaf {
                self.counts.refused += 1;
                self.give_back(id, Http3Code::REQUEST_REJECTED);
                let now = self.shared.turn_millis();
                self.shared.state.borrow_mut().codec.budgets.charge_fault(now)?;
                continue;
            }
            self.opened += 1;
            if self.opened == STREAMS_FEW {
                link.with(|connection| {
                    connection.set_max_concurrent_streams(Dir::Bi, self.streams_max.into());
                });
            }
            self.counts.early += u64::from(self.confirmed_by.is_some());
            let section_bytes_max = self.shared.state.borrow().codec.limits().section_bytes_max;
            let since = self.shared.turn_at.get();
            self.awaited.push(AwaitedHead::new(id, since, section_bytes_max));
            self.readable.push(id);
        }
        Ok(())
    }

    /// Gives up the streams whose responses the client does not want.
    fn stop(&mut self) -> Result<(), Http3Fault> {
        let now = self.shared.turn_millis();
        for id in std::mem::take(&mut self.stopped) {
            if let Some(at) = self.awaited.iter().position(|awaited| awaited.id == id) {
                self.awaited.swap_remove(at);
                self.give_back(id, Http3Code::REQUEST_CANCELLED);
                self.shared.state.borrow_mut().codec.decoder.cancel(id.into());
                self.counts.reset += 1;
                self.shared.state.borrow_mut().codec.budgets.charge_reset(now)?;
                continue;
            }
            let stream = self.shared.state.borrow().streams.get(&id).cloned();
            match stream {
                Some(stream) => stream.leave(Cause::Reset),
                None => {
                    self.forget_finished(id);
                    self.shared.reset(id, Http3Code::REQUEST_CANCELLED);
                }
            }
            self.counts.reset += 1;
            self.shared.state.borrow_mut().codec.budgets.charge_reset(now)?;
        }
        Ok(())
    }

    /// Forgets what is left of a stream whose exchange is over.
    fn forget_finished(&self, id: StreamId) {
        let state = &mut *self.shared.state.borrow_mut();
        let cut = state.cuts.iter().position(|cut| cut.id == id);
        if let Some(at) = cut {
            state.cuts.swap_remove(at);
        }
        let has_left = state.leavings.remove(&id).is_some();
        if !has_left && cut.is_none() {
            // It had everything, and only not acknowledged it.
            state.unacknowledged = state.unacknowledged.saturating_sub(1);
        }
    }

    /// Wants nothing of a stream, and sends nothing on it.
    fn give_back(&self, id: StreamId, code: Http3Code) {
        StreamReader::default().stop(&self.shared.link, id, code);
        self.shared.reset(id, code);
    }

    /// Reads what has arrived on streams that are not those of an exchange.
    fn read(&mut self, listener: &ListenerPlan) -> Result<(), Http3Fault> {
        let mut readable = std::mem::take(&mut self.readable);
        // Those in one direction first: heads may need what has come on them.
        for id in readable.iter().filter(|id| id.dir() == Dir::Uni) {
            self.read_peer(*id)?;
        }
        for id in readable.drain(..).filter(|id| id.dir() == Dir::Bi) {
            if let Some(at) = self.awaited.iter().position(|awaited| awaited.id == id) {
                self.read_head(at, listener)?;
            }
        }
        self.readable = readable;
        loop {
            let Some(id) = self.shared.state.borrow_mut().codec.decoder.next_unblocked() else { break };
            if let Some(at) = self.awaited.iter().position(|awaited| u64::from(awaited.id) == id) {
                self.read_head(at, listener)?;
                continue;
            }
            let state = self.shared.state.borrow();
            let stream = state.streams.iter().find(|(stream, _)| u64::from(**stream) == id);
            if let Some((_, stream)) = stream {
                stream.wake();
            }
        }
        while let Some(at) = self.awaited.iter().position(|awaited| awaited.is_due(&self.shared)) {
            self.read_head(at, listener)?;
        }
        Ok(())
    }

    fn read_head(&mut self, at: usize, listener: &ListenerPlan) -> Result<(), Http3Fault> {
        match self.awaited[at].read(&self.shared, listener)? {
            AwaitedProgress::Waits => {}
            AwaitedProgress::Begun(stream) => {
                self.awaited.swap_remove(at);
                self.begun.push(*stream);
            }
            AwaitedProgress::Broken(code) => {
                let id = self.awaited.swap_remove(at).id;
                self.give_back(id, code);
                let now = self.shared.turn_millis();
                self.shared.state.borrow_mut().codec.budgets.charge_fault(now)?;
            }
            AwaitedProgress::Reset => {
                let id = self.awaited.swap_remove(at).id;
                self.counts.reset += 1;
                self.shared.reset(id, Http3Code::REQUEST_CANCELLED);
                let now = self.shared.turn_millis();
                let state = &mut *self.shared.state.borrow_mut();
                state.codec.decoder.cancel(id.into());
                state.codec.budgets.charge_reset(now)?;
            }
        }
        Ok(())
    }

    /// Reads a stream in one direction, as far as it has arrived.
    fn read_peer(&mut self, id: StreamId) -> Result<(), Http3Fault> {
        let Some(at) = self.peers.iter().position(|peer| peer.id == id) else { return Ok(()) };
        let now = self.shared.turn_millis();
        loop {
            let peer = &mut self.peers[at];
            let chunk = match peer.reader.read(&self.shared.link, id) {
                Ok(chunk) => chunk,
                Err(Unread::Blocked) => return Ok(()),
                Err(Unread::Reset | Unread::Ended) => {
                    self.shared.state.borrow_mut().codec.reset(&peer.stream, now)?;
                    self.peers.swap_remove(at);
                    return Ok(());
                }
            };
            let mut used = 0;
            loop {
                let input = StreamInput { bytes: &chunk.bytes[used..], is_last: chunk.is_last };
                let state = &mut *self.shared.state.borrow_mut();
                let PeerReceived { used: more, event } =
                    state.codec.receive(&mut self.peers[at].stream, input, now)?;
                used += more;
                match event {
                    None => break,
                    Some(PeerEvent::Settings | PeerEvent::GoAway { .. }) => {}
                    Some(PeerEvent::Priority { stream, priority }) => {
                        let id = state.streams.keys().find(|id| u64::from(**id) == stream).copied();
                        if let Some(id) = id {
                            self.shared.prefer(id, priority);
                        }
                    }
                    Some(PeerEvent::UnknownStream) => {
                        let mut peer = self.peers.swap_remove(at);
                        peer.reader.stop(&self.shared.link, id, Http3Code::STREAM_CREATION_ERROR);
                        return Ok(());
                    }
                }
            }
            if chunk.is_last {
                self.peers.swap_remove(at);
                return Ok(());
            }
        }
    }

    /// Gives our own streams what waits for them, and streams that are over what they have left.
    fn write(&mut self) {
        self.shared.reset_cut();
        for (place, kind) in
            [OwnStream::Control, OwnStream::Encoder, OwnStream::Decoder].into_iter().enumerate()
        {
            if self.shared.state.borrow_mut().codec.unsent(kind).is_empty() {
                continue;
            }
            let open = || self.shared.link.with(|connection| connection.streams().open(Dir::Uni));
            let Some(id) = self.own[place].or_else(open) else { continue };
            self.own[place] = Some(id);
            let state = &mut *self.shared.state.borrow_mut();
            let unsent = state.codec.unsent(kind);
            let written = self.shared.link.with(|connection| connection.send_stream(id).write(unsent));
            let len = written.unwrap_or(0);
            drop(unsent.drain(..len));
        }
        if self.shared.state.borrow().leavings.is_empty() {
            return;
        }
        let ids: Vec<StreamId> = self.shared.state.borrow().leavings.keys().copied().collect();
        for id in ids {
            let left = self.shared.state.borrow_mut().leavings.remove(&id).unwrap_or_default();
            match self.shared.write(id, &left) {
                Some(len) if len < left.len() => {
                    self.shared.state.borrow_mut().leavings.insert(id, left[len..].to_vec());
                }
                Some(_) => self.shared.end(id),
                None => {}
            }
        }
    }

    /// What has come of the turn is written down.
    #[cold]
    fn trace(&self) {
        let state = self.shared.state.borrow();
        let awaited =
            self.awaited.iter().map(|awaited| TracedStream { id: awaited.id.into(), has_head: false });
        let begun = state.streams.keys().map(|id| TracedStream { id: (*id).into(), has_head: true });
        self.shared.link.trace_turn(awaited.chain(begun));
    }

    #[cold]
    fn end_trace(&self, end: TracedEnd<'_>) {
        self.shared.link.end_trace(Some(end));
    }

    /// Takes what has come, as far as that goes.
    fn take_turn(&mut self, listener: &ListenerPlan) -> Result<Option<ConnectionError>, Http3Fault> {
        if let Some(reason) = self.hear()? {
            return Ok(Some(reason));
        }
        if self.shared.link.has_received_many() {
            self.watch.charge(&self.shared.link, self.opened, self.shared.turn_millis())?;
        }
        self.accept()?;
        self.stop()?;
        self.read(listener)?;
        match self.shared.state.borrow_mut().fault.take() {
            Some(fault) => Err(fault),
            None => Ok(None),
        }
    }
}

impl StreamDriver for Http3Driver {
    type Transport = DatagramTransport;
    type Stream = Http3Stream;
    type Count = Http3ConnectionCount;

    fn open(transport: &mut DatagramTransport, listener: &ListenerPlan) -> Self {
        let local = Http3Settings {
            qpack_max_table_capacity: TABLE_BYTES_MAX,
            qpack_blocked_streams: BLOCKED_MAX,
            max_field_section_size: Some(listener.head_limits.head_bytes_max as u64),
            enable_connect_protocol: true,
        };
        let limits =
            Http3Limits { section_bytes_max: listener.head_limits.head_bytes_max, ..Http3Limits::default() };
        let opened_at = clock::now();
        let confirmed_by = transport.link.is_handshaking().then(|| opened_at + listener.config.timeouts.tls);
        transport.close_code = Http3Code::NO_ERROR.0;
        let state = Http3State {
            codec: Http3Connection::new(Role::Server, &local, limits, Some(opened_at.since_boot_ns())),
            streams: OpenStreams::default(),
            leavings: HashMap::new(),
            cuts: Vec::new(),
            unacknowledged: 0,
            heads: Vec::new(),
            fault: None,
            resets_sent: 0,
        };
        let shared = Http3Shared {
            link: Rc::clone(&transport.link),
            facts: transport.take_facts(),
            state: RefCell::new(state),
            opened_at,
            turn_at: Cell::new(opened_at),
            is_ending: Cell::new(false),
        };
        Self {
            shared: Rc::new(shared),
            awaited: Vec::new(),
            peers: Vec::new(),
            own: [None; 3],
            streams_max: listener.config.http3.as_ref().map_or(STREAMS_AT_FIRST, |http3| http3.streams_max),
            begun: Vec::new(),
            opened: 0,
            readable: Vec::new(),
            stopped: Vec::new(),
            is_deaf: false,
            told_at: None,
            alive_at: None,
            confirmed_by,
            peer: transport.link.with(|connection| connection.remote_address()),
            counts: StreamCounts::default(),
            watch: TransportWatch::default(),
            window: UploadWindow::first(opened_at),
        }
    }

    fn count_open(shard: &Arc<ListenerShard>) -> Http3ConnectionCount {
        shard.http3_connections.increment();
        shard.http3_connections_open.increment();
        Http3ConnectionCount(Arc::clone(shard))
    }

    fn begin_turn(&mut self, _cx: &Context<'_>, _now: Duration) {
        self.shared.turn_at.set(clock::now());
    }

    fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut DatagramTransport,
        _stock: &Rc<BufferStock>,
        listener: &ListenerPlan,
    ) -> Poll<ConnectionEnd> {
        let now = self.shared.turn_at.get();
        self.shared.link.watch(cx);
        self.shared.link.advance(now);
        let has_streams = !self.shared.state.borrow().streams.is_empty();
        if !has_streams {
            // Nothing waits for a reader, and the requests of before say nothing of what is to come.
            self.window.begin(&self.shared.link, now);
        }
        match self.alive_at {
            Some(at) if at <= now && has_streams => {
                self.shared.link.with(quinn_proto::Connection::ping);
                self.alive_at = Some(now + KEEP_ALIVE);
            }
            None if has_streams => self.alive_at = Some(now + KEEP_ALIVE),
            Some(_) if !has_streams => self.alive_at = None,
            _ => {}
        }
        match self.take_turn(listener) {
            Ok(None) if self.confirmed_by.is_some_and(|at| at <= now) => {
                Poll::Ready(ConnectionEnd::Closed(Err(io::ErrorKind::TimedOut.into())))
            }
            Ok(None) => Poll::Pending,
            Ok(Some(ConnectionError::TransportError(error))) => {
                tracing::debug!(listener = &*listener.config.name, %error, "a client breaks a rule of QUIC");
                self.end_trace(TracedEnd::Lost(&ConnectionError::TransportError(error)));
                Poll::Ready(ConnectionEnd::Fault(ClientFault { rule: Rule::QuicViolation, is_flood: true }))
            }
            // Nothing reaches the client any more, whatever the reason.
            Ok(Some(reason)) => {
                self.end_trace(TracedEnd::Lost(&reason));
                Poll::Ready(ConnectionEnd::Closed(Err(io::ErrorKind::ConnectionReset.into())))
            }
            Err(fault) => {
                transport.close_code = fault.code().0;
                let reason = fault.rule().name();
                self.end_trace(TracedEnd::Closed(fault.code().0, Some(reason)));
                let is_flood = fault.code() == Http3Code::EXCESSIVE_LOAD;
                Poll::Ready(ConnectionEnd::Fault(ClientFault { rule: fault.rule(), is_flood }))
            }
        }
    }

    fn account(&mut self, budget: &InboxBudget) {
        self.window.adapt(&self.shared.link, budget);
    }

    fn close_account(&mut self, budget: &InboxBudget) {
        self.window.close(budget);
    }

    fn count(&mut self, shard: &ListenerShard) {
        let counts = std::mem::take(&mut self.counts);
        let resets_sent = std::mem::take(&mut self.shared.state.borrow_mut().resets_sent);
        if counts.early > 0 {
            shard.http3_early_requests.add(counts.early);
        }
        let peer = self.shared.link.with(|connection| connection.remote_address());
        if std::mem::replace(&mut self.peer, peer) != peer {
            shard.http3_migrations.increment();
        }
        if counts.reset + counts.refused + resets_sent > 0 {
            shard.streams_reset.add(counts.reset);
            shard.streams_refused.add(counts.refused);
            shard.streams_reset_by_weir.add(resets_sent);
        }
    }

    fn begin_streams(&mut self, start: impl FnMut(Http3Stream)) {
        self.begun.drain(..).for_each(start);
    }

    fn poll_send(
        &mut self,
        _cx: &mut Context<'_>,
        _transport: &mut DatagramTransport,
    ) -> Poll<io::Result<()>> {
        self.write();
        self.shared.link.send(self.shared.turn_at.get());
        if self.shared.link.is_traced() {
            self.trace();
        }
        Poll::Ready(Ok(()))
    }

    fn standing(&self, _transport: &DatagramTransport) -> Standing {
        let (link, state, now) = (&self.shared.link, self.shared.state.borrow(), self.shared.turn_at.get());
        let has_left = !state.leavings.is_empty() || !state.cuts.is_empty();
        let waits = state.unacknowledged > 0 || has_left || link.is_blocked();
        // Packets come in any order: with many streams, some head lacks a piece at any time, and each for a moment.
        let slow_at = self.awaited.iter().map(|awaited| awaited.since + HEAD_TIME).min();
        let cut_at = state.cuts.iter().map(|cut| cut.at).min();
        let end_at = self.awaited.iter().filter_map(AwaitedHead::end_at).min();
        let due = [
            link.due(),
            self.told_at,
            self.alive_at,
            self.confirmed_by,
            slow_at.filter(|at| *at > now),
            cut_at,
            end_at,
        ];
        Standing {
            streams: state.streams.len(),
            opened: self.opened,
            is_partial: slow_at.is_some_and(|at| at <= now) && !self.window.is_used_up(link),
            is_acknowledged: true,
            is_told: self.told_at.is_some_and(|at| at <= now),
            // What goes out shows what has come in at the client: congestion control sees to that.
            unwritten: waits.then(|| self.watch.moved_bytes(link)),
            turn_at: due.into_iter().flatten().min(),
        }
    }

    fn announce_end(&mut self) {
        let rtt = self.shared.link.with(|connection| connection.rtt());
        self.told_at = Some(clock::now() + 2 * rtt + NOTICE_TIME);
        self.shared.is_ending.set(true);
        self.shared.state.borrow_mut().codec.announce_go_away();
    }

    fn end(&mut self, _reason: EndReason) {
        self.shared.is_ending.set(true);
        self.shared.state.borrow_mut().codec.go_away();
    }

    fn give_up(&mut self, cause: Cause) {
        self.is_deaf = true;
        for awaited in std::mem::take(&mut self.awaited) {
            self.give_back(awaited.id, Http3Code::REQUEST_REJECTED);
        }
        self.shared.state.borrow().leave_all(cause);
    }

    fn close(&mut self, cause: Cause) {
        self.is_deaf = true;
        self.awaited.clear();
        let state = &mut *self.shared.state.borrow_mut();
        state.leave_all(cause);
        state.leavings.clear();
        state.cuts.clear();
        state.unacknowledged = 0;
    }

    fn stop_reading(&mut self) {
        self.is_deaf = true;
    }

    fn release_heads(&mut self) {
        self.shared.state.borrow_mut().heads = Vec::new();
    }

    fn release_memory(&mut self) {
        let state = &mut *self.shared.state.borrow_mut();
        state.heads = Vec::new();
        state.streams.shrink_to_fit();
        state.leavings.shrink_to_fit();
        state.cuts.shrink_to_fit();
        state.codec.shrink();
        self.awaited.shrink_to_fit();
        self.begun = Vec::new();
        self.readable = Vec::new();
    }
}
