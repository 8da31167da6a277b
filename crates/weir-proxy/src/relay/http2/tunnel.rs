//! A stream as one end of a tunnel (RFC 9113 section 8.5, RFC 8441).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_http::h2::ErrorCode;

use super::handle::StreamHandle;
use super::shared::ConnectionSide;
use crate::net::buffer::BufferStock;
use crate::net::socket::Behind;
use crate::relay::tunnel::end::TunnelEnd;

/// An end that was given up.
fn reset() -> io::Error {
    io::ErrorKind::ConnectionReset.into()
}

impl<S: ConnectionSide> StreamHandle<S> {
    fn aborted(&self) -> Option<io::Error> {
        self.gone().map(|_| reset())
    }
}

impl<S: ConnectionSide> TunnelEnd for StreamHandle<S> {
    fn received(&self) -> &[u8] {
        self.incoming.bytes()
    }

    fn consume(&mut self, len: usize) {
        self.incoming().consume(len);
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        let mut body = self.incoming();
        body.refill();
        match body.incoming.bytes().len() {
            0 if body.is_over() => Poll::Ready(Ok(0)),
            0 => match self.aborted() {
                Some(error) => Poll::Ready(Err(error)),
                None => self.stream.pending(cx),
            },
            len => Poll::Ready(Ok(len)),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], _behind: Behind) -> Poll<io::Result<usize>> {
        if let Some(error) = self.aborted() {
            return Poll::Ready(Err(error));
        }
        match self.outgoing().append(bytes) {
            0 if !bytes.is_empty() => self.stream.pending(cx),
            len => Poll::Ready(Ok(len)),
        }
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        if self.gone().is_none() {
            self.outgoing().end();
        }
        Poll::Ready(())
    }

    fn poll_aborted(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        self.poll_gone(cx).map(|_| reset())
    }

    fn abort(&mut self) {
        self.finish(ErrorCode::CANCEL);
    }
}
