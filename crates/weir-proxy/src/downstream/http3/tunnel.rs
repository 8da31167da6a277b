//! A stream as the client's end of a tunnel (RFC 9114 section 4.4, RFC 9220).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_observe::Cause;

use super::incoming::ReadRefusal;
use super::stream::Http3Stream;
use crate::downstream::stream_driver::{DrivenStream as _, StreamEnd};
use crate::net::buffer::BufferStock;
use crate::net::socket::Behind;
use crate::relay::tunnel::end::TunnelEnd;

/// An end that was given up.
fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl TunnelEnd for Http3Stream {
    fn received(&self) -> &[u8] {
        self.incoming.bytes()
    }

    fn consume(&mut self, len: usize) {
        self.incoming.consume(len);
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        match self.incoming.refill(&self.connection, self.id) {
            Ok(()) => return Poll::Ready(Ok(self.incoming.bytes().len())),
            Err(ReadRefusal::Blocked) => {}
            Err(ReadRefusal::Reset) => self.stream.leave(Cause::Reset),
            Err(ReadRefusal::Broken(rule)) => {
                self.connection.link.wake();
                self.stream.leave(Cause::Rule(rule));
            }
        }
        match self.gone() {
            Some(_) => Poll::Ready(Err(reset())),
            None => self.stream.pending(cx),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], _behind: Behind) -> Poll<io::Result<usize>> {
        if self.gone().is_some() {
            return Poll::Ready(Err(reset()));
        }
        let len = self.outgoing.put(&self.connection, self.id, bytes);
        // Nothing of a tunnel waits for more of it.
        self.outgoing.flush(&self.connection, self.id);
        match len {
            0 if !bytes.is_empty() => self.stream.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.outgoing.flush(&self.connection, self.id) {
            _ if self.gone().is_some() => Poll::Ready(Err(reset())),
            true => Poll::Ready(Ok(())),
            false => self.stream.pending(cx),
        }
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        if self.gone().is_none() && self.outgoing.is_whole() {
            self.outgoing.end(&self.connection, self.id);
        }
        Poll::Ready(())
    }

    fn poll_aborted(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        if self.gone().is_none() {
            self.stream.watch(cx);
        }
        self.gone().map(|_| reset())
    }

    fn abort(&mut self) {
        self.finish(StreamEnd::Aborted);
    }
}
