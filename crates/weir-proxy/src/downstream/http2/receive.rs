//! What has arrived on a connection, frame by frame, on its way to the streams.

use std::rc::Rc;

use weir_http::h2::{
    Block, BlockError, BlockUse, ConnectionFault, Event, StreamFault, read_request, read_trailers, skip_block,
};
use weir_http::{BodyLength, Priority, Rule};
use weir_observe::Cause;

use super::inbox::{Inbox, ReceivedHead, ReceivedTrailers};
use super::shared::{GOODBYE, Http2State, MEASURE, StreamShared};
use crate::state::snapshot::ListenerPlan;

/// Streams in the input of one turn, which have not begun.
pub(super) type Begun = Vec<Rc<StreamShared>>;

impl Http2State {
    /// Deals with what has arrived; returns how much of it is used. What is left belongs to a frame that is not whole.
    ///
    /// # Errors
    /// The fault that ends the connection.
    pub(super) fn take_in(
        &mut self,
        input: &[u8],
        listener: &ListenerPlan,
        begun: &mut Begun,
    ) -> Result<usize, ConnectionFault> {
        let (mut used, now) = (0, self.millis());
        loop {
            let received = self.codec.receive(&input[used..], now, &mut self.output.bytes)?;
            let rest = &input[used..];
            used += received.used;
            match received.event {
                Some(event) => self.event(event, rest, listener, begun)?,
                None => return Ok(used),
            }
        }
    }

    /// `input` is what the ranges of the event refer to.
    fn event(
        &mut self,
        event: Event,
        input: &[u8],
        listener: &ListenerPlan,
        begun: &mut Begun,
    ) -> Result<(), ConnectionFault> {
        match event {
            Event::Block { stream, block: Block::Input(range), usage, ends_stream } => {
                return self.block(stream, &input[range], (usage, ends_stream), listener, begun);
            }
            Event::Block { stream, block: Block::Gathered, usage, ends_stream } => {
                let block = self.codec.take_block();
                return self.block(stream, &block, (usage, ends_stream), listener, begun);
            }
            Event::Data { stream, data, ends_stream } => self.data(stream, &input[data], ends_stream),
            Event::Reset { stream, .. } => {
                self.reset_count += 1;
                self.leave(stream, Cause::Reset);
            }
            Event::Fault { stream, fault } => self.leave(stream, Cause::Rule(fault.rule)),
            Event::Window { stream } if stream > 0 => self.window_opened(stream),
            Event::Settings => {
                let table_bytes_max = self.codec.remote().header_table_size as usize;
                self.encoder.set_peer_table_bytes_max(table_bytes_max);
                self.streams.iter().for_each(|stream| wake_for_window(stream));
            }
            Event::Priority { stream, value } => self.prioritise(stream, Priority::parse(&input[value])),
            Event::Pong { payload: MEASURE } => self.measured(),
            Event::Pong { payload } => self.is_told |= payload == GOODBYE,
            // The turn gives the room to the streams. The client opens no pushed streams, so its GOAWAY means nothing.
            Event::Window { .. } | Event::GoAway { .. } => {}
        }
        Ok(())
    }

    fn block(
        &mut self,
        id: u32,
        block: &[u8],
        (usage, ends_stream): (BlockUse, bool),
        listener: &ListenerPlan,
        begun: &mut Begun,
    ) -> Result<(), ConnectionFault> {
        match usage {
            BlockUse::Head => return self.head(id, block, ends_stream, listener, begun),
            BlockUse::Trailers => return self.trailers(id, block, listener),
            BlockUse::Fault(fault) => self.leave(id, Cause::Rule(fault.rule)),
            BlockUse::Refused => self.refused_count += 1,
            BlockUse::Discard => {}
        }
        let mut text = Vec::new();
        broken_rule(skip_block(&mut self.decoder, block, &mut text, &listener.head_limits)).map(|_| ())
    }

    /// The head of a request: its stream begins at the end of the turn.
    fn head(
        &mut self,
        id: u32,
        block: &[u8],
        ends_stream: bool,
        listener: &ListenerPlan,
        begun: &mut Begun,
    ) -> Result<(), ConnectionFault> {
        let mut head = self.heads.pop().unwrap_or_default();
        let ReceivedHead { request, text } = &mut *head;
        request.reset();
        let read = read_request(&mut self.decoder, block, request, text, &listener.head_limits, ends_stream);
        let mut refused = broken_rule(read)?;
        if let (None, BodyLength::Known(length)) = (refused, head.request.body()) {
            refused = self.codec.expect_length(id, length).err().map(|fault| fault.rule);
        }
        let mut priority = Priority::default();
        if refused.is_some() {
            head.request.reset();
            head.text.clear();
        } else if let Some(field) = head.request.fields().get_by_name(&head.text, "priority") {
            priority = Priority::parse(field.value.of(&head.text));
        }
        let inbox = Inbox {
            head: Some(head),
            head_bytes: block.len(),
            refused,
            has_ended: ends_stream,
            ..Inbox::default()
        };
        let stream = StreamShared::new(id, inbox, priority);
        self.streams.push(Rc::clone(&stream));
        begun.push(stream);
        Ok(())
    }

    fn trailers(&mut self, id: u32, block: &[u8], listener: &ListenerPlan) -> Result<(), ConnectionFault> {
        let mut trailers = Box::<ReceivedTrailers>::default();
        let ReceivedTrailers { fields, text } = &mut *trailers;
        let read = read_trailers(&mut self.decoder, block, fields, text, &listener.chunked_limits);
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

    /// Resets a stream whose client has broken a rule behind the head.
    fn break_stream(&mut self, id: u32, rule: Rule) -> Result<(), ConnectionFault> {
        let now = self.millis();
        self.codec.fail(id, StreamFault::protocol(rule), now, &mut self.output.bytes)?;
        self.leave(id, Cause::Rule(rule));
        Ok(())
    }

    fn data(&mut self, id: u32, data: &[u8], ends_stream: bool) {
        self.growth.count(data.len());
        if let Some(stream) = self.stream(id) {
            let mut inbox = stream.inbox.borrow_mut();
            inbox.body.extend_from_slice(data);
            inbox.has_ended = ends_stream;
            drop(inbox);
            stream.wake();
        }
    }

    fn leave(&self, id: u32, cause: Cause) {
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

fn wake_for_window(stream: &StreamShared) {
    if stream.awaits_window.take() {
        stream.wake();
    }
}

/// The rule that a message breaks, if it does.
///
/// # Errors
/// When the connection is lost with it.
fn broken_rule(read: Result<(), BlockError>) -> Result<Option<Rule>, ConnectionFault> {
    let Err(error) = read else { return Ok(None) };
    match (error.connection_fault(), error) {
        (None, BlockError::Malformed(rule)) => Ok(Some(rule)),
        (fault, _) => fault.map_or(Ok(None), Err),
    }
}
