//! An end of a tunnel in memory, whose peer is in the hands of a test: a stream as protocols have it that carry several on a connection.

use std::cell::{Cell, Ref, RefCell};
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::end::TunnelEnd;
use crate::net::buffer::BufferStock;
use crate::net::socket::Behind;

/// The most that one read finds: it divides no size of a buffer.
const READ_MAX: usize = 1_000;

/// The peer of a [`MemoryEnd`], shared with it.
#[derive(Debug, Default)]
pub(crate) struct MemoryPeer {
    /// All that the peer has sent, and how much of it was read.
    sent: RefCell<Vec<u8>>,
    read: Cell<usize>,
    has_ended: Cell<bool>,
    has_aborted: Cell<bool>,
    /// All that has come, and for how much more there is room.
    got: RefCell<Vec<u8>>,
    room: Cell<usize>,
    got_end: Cell<bool>,
    got_abort: Cell<bool>,
    is_dropped: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl MemoryPeer {
    /// A peer that takes `room` bytes at first.
    pub(crate) fn new(room: usize) -> Rc<Self> {
        Rc::new(Self { room: Cell::new(room), ..Self::default() })
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        assert!(!self.has_ended.get(), "nothing is sent behind the end");
        if !self.has_aborted.get() {
            self.sent.borrow_mut().extend_from_slice(bytes);
        }
        self.wake();
    }

    /// Ends its direction.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.wake();
    }

    /// Aborts both directions.
    pub(crate) fn abort(&self) {
        self.has_aborted.set(true);
        self.wake();
    }

    pub(crate) fn make_room(&self, len: usize) {
        self.room.set(self.room.get().saturating_add(len));
        self.wake();
    }

    pub(crate) fn sent(&self) -> Ref<'_, Vec<u8>> {
        self.sent.borrow()
    }

    pub(crate) fn got(&self) -> Ref<'_, Vec<u8>> {
        self.got.borrow()
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.get()
    }

    pub(crate) fn has_aborted(&self) -> bool {
        self.has_aborted.get()
    }

    /// Whether the end of the other direction has come.
    pub(crate) fn got_end(&self) -> bool {
        self.got_end.get()
    }

    /// Whether it was told that the tunnel is incomplete.
    pub(crate) fn got_abort(&self) -> bool {
        self.got_abort.get()
    }

    /// Whether nothing holds its end any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.is_dropped.get()
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn wait<T>(&self, cx: &Context<'_>) -> Poll<T> {
        self.waker.replace(Some(cx.waker().clone()));
        Poll::Pending
    }

    fn aborted(&self) -> Option<io::Error> {
        self.has_aborted.get().then(|| io::ErrorKind::ConnectionReset.into())
    }
}

/// The end that the tunnel has.
#[derive(Debug)]
pub(crate) struct MemoryEnd {
    peer: Rc<MemoryPeer>,
    received: Vec<u8>,
    aborts: bool,
}

impl MemoryEnd {
    pub(crate) fn new(peer: &Rc<MemoryPeer>) -> Self {
        Self { peer: Rc::clone(peer), received: Vec::new(), aborts: false }
    }
}

impl TunnelEnd for MemoryEnd {
    fn received(&self) -> &[u8] {
        &self.received
    }

    fn consume(&mut self, len: usize) {
        self.received.drain(..len);
    }

    fn poll_fill(&mut self, cx: &mut Context<'_>, _stock: &Rc<BufferStock>) -> Poll<io::Result<usize>> {
        assert!(self.received.is_empty(), "what was read before is consumed first");
        let peer = &self.peer;
        let (sent, read) = (peer.sent.borrow(), peer.read.get());
        let len = (sent.len() - read).min(READ_MAX);
        if len > 0 {
            self.received.extend_from_slice(&sent[read..read + len]);
            peer.read.set(read + len);
            return Poll::Ready(Ok(len));
        }
        match peer.aborted() {
            _ if peer.has_ended.get() => Poll::Ready(Ok(0)),
            Some(error) => Poll::Ready(Err(error)),
            None => peer.wait(cx),
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8], _behind: Behind) -> Poll<io::Result<usize>> {
        let peer = &self.peer;
        assert!(!peer.got_end.get(), "nothing is written behind the end");
        if let Some(error) = peer.aborted() {
            return Poll::Ready(Err(error));
        }
        let len = peer.room.get().min(bytes.len());
        if len == 0 {
            return peer.wait(cx);
        }
        peer.got.borrow_mut().extend_from_slice(&bytes[..len]);
        peer.room.set(peer.room.get() - len);
        Poll::Ready(Ok(len))
    }

    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        self.peer.got_end.set(true);
        Poll::Ready(())
    }

    fn poll_aborted(&mut self, cx: &mut Context<'_>) -> Option<io::Error> {
        let aborted = self.peer.aborted();
        if aborted.is_none() {
            let _pending: Poll<()> = self.peer.wait(cx);
        }
        aborted
    }

    fn abort(&mut self) {
        self.aborts = true;
    }
}

impl Drop for MemoryEnd {
    fn drop(&mut self) {
        self.peer.got_abort.set(self.aborts);
        self.peer.is_dropped.set(true);
    }
}
