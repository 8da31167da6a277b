//! The body of a message, which DATA frames have brought.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};

use weir_http::FieldWriter;
use weir_observe::Cause;

use super::shared::ConnectionSide;
use super::shared::{SharedConnection, StreamShared};
use crate::relay::ends::{RelayError, Source};
use crate::state::routes::stripped_fields::StrippedFields;

/// The body of a stream on its way in.
#[derive(Debug)]
pub(crate) struct IncomingBody {
    /// What was taken from the inbox.
    bytes: Vec<u8>,
    /// How much of that was taken by the relay.
    taken: usize,
    /// Whether the inbox holds nothing more, now or later.
    has_ended: bool,
    /// Whether what is received is for a tunnel: the message has no body.
    pub(crate) is_for_tunnel: bool,
    pub(crate) received: u64,
    pub(crate) bytes_max: u64,
    /// The length that the head has announced.
    pub(crate) announced: Option<u64>,
    /// Trailers that stop here.
    pub(crate) stripped: Option<Arc<StrippedFields>>,
}

impl IncomingBody {
    /// What is here and not yet taken.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.taken..]
    }

    pub(super) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            taken: 0,
            has_ended: false,
            is_for_tunnel: false,
            received: 0,
            bytes_max: u64::MAX,
            announced: None,
            stripped: None,
        }
    }
}

/// A body that is read.
pub(crate) struct Body<'a, S: ConnectionSide> {
    pub(super) connection: &'a SharedConnection<S>,
    pub(super) stream: &'a StreamShared<S>,
    pub(super) incoming: &'a mut IncomingBody,
}

impl<S: ConnectionSide> Body<'_, S> {
    /// Counts bytes as passed on: the peer may send as many more.
    pub(super) fn consume(&mut self, len: usize) {
        self.incoming.taken += len;
        self.connection.state.borrow_mut().consumed(self.stream.id, len);
    }

    /// Takes what is in the inbox, once everything of before is taken.
    pub(super) fn refill(&mut self) {
        let incoming = &mut *self.incoming;
        if incoming.taken == incoming.bytes.len() && !incoming.has_ended {
            incoming.bytes.clear();
            incoming.taken = 0;
            let mut inbox = self.stream.inbox.borrow_mut();
            std::mem::swap(&mut incoming.bytes, &mut inbox.body);
            incoming.has_ended = inbox.has_ended;
            incoming.received += incoming.bytes.len() as u64;
        }
    }

    /// Whether the peer has ended its direction, and everything was taken.
    pub(super) fn is_over(&self) -> bool {
        self.incoming.has_ended && self.incoming.taken == self.incoming.bytes.len()
    }
}

impl<S: ConnectionSide> Source for Body<'_, S> {
    fn data(&self) -> &[u8] {
        if self.incoming.is_for_tunnel { &[] } else { self.incoming.bytes() }
    }

    fn take(&mut self, len: usize) {
        self.consume(len);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        if let Some(Cause::Rule(rule)) = self.stream.gone.get() {
            return Err(RelayError::Broken(rule));
        }
        if !self.incoming.is_for_tunnel {
            self.refill();
        }
        match self.incoming.received > self.incoming.bytes_max {
            true => Err(RelayError::TooLarge),
            false => Ok(0),
        }
    }

    fn is_finished(&self) -> bool {
        self.incoming.is_for_tunnel || self.is_over()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        let inbox = self.stream.inbox.borrow();
        if !inbox.body.is_empty() || inbox.has_ended {
            return Poll::Ready(Ok(()));
        }
        match self.stream.gone.get() {
            Some(Cause::Closed) => Poll::Ready(Err(RelayError::Truncated)),
            Some(_) => Poll::Ready(Err(RelayError::Read(io::ErrorKind::ConnectionReset.into()))),
            None => self.stream.pending(cx),
        }
    }

    fn has_trailers(&self) -> bool {
        self.stream.inbox.borrow().trailers.is_some()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        let inbox = self.stream.inbox.borrow();
        let Some(trailers) = &inbox.trailers else { return };
        for (name, value) in trailers.fields() {
            if self.incoming.stripped.as_ref().is_none_or(|stripped| !stripped.covers(name)) {
                out.field(name, value);
            }
        }
    }
}
