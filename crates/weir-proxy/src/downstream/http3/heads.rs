//! Streams on their way to the head of their request: none has an exchange before that is whole.

use std::rc::Rc;

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
use crate::net::clock::{self, Instant};
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
}

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
    pub(super) fn new(id: StreamId, section_bytes_max: usize) -> Self {
        Self {
            id,
            since: clock::now(),
            frames: RequestStream::new(Role::Server, section_bytes_max),
            reader: StreamReader::default(),
            chunk: Bytes::new(),
            at: 0,
            is_last: false,
            awaits_table: false,
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
            let now = connection.millis();
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
        self.frames.drop_section();
        Ok(self.begin(connection, listener, StreamRequest { head, head_bytes, refused }))
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
