//! Flow-control windows (RFC 9113 section 5.2): what one endpoint may still send.

use super::frame::WINDOW_MAX;
use super::settings::INITIAL_WINDOW;

/// What the peer may still send to us, and what it gets back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiveWindow {
    /// Where it is filled up to.
    size: u32,
    /// What the peer may still send, as it knows. Negative after our first settings have made the window smaller.
    left: i64,
    /// What it gets back and has not been told.
    due: u32,
}

impl ReceiveWindow {
    /// A full one.
    pub(super) const fn new(size: u32) -> Self {
        Self { size, left: size as i64, due: 0 }
    }

    /// One of which the peer does not know yet how small it is: until it does, it may send as much as at first (RFC 9113 section
    /// 6.9.3).
    pub(super) const fn not_known_yet(size: u32) -> Self {
        let left = if size > INITIAL_WINDOW { size } else { INITIAL_WINDOW };
        Self { size, left: left as i64, due: 0 }
    }

    /// The peer knows now how small it was made.
    pub(super) fn become_known(&mut self, size: u32) {
        self.left -= i64::from(INITIAL_WINDOW.saturating_sub(size));
    }

    pub(super) const fn size(self) -> u32 {
        self.size
    }

    /// Counts what was received; `false` when the peer was not allowed to send so much.
    #[must_use]
    pub(super) fn take(&mut self, len: u32) -> bool {
        let fits = i64::from(len) <= self.left;
        self.left -= if fits { i64::from(len) } else { 0 };
        fits
    }

    /// Gives back what was taken.
    pub(super) fn give(&mut self, len: u32) {
        self.due += len;
    }

    /// Raises the size, up to the greatest there is.
    pub(super) fn grow(&mut self, size: u32) {
        let size = size.min(WINDOW_MAX);
        self.due += size.saturating_sub(self.size);
        self.size = self.size.max(size);
    }

    /// What the peer is to be told now: nothing as long as it can send half of the window.
    pub(super) fn announce(&mut self) -> Option<u32> {
        if self.due == 0 || self.due < self.size / 2 {
            return None;
        }
        self.left += i64::from(self.due);
        Some(std::mem::take(&mut self.due))
    }
}

/// What we may still send. Negative after the peer has made all windows smaller (RFC 9113 section 6.9.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SendWindow(i64);

impl SendWindow {
    pub(super) const fn new(size: u32) -> Self {
        Self(size as i64)
    }

    /// What may be sent now.
    pub(super) fn left(self) -> usize {
        usize::try_from(self.0).unwrap_or(0)
    }

    pub(super) fn take(&mut self, len: usize) {
        debug_assert!(len <= self.left());
        self.0 -= len as i64;
    }

    /// Opens it further, or closes it when `by` is negative; `false` when it exceeds the greatest size.
    #[must_use]
    pub(super) fn move_by(&mut self, by: i64) -> bool {
        self.0 += by;
        self.0 <= i64::from(WINDOW_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peer_is_told_when_half_is_used() {
        let mut window = ReceiveWindow::new(100);
        assert!(window.take(100) && !window.take(1));
        window.give(49);
        assert_eq!(window.announce(), None);
        window.give(1);
        assert_eq!(window.announce(), Some(50));
        assert!(window.take(50) && !window.take(1));
    }

    #[test]
    fn a_larger_window_is_announced() {
        let mut window = ReceiveWindow::new(100);
        window.grow(1_000);
        assert_eq!(window.announce(), Some(900));
        window.grow(10);
        assert_eq!((window.size(), window.announce()), (1_000, None), "it never shrinks");
        window.grow(u32::MAX);
        assert_eq!(window.size(), WINDOW_MAX);
    }

    #[test]
    fn a_window_may_be_negative() {
        let mut window = SendWindow::new(10);
        window.take(10);
        assert!(window.move_by(-5));
        assert_eq!(window.left(), 0);
        assert!(window.move_by(6));
        assert_eq!(window.left(), 1);
        assert!(!window.move_by(WINDOW_MAX.into()));
    }
}
