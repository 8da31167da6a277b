//! The body of a request, read from its stream as far as it is relayed.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf as _, Bytes};
use quinn_proto::StreamId;
use weir_http::h3::{
    FieldSection, Http3Code, Http3Fault, RequestEvent, RequestReceived, RequestStream, SectionPlace,
    SectionProgress, SectionUse, StreamInput, read_trailers,
};
use weir_http::{ChunkedLimits, FieldWriter, Fields, Rule};
use weir_observe::Cause;

use super::shared::{Http3Shared, Http3State, Http3StreamShared, StreamReader, Unread};
use crate::relay::ends::{RelayError, Source};
use crate::state::routes::stripped_fields::StrippedFields;

/// The receiving side of a stream behind the head of its request.
pub(super) struct IncomingStream {
    pub(super) frames: RequestStream,
    pub(super) reader: StreamReader,
    /// What was read last, and what of it is not gone through.
    pub(super) chunk: Bytes,
    pub(super) at: usize,
    /// Whether the stream ends behind the chunk.
    pub(super) is_last: bool,
    /// The part of a body that is not taken, whatever is read behind it.
    data: Bytes,
    /// Whether the message has ended.
    pub(super) has_ended: bool,
    trailers: Option<Box<(Fields, Vec<u8>)>>,
    /// Trailers that wait for the table of their encoder.
    awaits_table: bool,
    pub(super) trailer_limits: ChunkedLimits,
    /// Whether what is received is for a tunnel: the message has no body.
    pub(super) is_for_tunnel: bool,
    pub(super) received: u64,
    pub(super) bytes_max: u64,
    /// The length that the head has announced.
    pub(super) announced: Option<u64>,
    /// Trailers that stop here.
    pub(super) stripped: Option<Arc<StrippedFields>>,
    /// The fault of the client that was found.
    broken: Option<Rule>,
}

impl IncomingStream {
    /// Behind a head, with what was read and is not gone through.
    pub(super) fn new(
        frames: RequestStream,
        reader: StreamReader,
        (chunk, at, is_last): (Bytes, usize, bool),
        trailer_limits: ChunkedLimits,
    ) -> Self {
        Self {
            has_ended: frames.has_ended(),
            frames,
            reader,
            chunk,
            at,
            is_last,
            data: Bytes::new(),
            trailers: None,
            awaits_table: false,
            trailer_limits,
            is_for_tunnel: false,
            received: 0,
            bytes_max: u64::MAX,
            announced: None,
            stripped: None,
            broken: None,
        }
    }

    /// What is here of a body, and not yet taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.data
    }

    pub(super) fn consume(&mut self, len: usize) {
        self.data.advance(len);
    }

    /// Whether everything was taken, and nothing follows.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended && self.data.is_empty()
    }

    /// Goes on to the next bytes of the body, or to its end, as far as has arrived.
    pub(super) fn refill(&mut self, connection: &Http3Shared, id: StreamId) -> Result<(), ReadRefusal> {
        while self.data.is_empty() && !self.has_ended {
            if self.awaits_table && !self.read_gathered_trailers(connection, id)? {
                return Err(ReadRefusal::Blocked);
            }
            if self.at == self.chunk.len() && (!self.is_last || self.frames.has_ended()) {
                match self.reader.read(&connection.link, id) {
                    Ok(chunk) => (self.chunk, self.at, self.is_last) = (chunk.bytes, 0, chunk.is_last),
                    Err(Unread::Blocked) => return Err(ReadRefusal::Blocked),
                    Err(Unread::Reset) => return Err(ReadRefusal::Reset),
                    Err(Unread::Ended) => {
                        self.has_ended = true;
                        return Ok(());
                    }
                }
            }
            self.step(connection, id)?;
        }
        Ok(())
    }

    /// One event of the frames.
    fn step(&mut self, connection: &Http3Shared, id: StreamId) -> Result<(), ReadRefusal> {
        let input = StreamInput { bytes: &self.chunk[self.at..], is_last: self.is_last };
        let (now, state) = (connection.millis(), &mut *connection.state.borrow_mut());
        let received = self.frames.receive(input, &mut state.codec.budgets, now);
        let RequestReceived { used, event } = match received {
            Ok(received) => received,
            Err(fault) => return Err(self.fail(fault, state)),
        };
        let from = self.at;
        self.at += used;
        match event {
            Some(RequestEvent::Data { data, ends_stream }) => {
                self.data = self.chunk.slice(from + data.start..from + data.end);
                self.received += self.data.len() as u64;
                self.has_ended = ends_stream;
            }
            Some(RequestEvent::Section { section, usage: SectionUse::Trailers, ends_stream: _ }) => {
                let bytes = self.frames.section(&section, &self.chunk[from..]);
                let mut trailers = Box::<(Fields, Vec<u8>)>::default();
                let section_of = FieldSection { stream: id.into(), bytes };
                let (fields, text) = &mut *trailers;
                let decoder = &mut state.codec.decoder;
                match read_trailers(decoder, section_of, fields, text, &self.trailer_limits) {
                    Ok(SectionProgress::Read) => self.trailers = Some(trailers),
                    Ok(SectionProgress::Blocked) => {
                        self.frames.keep_section(&section, &self.chunk[from..]);
                        self.awaits_table = true;
                    }
                    Err(error) => return Err(self.fail(error.http3_fault(), state)),
                }
                self.has_ended = self.frames.has_ended() && !self.awaits_table;
                connection.link.wake();
            }
            Some(RequestEvent::Section { .. }) => {
                return Err(self.fail(Http3Fault::message(Rule::Http3UnexpectedFrame), state));
            }
            Some(RequestEvent::End) => self.has_ended = true,
            None => self.has_ended = self.frames.has_ended(),
        }
        Ok(())
    }

    /// Reads trailers that had to wait; whether they were read.
    fn read_gathered_trailers(
        &mut self,
        connection: &Http3Shared,
        id: StreamId,
    ) -> Result<bool, ReadRefusal> {
        let state = &mut *connection.state.borrow_mut();
        let bytes = self.frames.section(&SectionPlace::Gathered, &[]);
        let mut trailers = Box::<(Fields, Vec<u8>)>::default();
        let (fields, text) = &mut *trailers;
        let section = FieldSection { stream: id.into(), bytes };
        match read_trailers(&mut state.codec.decoder, section, fields, text, &self.trailer_limits) {
            Ok(SectionProgress::Read) => {}
            Ok(SectionProgress::Blocked) => return Ok(false),
            Err(error) => return Err(self.fail(error.http3_fault(), state)),
        }
        self.frames.drop_section();
        (self.trailers, self.awaits_table) = (Some(trailers), false);
        self.has_ended = self.frames.has_ended();
        connection.link.wake();
        Ok(true)
    }

    /// The client breaks a rule: of its message, or of the connection.
    #[cold]
    fn fail(&mut self, fault: Http3Fault, state: &mut Http3State) -> ReadRefusal {
        // One of the stream is charged when it ends.
        if fault.is_of_connection() {
            state.fault = state.fault.or(Some(fault));
        }
        self.broken = Some(fault.rule());
        ReadRefusal::Broken(fault.rule())
    }

    /// The rule that what was received has broken.
    pub(super) fn broken(&self) -> Option<Rule> {
        self.broken
    }

    /// Nothing more of it is wanted.
    pub(super) fn stop(&mut self, connection: &Http3Shared, id: StreamId, code: Http3Code) {
        if !self.frames.has_ended() || self.awaits_table {
            self.reader.stop(&connection.link, id, code);
            connection.state.borrow_mut().codec.decoder.cancel(id.into());
        }
    }
}

/// Why nothing can be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadRefusal {
    Blocked,
    Reset,
    Broken(Rule),
}

/// A body that is read.
pub(crate) struct Http3Body<'a> {
    pub(super) connection: &'a Http3Shared,
    pub(super) stream: &'a Http3StreamShared,
    pub(super) id: StreamId,
    pub(super) incoming: &'a mut IncomingStream,
}

impl Source for Http3Body<'_> {
    fn data(&self) -> &[u8] {
        if self.incoming.is_for_tunnel { &[] } else { self.incoming.bytes() }
    }

    fn take(&mut self, len: usize) {
        self.incoming.consume(len);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        if let Some(rule) = self.incoming.broken {
            return Err(RelayError::Broken(rule));
        }
        if !self.incoming.is_for_tunnel {
            match self.incoming.refill(self.connection, self.id) {
                Ok(()) | Err(ReadRefusal::Blocked) => {}
                Err(ReadRefusal::Broken(rule)) => {
                    // Its task closes the connection, should it be at fault.
                    self.connection.link.wake();
                    return Err(RelayError::Broken(rule));
                }
                Err(ReadRefusal::Reset) => self.stream.leave(Cause::Reset),
            }
        }
        if self.incoming.received > self.incoming.bytes_max { Err(RelayError::TooLarge) } else { Ok(0) }
    }

    fn is_finished(&self) -> bool {
        self.incoming.is_for_tunnel || self.incoming.is_over()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        match self.incoming.refill(self.connection, self.id) {
            Ok(()) => return Poll::Ready(Ok(())),
            // The next step says so.
            Err(ReadRefusal::Broken(_)) => return Poll::Ready(Ok(())),
            Err(ReadRefusal::Reset) => self.stream.leave(Cause::Reset),
            Err(ReadRefusal::Blocked) => {}
        }
        match self.stream.gone.get() {
            Some(Cause::Closed) => Poll::Ready(Err(RelayError::Truncated)),
            Some(_) => Poll::Ready(Err(RelayError::Read(io::ErrorKind::ConnectionReset.into()))),
            None => self.stream.pending(cx),
        }
    }

    fn has_trailers(&self) -> bool {
        self.incoming.trailers.is_some()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        let Some(trailers) = &self.incoming.trailers else { return };
        let (fields, text) = &**trailers;
        for field in fields.as_slice() {
            let name = field.name.of(text);
            if self.incoming.stripped.as_ref().is_none_or(|stripped| !stripped.covers(name)) {
                out.field(name, field.value.of(text));
            }
        }
    }
}
