//! What has arrived on a connection, frame by frame, on its way to the streams.

use weir_http::h2::{
    Block, BlockError, BlockUse, ConnectionFault, Event, StreamFault, read_trailers, skip_block,
};
use weir_http::{Priority, Rule};
use weir_observe::Cause;

use super::inbox::ReceivedTrailers;
use super::shared::{ConnectionSide, MessageLimits};
use super::shared::{Http2State, MEASURE, StreamShared};

impl<S: ConnectionSide> Http2State<S> {
    /// Deals with what has arrived; returns how much of it is used. What is left belongs to a frame that is not whole.
    ///
    /// # Errors
    /// The fault that ends the connection.
    pub(super) fn take_in(
        &mut self,
        input: &[u8],
        limits: MessageLimits<'_>,
    ) -> Result<usize, ConnectionFault> {
        let (mut used, now) = (0, self.millis());
        loop {
            let received = self.codec.receive(&input[used..], now, &mut self.output.bytes)?;
            let rest = &input[used..];
            used += received.used;
            match received.event {
                Some(event) => self.event(event, rest, limits)?,
                None => return Ok(used),
            }
        }
    }

    /// `input` is what the ranges of the event refer to.
    fn event(
        &mut self,
        event: Event,
        input: &[u8],
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        match event {
            Event::Block { stream, block: Block::Input(range), usage, ends_stream } => {
                return self.block(stream, &input[range], (usage, ends_stream), limits);
            }
            Event::Block { stream, block: Block::Gathered, usage, ends_stream } => {
                let block = self.codec.take_block();
                return self.block(stream, &block, (usage, ends_stream), limits);
            }
            Event::Data { stream, data, ends_stream } => {
                return S::data(self, stream, &input[data], ends_stream);
            }
            Event::Reset { stream, code } => S::reset(self, stream, code),
            Event::Fault { stream, fault } => self.leave(stream, Cause::Rule(fault.rule)),
            Event::Window { stream } if stream > 0 => self.window_opened(stream),
            Event::Settings => {
                let table_bytes_max = self.codec.remote().header_table_size as usize;
                self.encoder.set_peer_table_bytes_max(table_bytes_max);
                self.streams.iter().for_each(|stream| wake_for_window(stream));
            }
            Event::Priority { stream, value } => self.prioritise(stream, Priority::parse(&input[value])),
            Event::Pong { payload: MEASURE } => self.measured(),
            Event::Pong { payload } => S::pong(self, payload),
            Event::GoAway { last_stream, code } => S::go_away(self, last_stream, code),
            // The turn gives the room to the streams.
            Event::Window { .. } => {}
        }
        Ok(())
    }

    fn block(
        &mut self,
        id: u32,
        block: &[u8],
        (usage, ends_stream): (BlockUse, bool),
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        match usage {
            BlockUse::Head => return S::head(self, id, block, ends_stream, limits),
            BlockUse::Trailers => return self.trailers(id, block, limits),
            BlockUse::Fault(fault) => self.leave(id, Cause::Rule(fault.rule)),
            BlockUse::Refused => S::refused(self),
            BlockUse::Discard => {}
        }
        let mut text = Vec::new();
        broken_rule(skip_block(&mut self.decoder, block, &mut text, limits.head)).map(|_| ())
    }

    /// The trailers of a message.
    ///
    /// # Errors
    /// The fault that ends the connection.
    pub(crate) fn trailers(
        &mut self,
        id: u32,
        block: &[u8],
        limits: MessageLimits<'_>,
    ) -> Result<(), ConnectionFault> {
        let mut trailers = Box::<ReceivedTrailers>::default();
        let ReceivedTrailers { fields, text } = &mut *trailers;
        let read = read_trailers(&mut self.decoder, block, fields, text, limits.trailers);
        if let Some(rule) = broken_rule(read)? {
            return self.break_stream(id, rule);
        }
        if let Some(stream) = self.stream(id) {
            let mut inbox = stream.inbox.borrow_mut();
            inbox.has_ended = true;
            inbox.trailers = (!trailers.fields.as_slice().is_empty()).then_some(trailers);
            drop(inbox);
            stream.wake();
        }
        Ok(())
    }

    /// Resets a stream whose peer has broken a rule behind the head.
    ///
    /// # Errors
    /// The fault that ends the connection.
    pub(crate) fn break_stream(&mut self, id: u32, rule: Rule) -> Result<(), ConnectionFault> {
        let now = self.millis();
        self.codec.fail(id, StreamFault::protocol(rule), now, &mut self.output.bytes)?;
        self.leave(id, Cause::Rule(rule));
        Ok(())
    }

    /// Part of a body for the task of its stream.
    #[inline]
    pub(crate) fn data(&mut self, id: u32, data: &[u8], ends_stream: bool) {
        self.growth.count(data.len());
        if let Some(stream) = self.stream(id) {
            let mut inbox = stream.inbox.borrow_mut();
            inbox.body.extend_from_slice(data);
            inbox.has_ended = ends_stream;
            drop(inbox);
            stream.wake();
        }
    }

    /// A stream ends here.
    pub(crate) fn leave(&self, id: u32, cause: Cause) {
        if let Some(stream) = self.stream(id) {
            stream.leave(cause);
        }
    }

    fn window_opened(&self, id: u32) {
        if let Some(stream) = self.stream(id) {
            wake_for_window(stream);
        }
    }

    fn prioritise(&mut self, id: u32, priority: Priority) {
        if let Some(stream) = self.stream(id) {
            stream.priority.set(priority);
            self.schedule.set_priority(id, priority);
        }
    }
}

fn wake_for_window<S: ConnectionSide>(stream: &StreamShared<S>) {
    if stream.awaits_window.take() {
        stream.wake();
    }
}

/// The rule that a message breaks, if it does.
///
/// # Errors
/// When the connection is lost with it.
pub(crate) fn broken_rule(read: Result<(), BlockError>) -> Result<Option<Rule>, ConnectionFault> {
    let Err(error) = read else { return Ok(None) };
    match (error.connection_fault(), error) {
        (None, BlockError::Malformed(rule)) => Ok(Some(rule)),
        (fault, _) => fault.map_or(Ok(None), Err),
    }
}
