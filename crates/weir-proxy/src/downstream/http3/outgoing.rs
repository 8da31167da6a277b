//! The response on its way to a stream: heads and short bodies are gathered, long ones go to the stream as they are.

use std::io;
use std::task::{Context, Poll};

use quinn_proto::StreamId;
use weir_http::Framing;
use weir_http::h3::{QpackEncoder, SectionWriter, write_data_head};

use super::shared::{Http3Shared, Http3StreamShared};
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::message_end::BodyAllowance;

/// Bytes that are gathered before they go to the stream: a head and a short body leave in one piece.
const GATHERED_MAX: usize = 4 * 1024;

/// Room for a head of common length and a short body, so that they do not grow step by step.
const HEAD_ROOM: usize = 1024;

/// The sending side of a stream.
#[derive(Debug)]
pub(super) struct OutgoingStream {
    /// Frames, or their beginnings, that wait for the stream.
    gathered: Vec<u8>,
    /// Bytes of the DATA frame that has begun which are still to come.
    frame_left: u64,
    is_blocked: bool,
    /// What the head allows behind it.
    allowance: BodyAllowance,
    /// Bytes that were given to the stream, framing included.
    pub(super) sent: u64,
    /// Whether what is sent is for a tunnel: the message has no body.
    pub(super) is_for_tunnel: bool,
    /// Whether the head has ended the stream.
    ends_with_head: bool,
    pub(super) has_ended: bool,
}

impl OutgoingStream {
    pub(super) const fn new() -> Self {
        Self {
            gathered: Vec::new(),
            frame_left: 0,
            is_blocked: false,
            allowance: BodyAllowance::unbegun(),
            sent: 0,
            is_for_tunnel: false,
            ends_with_head: false,
            has_ended: false,
        }
    }

    /// Appends a head. `framing` is what a final one says of the body behind it, and `None` for an interim one. Where no body may follow, the head
    /// ends the stream.
    pub(super) fn append_head(
        &mut self,
        connection: &Http3Shared,
        id: StreamId,
        framing: Option<Framing>,
        write: impl FnOnce(&mut QpackEncoder, &mut Vec<u8>),
    ) {
        self.gathered.reserve(HEAD_ROOM);
        write(&mut connection.state.borrow_mut().codec.encoder, &mut self.gathered);
        let Some(framing) = framing else { return };
        self.allowance.begin(framing);
        self.ends_with_head = framing == Framing::None;
        if self.ends_with_head {
            self.end(connection, id);
        }
    }

    /// Whether the frames that were begun are whole.
    pub(super) fn is_whole(&self) -> bool {
        self.frame_left == 0
    }

    /// Ends the direction: what the stream does not take now, the connection gives it later.
    pub(super) fn end(&mut self, connection: &Http3Shared, id: StreamId) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        if self.flush(connection, id) {
            connection.end(id);
        } else {
            let left = std::mem::take(&mut self.gathered);
            connection.state.borrow_mut().leavings.insert(id, left);
        }
    }

    /// Gives what is gathered to the stream; whether nothing waits.
    pub(super) fn flush(&mut self, connection: &Http3Shared, id: StreamId) -> bool {
        if self.gathered.is_empty() {
            return true;
        }
        let Some(len) = connection.write(id, &self.gathered) else {
            // The client does not want it, which is known by another way.
            self.gathered.clear();
            return true;
        };
        self.sent += len as u64;
        match len == self.gathered.len() {
            true => self.gathered.clear(),
            false => drop(self.gathered.drain(..len)),
        }
        self.gathered.is_empty()
    }

    /// Gives bytes of a body to the stream, in a frame of their own; how many it has taken.
    pub(super) fn put(&mut self, connection: &Http3Shared, id: StreamId, data: &[u8]) -> usize {
        if self.frame_left == 0 && !data.is_empty() {
            // One frame for all that there will be, where that is known.
            self.frame_left = self.allowance.announced_left().unwrap_or(0).max(data.len() as u64);
            write_data_head(&mut self.gathered, self.frame_left);
        }
        let data = &data[..data.len().min(usize::try_from(self.frame_left).unwrap_or(usize::MAX))];
        if self.gathered.len() + data.len() <= GATHERED_MAX {
            self.gathered.extend_from_slice(data);
            self.frame_left -= data.len() as u64;
            return data.len();
        }
        if !self.flush(connection, id) {
            return 0;
        }
        let len = connection.write(id, data).unwrap_or(0);
        self.sent += len as u64;
        self.frame_left -= len as u64;
        len
    }
}

/// A message that is written.
pub(crate) struct Http3Reply<'a> {
    pub(super) connection: &'a Http3Shared,
    pub(super) stream: &'a Http3StreamShared,
    pub(super) id: StreamId,
    pub(super) outgoing: &'a mut OutgoingStream,
}

impl Http3Reply<'_> {
    /// The same with what is of a body, which is held to what the head has said.
    fn put_allowed(&mut self, data: &[u8]) -> usize {
        let outgoing = &mut *self.outgoing;
        if !outgoing.allowance.check(data.len()) {
            outgoing.is_blocked = true;
            return 0;
        }
        let len = outgoing.put(self.connection, self.id, data);
        outgoing.allowance.count(len);
        outgoing.is_blocked = len < data.len();
        len
    }
}

impl Sink for Http3Reply<'_> {
    fn has_room(&self) -> bool {
        !self.outgoing.is_blocked
    }

    fn is_waiting(&self) -> bool {
        self.outgoing.is_blocked || !self.outgoing.gathered.is_empty() && !self.outgoing.has_ended
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.stream.gone.get().is_some() {
            // The next write says so.
            self.outgoing.is_blocked = true;
            return 0;
        }
        self.put_allowed(data)
    }

    fn finish(&mut self, source: &impl Source) {
        // The end of a message without a body stands in its head: what a source has behind that is dropped.
        if self.outgoing.is_for_tunnel || self.stream.gone.get().is_some() || self.outgoing.ends_with_head {
            return;
        }
        if !self.outgoing.allowance.end() || !self.outgoing.is_whole() {
            self.outgoing.is_blocked = true;
            return;
        }
        if source.has_trailers() {
            let encoder = &mut self.connection.state.borrow_mut().codec.encoder;
            let gathered = &mut self.outgoing.gathered;
            let mut section = SectionWriter::trailers(encoder, self.id.into(), gathered);
            source.write_trailers(&mut section);
            section.finish();
        }
        self.outgoing.end(self.connection, self.id);
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let gone = || Err(RelayError::Write(io::ErrorKind::ConnectionReset.into()));
        if self.stream.gone.get().is_some() {
            return Poll::Ready(gone());
        }
        if data.is_empty() {
            self.outgoing.is_blocked = !self.outgoing.flush(self.connection, self.id);
            return match self.outgoing.is_blocked {
                _ if self.outgoing.allowance.is_violated() => Poll::Ready(Err(RelayError::Framing)),
                true => self.stream.pending(cx),
                false => Poll::Ready(Ok(0)),
            };
        }
        match self.put_allowed(data) {
            _ if self.outgoing.allowance.is_violated() => Poll::Ready(Err(RelayError::Framing)),
            0 => self.stream.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn left(&self) -> u64 {
        self.outgoing.allowance.left()
    }
}
