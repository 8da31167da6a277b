//! What the admin listener does for one client at a time, since each takes memory or time of a processor.

use std::sync::atomic::{AtomicBool, Ordering};

/// Something of which there is one in the process at a time.
pub(super) struct OneAtATime(AtomicBool);

/// The one that there is, until it is dropped.
pub(super) struct TakenTurn(&'static AtomicBool);

impl OneAtATime {
    pub(super) const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// `None` while there is another one.
    pub(super) fn take(&'static self) -> Option<TakenTurn> {
        (!self.0.swap(true, Ordering::SeqCst)).then_some(TakenTurn(&self.0))
    }
}

impl Drop for TakenTurn {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_until_it_is_dropped() {
        static TURN: OneAtATime = OneAtATime::new();
        let taken = TURN.take();
        assert!(taken.is_some() && TURN.take().is_none());
        drop(taken);
        assert!(TURN.take().is_some());
    }
}
