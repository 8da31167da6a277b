//! How much work one task does before it yields.
//!
//! A peer that always has more to send keeps the loops of its connection busy for ever. So each loop charges its work
//! to a quantum, and the task yields when that is spent: the task runs again after all others that can run, and after
//! the event loop has polled the kernel for events. The runtime's own budget does not count here: the sockets are ours.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll};

/// Bytes of one turn: some 25 to 50 us of work, beside which the way to the back (1 to 2 us) does not count.
const BYTES: usize = 64 * 1024;

/// What a step costs beside its bytes, as so many bytes.
const STEP_BYTES: usize = 256;

/// The cost of a byte of framing, in bytes of plain data: each is examined.
const FRAMING_BYTES: usize = 16;

/// The rest of a quantum.
#[derive(Debug)]
pub(crate) struct Quantum {
    left: usize,
}

impl Quantum {
    pub(crate) const fn new() -> Self {
        Self { left: BYTES }
    }

    /// Counts a step that has moved `len` bytes.
    #[inline]
    pub(crate) const fn take(&mut self, len: usize) {
        self.left = self.left.saturating_sub(len.saturating_add(STEP_BYTES));
    }

    /// Counts `len` bytes of framing that were decoded.
    #[inline]
    pub(crate) const fn take_framing(&mut self, len: usize) {
        self.left = self.left.saturating_sub(len.saturating_mul(FRAMING_BYTES));
    }

    /// Whether others have their turn now.
    #[inline]
    pub(crate) const fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Pending when nothing is left; the task then runs again behind all others.
    #[inline]
    pub(crate) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.is_spent() {
            return Poll::Ready(());
        }
        go_to_the_back(cx);
        Poll::Pending
    }
}

/// Has the task of `cx` run again after all others that can run.
#[cold]
fn go_to_the_back(cx: &mut Context<'_>) {
    // The runtime keeps the waker; what becomes of the future does not matter.
    let _pending = pin!(tokio::task::yield_now()).poll(cx);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_count_beside_their_bytes() {
        for (len, steps) in [(0, BYTES / STEP_BYTES), (1, BYTES.div_ceil(STEP_BYTES + 1)), (BYTES, 1)] {
            let mut quantum = Quantum::new();
            let mut taken = 0;
            while !quantum.is_spent() {
                quantum.take(len);
                taken += 1;
            }
            assert_eq!(taken, steps, "{len}");
        }
    }
}
