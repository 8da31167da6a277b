//! Received frames, one after the other, and the states of streams that they change (RFC 9113 sections 5.1 and 6).

use super::ConnectionCodec;
use super::event::{Block, BlockUse, Event, Received};
use crate::h2::fault::{ConnectionFault, StreamFault};
use crate::h2::frame::{
    ErrorCode, FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FrameHeader, FrameType, PREFACE, WINDOW_MAX, flag,
    write_ping,
};
use crate::h2::settings::write_ack;
use crate::h2::stream::Stream;
use crate::h2::window::{ReceiveWindow, SendWindow};
use crate::message::rule::Rule;
use crate::multiplexed::role::Role;

/// CONTINUATION frames of one header block; more is an attack (VU#421644).
const CONTINUATIONS_MAX: u8 = 8;

/// Bytes of a PRIORITY_UPDATE frame that is read; a longer one is skipped.
const PRIORITY_UPDATE_BYTES_MAX: u32 = 256;

/// Where the input stands.
#[derive(Debug)]
pub(super) struct Receiving {
    place: Place,
    /// A header block that is not complete.
    gathering: Option<Gathering>,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    /// Before the preface of a client.
    Preface,
    /// Before the header of a frame.
    Frame,
    /// Within the data of a frame, with padding behind it.
    Data { stream: u32, left: u32, padding: u32, ends_stream: bool },
    /// Within bytes that mean nothing.
    Skip { left: u32 },
}

#[derive(Debug, Clone, Copy)]
struct Gathering {
    stream: u32,
    ends_stream: bool,
    continuations: u8,
}

/// What became of the front of the input.
enum Step {
    /// More of it is needed.
    Short,
    /// So many bytes are dealt with.
    Used(usize),
    Event(usize, Event),
}

impl Receiving {
    /// At the beginning of a connection.
    pub(super) const fn first(role: Role) -> Self {
        let place = match role {
            Role::Server => Place::Preface,
            Role::Client => Place::Frame,
        };
        Self { place, gathering: None }
    }

    pub(super) const fn is_in_block(&self) -> bool {
        self.gathering.is_some()
    }
}

impl ConnectionCodec {
    /// Takes in what was received up to the next event, and appends what it makes necessary to `out`. To be called again, behind the
    /// used bytes, until there is no event; what is not used then belongs to a frame that is not complete. A frame that has to be whole
    /// has up to [`FRAME_HEADER_BYTES`] + [`FRAME_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// The fault that ends the connection: to be announced with [`ConnectionCodec::go_away`].
    pub fn receive(
        &mut self,
        input: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Received, ConnectionFault> {
        let mut used = 0;
        loop {
            match self.step(&input[used..], used, now, out)? {
                Step::Short => return Ok(Received { used, event: None }),
                Step::Used(len) => used += len,
                Step::Event(len, event) => return Ok(Received { used: used + len, event: Some(event) }),
            }
        }
    }

    /// One step: `input` is the front of what is left, which is at `at`.
    fn step(
        &mut self,
        input: &[u8],
        at: usize,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step, ConnectionFault> {
        match self.receiving.place {
            Place::Frame => match FrameHeader::read(input) {
                Some(header) => {
                    self.frame(header, &input[FRAME_HEADER_BYTES..], at + FRAME_HEADER_BYTES, now, out)
                }
                None => Ok(Step::Short),
            },
            Place::Data { .. } => Ok(self.data_bytes(input.len(), at)),
            Place::Skip { left: 0 } => {
                self.receiving.place = Place::Frame;
                Ok(Step::Used(0))
            }
            Place::Skip { .. } if input.is_empty() => Ok(Step::Short),
            Place::Skip { left } => {
                let len = left.min(u32::try_from(input.len()).unwrap_or(u32::MAX));
                self.receiving.place = Place::Skip { left: left - len };
                Ok(Step::Used(len as usize))
            }
            Place::Preface => self.preface(input),
        }
    }

    fn preface(&mut self, input: &[u8]) -> Result<Step, ConnectionFault> {
        let seen = input.len().min(PREFACE.len());
        if input[..seen] != PREFACE[..seen] {
            return Err(ConnectionFault::protocol(Rule::Http2BadPreface));
        }
        if seen < PREFACE.len() {
            return Ok(Step::Short);
        }
        self.receiving.place = Place::Frame;
        Ok(Step::Used(seen))
    }

    /// A frame whose header is here; `payload` is as much of it, and of what follows, as has come.
    fn frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        at: usize,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step, ConnectionFault> {
        if header.len as usize > FRAME_BYTES_MAX {
            return Err(ConnectionFault {
                code: ErrorCode::FRAME_SIZE_ERROR,
                rule: Rule::Http2FrameTooLarge,
            });
        }
        let frame_type = FrameType::new(header.number);
        if let Some(gathering) = self.receiving.gathering
            && (frame_type != Some(FrameType::Continuation) || header.stream != gathering.stream)
        {
            return Err(ConnectionFault::protocol(Rule::Http2BlockInterrupted));
        }
        if !self.has_settings && (frame_type != Some(FrameType::Settings) || header.has(flag::ACK)) {
            return Err(ConnectionFault::protocol(Rule::Http2SettingsMissing));
        }
        if frame_type == Some(FrameType::Data) {
            return self.data(header, payload, now, out);
        }
        let Some(frame_type) = frame_type.filter(|known| !is_skipped(*known, header)) else {
            self.charge_control(now, flood_of(frame_type))?;
            self.receiving.place = Place::Skip { left: header.len };
            return Ok(Step::Used(FRAME_HEADER_BYTES));
        };
        check_length(frame_type, header)?;
        check_stream(frame_type, header)?;
        let Some(payload) = payload.get(..header.len as usize) else { return Ok(Step::Short) };
        let event = match frame_type {
            FrameType::Headers => self.headers(header, payload, at, now, out)?,
            FrameType::Continuation => self.continuation(header, payload, now, out)?,
            _ => self.control(frame_type, header, payload, at, now, out)?,
        };
        let used = FRAME_HEADER_BYTES + payload.len();
        Ok(event.map_or(Step::Used(used), |event| Step::Event(used, event)))
    }

    /// The beginning of a DATA frame (RFC 9113 section 6.1).
    fn data(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Step, ConnectionFault> {
        check_stream(FrameType::Data, header)?;
        let mut framing = 0;
        if header.has(flag::PADDED) && header.len > 0 {
            let Some(&padding) = payload.first() else { return Ok(Step::Short) };
            framing = 1 + u32::from(padding);
        }
        if framing > header.len || header.has(flag::PADDED) && framing == 0 {
            return Err(ConnectionFault::protocol(Rule::Http2BadPadding));
        }
        if self.is_idle(header.stream) {
            return Err(ConnectionFault::protocol(Rule::Http2IdleStream));
        }
        if !self.receive.take(header.len) {
            return Err(ConnectionFault {
                code: ErrorCode::FLOW_CONTROL_ERROR,
                rule: Rule::Http2WindowExceeded,
            });
        }
        let prefix = u32::from(framing > 0);
        let len = header.len - framing;
        let used = FRAME_HEADER_BYTES + prefix as usize;
        self.receiving.place = Place::Skip { left: header.len - prefix };
        if len == 0 && !header.has(flag::END_STREAM) {
            self.charge_control(now, Rule::Http2EmptyDataFlood)?;
        }
        let fault = match self.take_data(header, len, framing) {
            Ok(true) => None,
            Ok(false) => {
                self.receive.give(header.len);
                None
            }
            Err(fault) => {
                self.receive.give(header.len);
                Some(fault)
            }
        };
        self.announce(header.stream, out);
        if let Some(fault) = fault {
            let event = self.fail(header.stream, fault, now, out)?;
            return Ok(event.map_or(Step::Used(used), |event| Step::Event(used, event)));
        }
        let ends_stream = header.has(flag::END_STREAM);
        let is_open = self.streams.get(header.stream).is_some_and(|stream| !stream.is_reset);
        if !is_open || (len == 0 && !ends_stream) {
            return Ok(Step::Used(used));
        }
        let padding = header.len - prefix - len;
        self.receiving.place = Place::Data { stream: header.stream, left: len, padding, ends_stream };
        if len > 0 {
            return Ok(Step::Used(used));
        }
        self.receiving.place = Place::Skip { left: padding };
        Ok(Step::Event(used, Event::Data { stream: header.stream, data: 0..0, ends_stream }))
    }

    /// Accounts for a DATA frame; `false` when its stream is over and the frame is dropped.
    fn take_data(&mut self, header: FrameHeader, len: u32, framing: u32) -> Result<bool, StreamFault> {
        let closed = StreamFault { code: ErrorCode::STREAM_CLOSED, rule: Rule::Http2StreamClosed };
        let was_reset = self.streams.was_reset(header.stream) || header.stream > self.last_taken;
        let Some(stream) = self.streams.get_mut(header.stream) else {
            return if was_reset { Ok(false) } else { Err(closed) };
        };
        if stream.remote_ended {
            return Err(closed);
        }
        if stream.is_reset {
            return Ok(false);
        }
        if !stream.receive.take(header.len) {
            return Err(StreamFault { code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowExceeded });
        }
        stream.receive.give(framing);
        stream.remote_ended = header.has(flag::END_STREAM);
        if let Some(expected) = &mut stream.expected {
            let left = expected.checked_sub(len.into());
            match left {
                Some(left) if left == 0 || !stream.remote_ended => *expected = left,
                _ => return Err(StreamFault::protocol(Rule::LengthDiffers)),
            }
        }
        stream.held += len;
        self.receive.give(framing);
        self.hold(len);
        Ok(true)
    }

    /// The next bytes of a DATA frame, of which `len` are here.
    fn data_bytes(&mut self, len: usize, at: usize) -> Step {
        let Place::Data { stream, left, padding, ends_stream } = self.receiving.place else {
            return Step::Used(0);
        };
        let len = left.min(u32::try_from(len).unwrap_or(u32::MAX));
        if len == 0 {
            return Step::Short;
        }
        let left = left - len;
        self.receiving.place = match left {
            0 => Place::Skip { left: padding },
            _ => Place::Data { stream, left, padding, ends_stream },
        };
        let used = len as usize;
        match self.streams.get(stream) {
            Some(open) if !open.is_reset => {
                let ends_stream = ends_stream && left == 0;
                Step::Event(used, Event::Data { stream, data: at..at + used, ends_stream })
            }
            // Reset meanwhile, by us: its bytes were given back then.
            _ => Step::Used(used),
        }
    }

    /// HEADERS (RFC 9113 section 6.2).
    fn headers(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        at: usize,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        let (mut start, mut end) = (0, payload.len());
        if header.has(flag::PADDED) {
            let padding = payload.first().copied().unwrap_or(u8::MAX);
            start = 1;
            end = end.wrapping_sub(padding.into());
        }
        if header.has(flag::PRIORITY) {
            check_dependency(payload.get(start..).unwrap_or_default(), header.stream)?;
            start += 5;
        }
        if end > payload.len() || start > end {
            return Err(ConnectionFault::protocol(Rule::Http2BadPadding));
        }
        let ends_stream = header.has(flag::END_STREAM);
        if header.has(flag::END_HEADERS) {
            let block = Block::Input(at + start..at + end);
            return self.finish_block(header.stream, block, ends_stream, now, out).map(Some);
        }
        self.receiving.gathering = Some(Gathering { stream: header.stream, ends_stream, continuations: 0 });
        self.block.clear();
        self.gather(&payload[start..end])?;
        Ok(None)
    }

    /// CONTINUATION (RFC 9113 section 6.10).
    fn continuation(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        let Some(gathering) = &mut self.receiving.gathering else {
            return Err(ConnectionFault::protocol(Rule::Http2BlockInterrupted));
        };
        gathering.continuations += 1;
        let gathering = *gathering;
        let is_last = header.has(flag::END_HEADERS);
        if gathering.continuations > CONTINUATIONS_MAX || (payload.is_empty() && !is_last) {
            return Err(ConnectionFault::calm(Rule::Http2TooManyContinuations));
        }
        self.gather(payload)?;
        if !is_last {
            return Ok(None);
        }
        self.receiving.gathering = None;
        self.finish_block(gathering.stream, Block::Gathered, gathering.ends_stream, now, out).map(Some)
    }

    fn gather(&mut self, fragment: &[u8]) -> Result<(), ConnectionFault> {
        if self.block.len() + fragment.len() > self.limits.block_bytes_max {
            return Err(ConnectionFault::calm(Rule::Http2BlockTooLarge));
        }
        self.block.extend_from_slice(fragment);
        Ok(())
    }

    /// The block that was put together from several frames; the connection keeps none of it.
    pub fn take_block(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.block)
    }

    /// A header block is complete: what it means for its stream.
    fn finish_block(
        &mut self,
        stream: u32,
        block: Block,
        ends_stream: bool,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Event, ConnectionFault> {
        let usage = match self.role {
            Role::Server => self.request_block(stream, ends_stream, now, out)?,
            Role::Client => self.response_block(stream, ends_stream)?,
        };
        match usage {
            BlockUse::Fault(fault) => {
                self.fail(stream, fault, now, out)?;
            }
            BlockUse::Discard => self.charge_control(now, Rule::Http2ClosedStreamFlood)?,
            // A refused stream was charged as a reset.
            BlockUse::Head | BlockUse::Trailers | BlockUse::Refused => {}
        }
        Ok(Event::Block { stream, block, usage, ends_stream })
    }

    fn request_block(
        &mut self,
        id: u32,
        ends_stream: bool,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<BlockUse, ConnectionFault> {
        if let Some(stream) = self.streams.get_mut(id) {
            return Ok(trailer_block(stream, ends_stream));
        }
        if id.is_multiple_of(2) {
            return Err(ConnectionFault::protocol(Rule::Http2BadStreamId));
        }
        if self.skipped.contains(&id) {
            return Err(ConnectionFault::protocol(Rule::Http2BadStreamId));
        }
        if id <= self.last_stream {
            return match self.streams.was_reset(id) || id > self.last_taken {
                true => Ok(BlockUse::Discard),
                false => {
                    Err(ConnectionFault { code: ErrorCode::STREAM_CLOSED, rule: Rule::Http2StreamClosed })
                }
            };
        }
        if id > self.last_stream + 2 {
            self.skipped = self.last_stream + 1..=id - 1;
        }
        self.last_stream = id;
        if id > self.last_taken {
            return Ok(BlockUse::Discard);
        }
        if self.streams.has_reached(self.local.max_concurrent_streams as usize) {
            self.write_reset(id, ErrorCode::REFUSED_STREAM, out);
            self.streams.remember_reset(id);
            // It finds no room because of those that ended so before.
            self.charge_reset(now, self.last_reset)?;
            return Ok(BlockUse::Refused);
        }
        self.push_stream(id, ends_stream, false);
        Ok(BlockUse::Head)
    }

    fn response_block(&mut self, id: u32, ends_stream: bool) -> Result<BlockUse, ConnectionFault> {
        let is_idle = self.is_idle(id);
        match self.streams.get_mut(id) {
            Some(stream) if stream.remote_ended => Ok(BlockUse::Fault(StreamFault {
                code: ErrorCode::STREAM_CLOSED,
                rule: Rule::Http2StreamClosed,
            })),
            Some(stream) if stream.is_reset => Ok(BlockUse::Discard),
            Some(stream) if ends_stream && stream.expected.is_some_and(|left| left > 0) => {
                Ok(BlockUse::Fault(StreamFault::protocol(Rule::LengthDiffers)))
            }
            Some(stream) => {
                stream.remote_ended = ends_stream;
                Ok(BlockUse::Head)
            }
            None if is_idle => Err(ConnectionFault::protocol(Rule::Http2IdleStream)),
            None => Ok(BlockUse::Discard),
        }
    }

    pub(super) fn push_stream(&mut self, id: u32, remote_ended: bool, local_ended: bool) {
        self.streams.push(Stream {
            id,
            send: SendWindow::new(self.remote.initial_window_size),
            receive: match self.is_acknowledged() {
                true => ReceiveWindow::new(self.local.initial_window_size),
                false => ReceiveWindow::not_known_yet(self.local.initial_window_size),
            },
            expected: None,
            held: 0,
            remote_ended,
            local_ended,
            is_reset: false,
        });
    }

    /// Every other frame.
    fn control(
        &mut self,
        frame_type: FrameType,
        header: FrameHeader,
        payload: &[u8],
        at: usize,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        match frame_type {
            FrameType::RstStream => return self.reset_received(header.stream, number(payload), now, out),
            FrameType::PushPromise => return Err(ConnectionFault::protocol(Rule::Http2PushRefused)),
            FrameType::Settings if !self.has_settings => {}
            _ => self.charge_control(now, flood_of(Some(frame_type)))?,
        }
        match frame_type {
            FrameType::Settings => self.settings(header, payload, out),
            FrameType::WindowUpdate => {
                self.window_update(header.stream, number(payload) & WINDOW_MAX, now, out)
            }
            FrameType::Ping => {
                let payload: [u8; 8] = payload.try_into().map_err(|_| ConnectionFault::frame_size())?;
                if header.has(flag::ACK) {
                    return Ok(Some(Event::Pong { payload }));
                }
                write_ping(out, payload, true);
                Ok(None)
            }
            FrameType::GoAway => {
                let last_stream = number(payload) & WINDOW_MAX;
                self.last_granted = Some(self.last_granted.map_or(last_stream, |last| last.min(last_stream)));
                Ok(Some(Event::GoAway { last_stream, code: ErrorCode(number(&payload[4..])) }))
            }
            FrameType::Priority => check_dependency(payload, header.stream).map(|()| None),
            FrameType::PriorityUpdate => {
                let stream = number(payload) & WINDOW_MAX;
                if stream == 0 || self.role == Role::Client {
                    return Err(ConnectionFault::protocol(Rule::Http2BadStreamId));
                }
                Ok(Some(Event::Priority { stream, value: at + 4..at + payload.len() }))
            }
            _ => Ok(None),
        }
    }

    /// RST_STREAM (RFC 9113 section 6.4).
    fn reset_received(
        &mut self,
        id: u32,
        code: u32,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        if self.is_idle(id) {
            return Err(ConnectionFault::protocol(Rule::Http2IdleStream));
        }
        let is_open = match self.streams.get_mut(id) {
            Some(stream) if !stream.is_reset => {
                (stream.is_reset, stream.remote_ended) = (true, true);
                true
            }
            _ => false,
        };
        if !is_open {
            self.charge_control(now, Rule::Http2ClosedStreamFlood)?;
            return Ok(None);
        }
        if self.role == Role::Server {
            self.charge_reset(now, Rule::Http2TooManyResets)?;
        }
        self.give_back_held(id);
        self.announce(0, out);
        Ok(Some(Event::Reset { stream: id, code: ErrorCode(code) }))
    }

    /// SETTINGS (RFC 9113 section 6.5).
    fn settings(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        if header.has(flag::ACK) {
            if !self.is_acknowledged() {
                self.unacknowledged -= 1;
                let size = self.local.initial_window_size;
                self.streams.iter_mut().for_each(|stream| stream.receive.become_known(size));
            }
            return Ok(None);
        }
        let before = i64::from(self.remote.initial_window_size);
        self.remote.apply(payload)?;
        self.has_settings = true;
        let by = i64::from(self.remote.initial_window_size) - before;
        if !self.streams.iter_mut().all(|stream| stream.send.move_by(by)) {
            return Err(ConnectionFault {
                code: ErrorCode::FLOW_CONTROL_ERROR,
                rule: Rule::Http2WindowOverflow,
            });
        }
        write_ack(out);
        Ok(Some(Event::Settings))
    }

    /// WINDOW_UPDATE (RFC 9113 section 6.9).
    fn window_update(
        &mut self,
        id: u32,
        by: u32,
        now: u64,
        out: &mut Vec<u8>,
    ) -> Result<Option<Event>, ConnectionFault> {
        if id == 0 {
            if by == 0 {
                return Err(ConnectionFault::protocol(Rule::Http2ZeroIncrement));
            }
            if !self.send.move_by(by.into()) {
                return Err(ConnectionFault {
                    code: ErrorCode::FLOW_CONTROL_ERROR,
                    rule: Rule::Http2WindowOverflow,
                });
            }
            return Ok(Some(Event::Window { stream: 0 }));
        }
        if self.is_idle(id) {
            return Err(ConnectionFault::protocol(Rule::Http2IdleStream));
        }
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.is_reset) else {
            return Ok(None);
        };
        let fault = match by {
            0 => StreamFault::protocol(Rule::Http2ZeroIncrement),
            _ if stream.send.move_by(by.into()) => return Ok(Some(Event::Window { stream: id })),
            _ => StreamFault { code: ErrorCode::FLOW_CONTROL_ERROR, rule: Rule::Http2WindowOverflow },
        };
        self.fail(id, fault, now, out)
    }
}

/// The rule that too many frames of a type break.
#[cold]
fn flood_of(frame_type: Option<FrameType>) -> Rule {
    match frame_type {
        Some(FrameType::Ping) => Rule::Http2PingFlood,
        Some(FrameType::Settings) => Rule::Http2SettingsFlood,
        Some(FrameType::Priority | FrameType::PriorityUpdate) => Rule::Http2PriorityFlood,
        Some(FrameType::WindowUpdate) => Rule::Http2WindowUpdateFlood,
        _ => Rule::Http2OtherFrameFlood,
    }
}

/// What HEADERS on a stream that is open already means: trailers (RFC 9113 section 8.1).
fn trailer_block(stream: &mut Stream, ends_stream: bool) -> BlockUse {
    if stream.remote_ended {
        let rule = Rule::Http2StreamClosed;
        return BlockUse::Fault(StreamFault { code: ErrorCode::STREAM_CLOSED, rule });
    }
    if stream.is_reset {
        return BlockUse::Discard;
    }
    if !ends_stream {
        return BlockUse::Fault(StreamFault::protocol(Rule::Http2TrailersWithoutEnd));
    }
    if stream.expected.is_some_and(|left| left > 0) {
        return BlockUse::Fault(StreamFault::protocol(Rule::LengthDiffers));
    }
    stream.remote_ended = true;
    BlockUse::Trailers
}

/// Whether a frame of a known type is skipped as if it were unknown.
const fn is_skipped(frame_type: FrameType, header: FrameHeader) -> bool {
    matches!(frame_type, FrameType::PriorityUpdate) && header.len > PRIORITY_UPDATE_BYTES_MAX
}

/// Checks the length of a frame whose type says something about it.
fn check_length(frame_type: FrameType, header: FrameHeader) -> Result<(), ConnectionFault> {
    let fits = match frame_type {
        FrameType::Priority => header.len == 5,
        FrameType::RstStream | FrameType::WindowUpdate => header.len == 4,
        FrameType::Settings if header.has(flag::ACK) => header.len == 0,
        FrameType::Settings => header.len.is_multiple_of(6),
        FrameType::Ping => header.len == 8,
        FrameType::GoAway => header.len >= 8,
        FrameType::PriorityUpdate => header.len >= 4,
        FrameType::Data | FrameType::Headers | FrameType::PushPromise | FrameType::Continuation => true,
    };
    if fits { Ok(()) } else { Err(ConnectionFault::frame_size()) }
}

/// Checks that a frame belongs to a stream, or to the connection.
fn check_stream(frame_type: FrameType, header: FrameHeader) -> Result<(), ConnectionFault> {
    let fits = match frame_type {
        FrameType::Settings | FrameType::Ping | FrameType::GoAway | FrameType::PriorityUpdate => {
            header.stream == 0
        }
        FrameType::WindowUpdate => true,
        _ => header.stream != 0,
    };
    if fits { Ok(()) } else { Err(ConnectionFault::protocol(Rule::Http2BadStreamId)) }
}

/// Checks the priority of RFC 7540 at the front of `payload`, which means nothing any more: a stream must not depend on itself.
fn check_dependency(payload: &[u8], stream: u32) -> Result<(), ConnectionFault> {
    if payload.len() < 5 {
        return Err(ConnectionFault::frame_size());
    }
    if number(payload) & WINDOW_MAX == stream {
        return Err(ConnectionFault::protocol(Rule::Http2SelfDependency));
    }
    Ok(())
}

/// The number at the front of a payload.
fn number(payload: &[u8]) -> u32 {
    payload.first_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
