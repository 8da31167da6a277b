//! Streams on their way to the head of their request: none has an exchange before that is whole.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use quinn_proto::StreamId;
use weir_http::h3::{
    FieldSection, Http3Code, Http3Fault, RequestEvent, RequestReceived, RequestStream, Role, SectionPlace,
    SectionProgress, StreamInput, read_request,
};
use weir_http::{Framing, Method, Priority, Rule};

use super::incoming::IncomingStream;
use super::shared::{Http3Shared, StreamReader, Unread};
use super::stream::{Http3Stream, StreamRequest};
use crate::net::clock::Instant;
use crate::relay::http2::inbox::ReceivedHead;
use crate::state::snapshot::ListenerPlan;

/// A stream whose head is not whole.
pub(super) struct AwaitedHead {
    pub(super) id: StreamId,
    pub(super) since: Instant,
    frames: RequestStream,
    reader: StreamReader,
    chunk: Bytes,
    at: usize,
    is_last: bool,
    /// The head is whole, and waits for the table of its encoder.
    awaits_table: bool,
    /// A request that seems to have no body, until when its end is waited for.
    whole: Option<(StreamRequest, Instant)>,
}

/// How long the end of a request is waited for whose method has no use for a body (RFC 9110 section 9.3): clients send it in a packet of its own,
/// or it is lost by itself. A request with a body is sent in chunks, stored nowhere and not repeated.
const END_TIME: Duration = Duration::from_secs(1);

/// How far a head has come.
pub(super) enum AwaitedProgress {
    Waits,
    Begun(Box<Http3Stream>),
    /// The stream is broken, and there is nothing to answer.
    Broken(Http3Code),
    /// The client has given it up.
    Reset,
}

impl AwaitedHead {
    pub(super) fn new(id: StreamId, since: Instant, section_bytes_max: usize) -> Self {
        Self {
            id,
            since,
            frames: RequestStream::new(Role::Server, section_bytes_max),
            reader: StreamReader::default(),
            chunk: Bytes::new(),
            at: 0,
            is_last: false,
            awaits_table: false,
            whole: None,
        }
    }

    /// Goes on with what has arrived.
    ///
    /// # Errors
    /// The fault of the connection.
    pub(super) fn read(
        &mut self,
        connection: &Rc<Http3Shared>,
        listener: &ListenerPlan,
    ) -> Result<AwaitedProgress, Http3Fault> {
        if self.whole.is_some() {
            return self.end(connection, listener);
        }
        if self.awaits_table {
            return self.section(connection, listener, &SectionPlace::Gathered);
        }
        loop {
            match self.reader.read(&connection.link, self.id) {
                Ok(chunk) => (self.chunk, self.at, self.is_last) = (chunk.bytes, 0, chunk.is_last),
                Err(Unread::Blocked) => return Ok(AwaitedProgress::Waits),
                Err(Unread::Reset) => return Ok(AwaitedProgress::Reset),
                Err(Unread::Ended) => return Ok(AwaitedProgress::Broken(Http3Code::REQUEST_INCOMPLETE)),
            }
            let input = StreamInput { bytes: &self.chunk, is_last: self.is_last };
            let now = connection.turn_millis();
            let received = {
                let state = &mut *connection.state.borrow_mut();
                self.frames.receive(input, &mut state.codec.budgets, now)
            };
            match received {
                Ok(RequestReceived { event: None, .. }) => {}
                Ok(RequestReceived { used, event: Some(RequestEvent::Section { section, .. }) }) => {
                    self.at = used;
                    return self.section(connection, listener, &section);
                }
                Ok(RequestReceived { .. }) => {
                    return Ok(AwaitedProgress::Broken(Http3Code::REQUEST_INCOMPLETE));
                }
                Err(fault) if fault.is_of_connection() => return Err(fault),
                Err(fault) if fault.rule() == Rule::HeadTooLarge => {
                    let mut head = connection.state.borrow_mut().heads.pop().unwrap_or_default();
                    head.head.reset();
                    head.text.clear();
                    let request = StreamRequest { head, head_bytes: 0, refused: Some(fault.rule()) };
                    return Ok(self.begin(connection, listener, request));
                }
                Err(fault) => return Ok(AwaitedProgress::Broken(fault.code())),
            }
        }
    }

    /// The head is whole.
    fn section(
        &mut self,
        connection: &Rc<Http3Shared>,
        listener: &ListenerPlan,
        section: &SectionPlace,
    ) -> Result<AwaitedProgress, Http3Fault> {
        let mut head = connection.state.borrow_mut().heads.pop().unwrap_or_default();
        head.head.reset();
        let bytes = self.frames.section(section, &self.chunk);
        let head_bytes = bytes.len();
        let ReceivedHead { head: request, text } = &mut *head;
        let read = {
            let of_stream = FieldSection { stream: self.id.into(), bytes };
            let decoder = &mut connection.state.borrow_mut().codec.decoder;
            let ends_stream = self.frames.has_ended();
            read_request(decoder, of_stream, request, text, &listener.head_limits, ends_stream)
        };
        let mut refused = match read {
            Ok(SectionProgress::Read) => None,
            Ok(SectionProgress::Blocked) => {
                connection.state.borrow_mut().heads.push(head);
                self.frames.keep_section(section, &self.chunk);
                self.awaits_table = true;
                return Ok(AwaitedProgress::Waits);
            }
            Err(error) if error.http3_fault().is_of_connection() => return Err(error.http3_fault()),
            Err(error) => Some(error.http3_fault().rule()),
        };
        if let (None, Framing::Length(length)) = (refused, request.body()) {
            refused = self.frames.expect_length(length).err().map(Http3Fault::rule);
        }
        if refused.is_some() {
            request.reset();
            text.clear();
        } else if request.method() == Method::Connect || request.protocol().is_some() {
            self.frames.become_tunnel();
        }
        let has_use_for_body = !matches!(request.method(), Method::Get | Method::Head | Method::Delete);
        let is_open = refused.is_none() && request.body() == Framing::Delimited;
        self.frames.drop_section();
        let request = StreamRequest { head, head_bytes, refused };
        if is_open && !has_use_for_body && self.at == self.chunk.len() && !self.is_last {
            self.whole = Some((request, connection.turn_at.get() + END_TIME));
            return self.end(connection, listener);
        }
        Ok(self.begin(connection, listener, request))
    }

    /// Goes on with a whole head once it is known whether anything is behind it.
    fn end(
        &mut self,
        connection: &Rc<Http3Shared>,
        listener: &ListenerPlan,
    ) -> Result<AwaitedProgress, Http3Fault> {
        match self.reader.read(&connection.link, self.id) {
            Ok(chunk) => (self.chunk, self.at, self.is_last) = (chunk.bytes, 0, chunk.is_last),
            Err(Unread::Blocked) if !self.is_due(connection) => return Ok(AwaitedProgress::Waits),
            Err(Unread::Blocked | Unread::Ended) => {}
            Err(Unread::Reset) => return Ok(AwaitedProgress::Reset),
        }
        let Some((mut request, _)) = self.whole.take() else { return Ok(AwaitedProgress::Waits) };
        if self.is_last && self.chunk.is_empty() {
            let input = StreamInput { bytes: &[], is_last: true };
            let now = connection.turn_millis();
            let ended = {
                let state = &mut *connection.state.borrow_mut();
                self.frames.receive(input, &mut state.codec.budgets, now)
            };
            match ended {
                Ok(_) => request.head.head.end_with_head(),
                Err(fault) if fault.is_of_connection() => return Err(fault),
                Err(fault) => return Ok(AwaitedProgress::Broken(fault.code())),
            }
        }
        Ok(self.begin(connection, listener, request))
    }

    /// Until when its end is waited for, if it is.
    pub(super) fn end_at(&self) -> Option<Instant> {
        self.whole.as_ref().map(|(_, until)| *until)
    }

    /// Whether its end is waited for no longer.
    pub(super) fn is_due(&self, connection: &Http3Shared) -> bool {
        self.end_at().is_some_and(|until| until <= connection.turn_at.get() || connection.is_ending.get())
    }

    /// The stream gets its exchange.
    fn begin(
        &mut self,
        connection: &Rc<Http3Shared>,
        listener: &ListenerPlan,
        request: StreamRequest,
    ) -> AwaitedProgress {
        let ReceivedHead { head, text } = &*request.head;
        if head.fields().has_unknown_names()
            && let Some(field) = head.fields().get_by_name(text, "priority")
        {
            connection.prefer(self.id, Priority::parse(field.value.of(text)));
        }
        let none = RequestStream::new(Role::Server, 0);
        let frames = std::mem::replace(&mut self.frames, none);
        let read = (std::mem::take(&mut self.chunk), self.at, self.is_last);
        let reader = std::mem::take(&mut self.reader);
        let incoming = IncomingStream::new(frames, reader, read, listener.chunked_limits);
        AwaitedProgress::Begun(Box::new(Http3Stream::new(Rc::clone(connection), self.id, request, incoming)))
    }
}
