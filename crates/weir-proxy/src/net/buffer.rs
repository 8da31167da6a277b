//! Byte buffers and pipes of a worker: taken when a socket is ready, given back when empty.
//!
//! An idle connection holds none. A buffer that is dropped returns to the stock of its worker, so a worker that
//! is warm allocates nothing. Must not be sent to another worker.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::task::{Context, Waker};

use super::pipe::PipeEnds;

/// Memory that each buffer of an exchange keeps from one request to the next; more goes back to the allocator.
pub(crate) const MEMORY_KEPT_MAX: usize = 8 * 1024;

/// Free buffers that a worker keeps at most; beyond it they go back to the allocator.
const KEPT_MAX: usize = 256;

/// Free buffers that are kept when the load has fallen, for the remaining connections.
const KEPT_AT_LEAST: usize = 16;

/// The bytes of a large buffer. What is copied or encrypted in such pieces leaves in fewer and larger packets: a GiB over TLS costs a
/// quarter less CPU than in pieces of 16 KiB (decision 78).
const LARGE: usize = 64 * 1024;

/// Large buffers that a worker has at most, 1 MiB in all; beyond it a peer that sends much is read in ordinary ones.
const LARGE_MAX: usize = 16;

/// Bytes that are kept outside a buffer at most while the next ones are waited for.
const ASIDE_MAX: usize = 4 * 1024;

/// Pipes that a worker keeps at most; each has two descriptors.
const PIPES_KEPT_MAX: usize = 32;

/// The free buffers of one worker, all of one size, and its free pipes.
#[derive(Debug)]
pub struct BufferStock {
    size: usize,
    free: RefCell<Vec<Box<[u8]>>>,
    /// The large buffers, where they are larger than the others.
    large: Option<Rc<BufferStock>>,
    /// Buffers that there are, free or not.
    alive: Cell<usize>,
    pipes: RefCell<Vec<PipeEnds>>,
    /// Whether the task that runs now may take no buffer for more bytes.
    is_exhausted: Cell<bool>,
    /// Wakers of the tasks that found no buffer, each once.
    waiting: RefCell<BTreeMap<usize, Waker>>,
}

impl BufferStock {
    /// A stock of buffers of `size` bytes each, far below 4 GiB; allocates nothing yet.
    pub fn new(size: usize) -> Rc<Self> {
        let large = (size < LARGE).then(|| Self::with_large(LARGE, None));
        Self::with_large(size, large)
    }

    fn with_large(size: usize, large: Option<Rc<Self>>) -> Rc<Self> {
        Rc::new(Self {
            size,
            free: RefCell::default(),
            large,
            alive: Cell::new(0),
            pipes: RefCell::default(),
            is_exhausted: Cell::new(false),
            waiting: RefCell::default(),
        })
    }

    /// Takes a buffer, empty, from the stock or from the allocator.
    pub(crate) fn take(self: &Rc<Self>) -> Buffer {
        let bytes = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.alive.set(self.alive.get() + 1);
            vec![0; self.size].into_boxed_slice()
        });
        Buffer { bytes, start: 0, end: 0, stock: Some(Rc::clone(self)) }
    }

    /// A buffer for a peer that sends more than an ordinary one holds: a large one, while there are few of them.
    pub(crate) fn take_large(self: &Rc<Self>) -> Buffer {
        match &self.large {
            Some(large) if large.counts()[0] < LARGE_MAX => large.take(),
            _ => self.take(),
        }
    }

    /// The size of an ordinary buffer.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Gives most of the free buffers back to the allocator, all of the large ones.
    pub(crate) fn shrink(&self) {
        self.keep(KEPT_AT_LEAST);
        if let Some(large) = &self.large {
            large.keep(0);
        }
    }

    /// Keeps so many free buffers at most.
    fn keep(&self, count: usize) {
        let mut free = self.free.borrow_mut();
        let over = free.len().saturating_sub(count);
        free.truncate(count);
        self.alive.set(self.alive.get() - over);
    }

    /// Buffers that are taken, and buffers that are free, large ones included.
    pub(crate) fn counts(&self) -> [usize; 2] {
        let free = self.free.borrow().len();
        let [taken, free_large] = self.large.as_ref().map_or([0; 2], |large| large.counts());
        [self.alive.get() - free + taken, free + free_large]
    }

    /// Says whether tasks that run from now on may take no buffer for more bytes.
    pub(crate) fn set_exhausted(&self, is_exhausted: bool) {
        self.is_exhausted.set(is_exhausted);
    }

    /// Whether there is no buffer for more bytes; `cx` is then woken when it is worth another try.
    #[inline]
    pub(crate) fn is_exhausted_for(&self, cx: &Context<'_>) -> bool {
        let is_exhausted = self.is_exhausted.get();
        if is_exhausted {
            self.note_waiting(cx);
        }
        is_exhausted
    }

    #[cold]
    fn note_waiting(&self, cx: &Context<'_>) {
        self.waiting.borrow_mut().insert(cx.waker().data() as usize, cx.waker().clone());
    }

    /// Whether a task waits for a buffer.
    #[inline]
    pub(crate) fn has_waiting(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Wakes the tasks that wait for a buffer.
    #[cold]
    pub(crate) fn wake_waiting(&self) {
        self.waiting.take().into_values().for_each(Waker::wake);
    }

    /// Takes an empty pipe; `None` when the system has none to give.
    pub(crate) fn take_pipe(&self) -> Option<PipeEnds> {
        self.pipes.borrow_mut().pop().or_else(PipeEnds::new)
    }

    /// Takes back a pipe, which has to be empty.
    pub(crate) fn put_pipe_back(&self, ends: PipeEnds) {
        let mut pipes = self.pipes.borrow_mut();
        if pipes.len() < PIPES_KEPT_MAX {
            pipes.push(ends);
        }
    }

    /// Closes the pipes that are free; whether there were any.
    #[cold]
    pub(crate) fn close_pipes(&self) -> bool {
        !self.pipes.take().is_empty()
    }

    fn put_back(&self, bytes: Box<[u8]>) {
        let mut free = self.free.borrow_mut();
        if free.len() < KEPT_MAX && bytes.len() == self.size {
            free.push(bytes);
        } else {
            self.alive.set(self.alive.get() - 1);
        }
    }
}

/// A run of received bytes inside a fixed piece of memory.
#[derive(Debug)]
pub(crate) struct Buffer {
    bytes: Box<[u8]>,
    // Half as long as a `usize`, since every connection and idle server connection has two of them.
    start: u32,
    end: u32,
    /// Where the memory is from, if it is from a stock.
    stock: Option<Rc<BufferStock>>,
}

impl Buffer {
    /// A buffer as long as these bytes, which belongs to no stock.
    pub(crate) fn holding(bytes: &[u8]) -> Self {
        Self { bytes: bytes.into(), start: 0, end: bytes.len() as u32, stock: None }
    }

    /// The bytes that were received and not yet consumed.
    pub(crate) fn filled(&self) -> &[u8] {
        &self.bytes[self.start as usize..self.end as usize]
    }

    /// The same bytes, for decoding in place.
    pub(crate) fn filled_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start as usize..self.end as usize]
    }

    /// How many bytes wait to be consumed.
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether nothing waits to be consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Whether no further byte fits, even after moving what waits to the front.
    pub(crate) fn is_full(&self) -> bool {
        self.len() == self.bytes.len()
    }

    /// The free space behind the received bytes; moves them to the front when the end is reached.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.start > 0 && (self.is_empty() || self.end as usize == self.bytes.len()) {
            self.bytes.copy_within(self.start as usize..self.end as usize, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.bytes[self.end as usize..]
    }

    /// Counts `len` bytes as received into [`Buffer::space`].
    pub(crate) fn fill(&mut self, len: usize) {
        debug_assert!(self.end as usize + len <= self.bytes.len());
        self.end += len as u32;
    }

    /// Makes room for `size` bytes in all, far below 4 GiB: for the rare head that is longer than a usual buffer.
    pub(crate) fn grow(&mut self, size: usize) {
        if size > self.bytes.len() {
            let mut bytes = vec![0; size].into_boxed_slice();
            let len = self.len();
            bytes[..len].copy_from_slice(self.filled());
            (self.bytes, self.start, self.end) = (bytes, 0, len as u32);
        }
    }

    /// Gives the memory back to the stock and keeps the bytes in as much as they need, if they are few: the next ones may be long in coming.
    pub(crate) fn set_aside(&mut self) {
        if !self.is_aside() && self.len() <= ASIDE_MAX {
            *self = Self::holding(self.filled());
        }
    }

    /// Whether its memory is not that of a stock.
    pub(crate) fn is_aside(&self) -> bool {
        self.stock.is_none()
    }

    /// Drops the first `len` unconsumed bytes.
    pub(crate) fn consume(&mut self, len: usize) {
        debug_assert!(len <= self.len());
        self.start += len as u32;
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(stock) = &self.stock {
            stock.put_back(std::mem::take(&mut self.bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_taken_again() {
        let stock = BufferStock::new(64);
        let first = stock.take();
        let address = first.bytes.as_ptr();
        drop(first);
        assert_eq!(stock.take().bytes.as_ptr(), address);
    }

    #[test]
    fn buffers_are_counted_wherever_they_are() {
        let stock = BufferStock::new(8);
        assert_eq!(stock.counts(), [0, 0]);
        let mut taken: Vec<Buffer> = (0..KEPT_MAX + 3).map(|_| stock.take()).collect();
        assert_eq!(stock.counts(), [KEPT_MAX + 3, 0]);
        taken[0].grow(64);
        drop(taken.remove(0));
        assert_eq!(stock.counts(), [KEPT_MAX + 2, 0], "one of another size is not kept");
        drop(taken);
        assert_eq!(stock.counts(), [0, KEPT_MAX]);
    }

    #[test]
    fn few_buffers_are_large() {
        let stock = BufferStock::new(8);
        let mut taken: Vec<Buffer> = (0..=LARGE_MAX).map(|_| stock.take_large()).collect();
        let large = |taken: &[Buffer]| taken.iter().filter(|buffer| buffer.bytes.len() == LARGE).count();
        assert_eq!((large(&taken), stock.counts()), (LARGE_MAX, [LARGE_MAX + 1, 0]));
        taken.remove(0);
        taken.push(stock.take_large());
        assert_eq!(large(&taken), LARGE_MAX, "one that was given back is taken again");
        taken.clear();
        assert_eq!(stock.counts(), [0, LARGE_MAX + 1]);
        stock.shrink();
        assert_eq!(stock.counts(), [0, 1]);
        assert_eq!(BufferStock::new(LARGE).take_large().bytes.len(), LARGE);
    }

    #[test]
    fn few_bytes_are_kept_without_a_buffer() {
        let stock = BufferStock::new(2 * ASIDE_MAX);
        let mut buffer = stock.take();
        buffer.space()[..3].copy_from_slice(b"abc");
        buffer.fill(3);
        buffer.consume(1);
        buffer.set_aside();
        assert_eq!((buffer.filled(), buffer.is_aside(), buffer.is_full()), (&b"bc"[..], true, true));
        assert_eq!(stock.counts(), [0, 1], "its memory is free");
        buffer.grow(5);
        buffer.set_aside();
        assert_eq!((buffer.len(), buffer.space().len()), (2, 3), "it has none to give back");
        let mut full = stock.take();
        full.fill(ASIDE_MAX + 1);
        full.set_aside();
        assert!(!full.is_aside(), "it holds too much");
    }

    #[test]
    fn space_moves_what_waits_to_the_front() {
        let stock = BufferStock::new(8);
        let mut buffer = stock.take();
        buffer.space().copy_from_slice(b"abcdefgh");
        buffer.fill(8);
        assert!(buffer.is_full());
        buffer.consume(6);
        assert_eq!(buffer.space().len(), 6);
        assert_eq!(buffer.filled(), b"gh");
    }
}
