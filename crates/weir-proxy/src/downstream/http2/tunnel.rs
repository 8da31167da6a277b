//! A stream as the client's end of a tunnel (RFC 9113 section 8.5, RFC 8441).

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::stream::Http2Stream;
use crate::downstream::stream_driver::{DrivenStream as _, StreamEnd};
use crate::net::buffer::BufferStock;
use crate::net::socket::Behind;
use crate::relay::tunnel::end::TunnelEnd;

impl TunnelEnd for Http2Stream {
    fn received(&self) -> &[u8] {
        self.handle.received()
    }

    fn consume(&mut self, len: usize) {
        self.handle.consume(len);
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        self.handle.poll_fill(cx, stock)
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], behind: Behind) -> Poll<io::Result<usize>> {
        self.handle.poll_write(cx, bytes, behind)
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.handle.poll_end(cx)
    }

    fn poll_aborted(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        self.handle.poll_aborted(cx)
    }

    fn abort(&mut self) {
        self.finish(StreamEnd::Aborted);
    }
}
