//! The streams of a connection that are not over (RFC 9113 section 5.1), and the last ones that ended before their time.

use super::window::{ReceiveWindow, SendWindow};

/// Streams that were reset before the peer had ended its direction, as far as they are remembered one by one: what the peer sent before
/// it knew is no fault.
const RESETS_REMEMBERED: usize = 16;

/// One stream.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) send: SendWindow,
    pub(super) receive: ReceiveWindow,
    /// Bytes of the body that are still to come; `None` when that is unknown.
    pub(super) expected: Option<u64>,
    /// Bytes that were received and not consumed.
    pub(super) held: u32,
    /// Whether the peer has ended its direction.
    pub(super) remote_ended: bool,
    /// Whether we have ended ours.
    pub(super) local_ended: bool,
    /// Whether either side has reset it.
    pub(super) is_reset: bool,
}

impl Stream {
    /// Whether both sides have ended it and it holds nothing.
    #[inline]
    fn is_finished(&self) -> bool {
        self.remote_ended && self.local_ended && self.held == 0
    }
}

/// The streams in the order of their numbers, which is that in which they were opened.
#[derive(Debug, Default)]
pub(super) struct Streams {
    open: Vec<Stream>,
    reset: [u32; RESETS_REMEMBERED],
    next_reset: usize,
    /// The greatest number that was among them and is no more.
    reset_before: u32,
}

impl Streams {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether there are as many as `max` that are not over for the peer either. A stream that both sides have ended is over for it with the
    /// last frame, and the next one may come right behind that, before its exchange is.
    pub(super) fn has_reached(&self, max: usize) -> bool {
        self.open.len() >= max && self.open.iter().filter(|stream| !stream.is_finished()).count() >= max
    }

    /// Adds a stream whose number is greater than all.
    pub(super) fn push(&mut self, stream: Stream) {
        debug_assert!(self.open.last().is_none_or(|last| last.id < stream.id));
        self.open.push(stream);
    }

    #[inline]
    pub(super) fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        let at = self.position(id)?;
        self.open.get_mut(at)
    }

    pub(super) fn get(&self, id: u32) -> Option<&Stream> {
        self.open.get(self.position(id)?)
    }

    #[inline]
    fn position(&self, id: u32) -> Option<usize> {
        let last = self.open.len().checked_sub(1)?;
        if self.open[last].id == id {
            return Some(last);
        }
        self.open.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Forgets a stream.
    pub(super) fn remove(&mut self, id: u32) -> Option<Stream> {
        let at = self.position(id)?;
        Some(self.open.remove(at))
    }

    /// Forgets a stream that both sides have ended and that holds nothing; whether it is such a one.
    #[inline]
    pub(super) fn remove_finished(&mut self, id: u32) -> bool {
        let Some(at) = self.position(id) else { return false };
        let is_finished = self.open[at].is_finished();
        if is_finished {
            self.open.remove(at);
        }
        is_finished
    }

    /// Gives back the memory that is not used.
    pub(super) fn shrink(&mut self) {
        self.open.shrink_to_fit();
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Stream> {
        self.open.iter_mut()
    }

    /// Remembers a stream on which the peer may still send something that is no fault.
    pub(super) fn remember_reset(&mut self, id: u32) {
        let forgotten = std::mem::replace(&mut self.reset[self.next_reset], id);
        self.reset_before = self.reset_before.max(forgotten);
        self.next_reset = (self.next_reset + 1) % RESETS_REMEMBERED;
    }

    /// Whether a stream that is over was reset, or may have been: of those before the ones that are remembered, nothing is known.
    pub(super) fn was_reset(&self, id: u32) -> bool {
        id <= self.reset_before || self.reset.contains(&id)
    }
}
