//! Detects a standing queue, as opposed to a burst, after K. Nichols and V. Jacobson, "Controlling Queue
//! Delay" (2012; RFC 8289).
//!
//! A queue that absorbs a burst is good; one that stands is only delay. It stands when for a whole interval no waiter was
//! served that had waited less than the target. From then on waiters that have waited longer than the target are removed,
//! so that those that are served have waited about that long, until waits are clearly below it again. RFC 8289 drops
//! one packet now and then, because senders slow down; clients of requests do not, so all that is late is dropped.

/// How long a wait may be in a queue that stands, and for how long it must have stood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayTarget {
    /// The wait that is acceptable for ever, in milliseconds.
    pub target_ms: u64,
    /// For how long every wait must have been longer, in milliseconds.
    pub interval_ms: u64,
}

#[derive(Debug)]
pub(super) struct OverloadDetector {
    limits: Option<DelayTarget>,
    /// The time since which no waiter was served that had waited less than the target.
    above_since_ms: Option<u64>,
    lasting: bool,
}

impl OverloadDetector {
    pub(super) const fn new(limits: Option<DelayTarget>) -> OverloadDetector {
        OverloadDetector { limits, above_since_ms: None, lasting: false }
    }

    /// Goes by other limits, and begins anew if they are others.
    pub(super) fn set_limits(&mut self, limits: Option<DelayTarget>) {
        if self.limits != limits {
            *self = OverloadDetector::new(limits);
        }
    }

    /// A waiter is served that has waited for `wait_ms`.
    pub(super) fn observe(&mut self, wait_ms: u64, now_ms: u64) {
        let Some(DelayTarget { target_ms, interval_ms }) = self.limits else { return };
        if wait_ms >= target_ms {
            let since_ms = *self.above_since_ms.get_or_insert(now_ms);
            self.lasting |= now_ms.saturating_sub(since_ms) >= interval_ms;
            return;
        }
        self.above_since_ms = None;
        // The waiters that are left when the late ones have gone have waited a little less than the target.
        if wait_ms < target_ms / 2 {
            self.lasting = false;
        }
    }

    /// The queue is empty.
    pub(super) fn end(&mut self) {
        (self.above_since_ms, self.lasting) = (None, false);
    }

    /// Whether a waiter that has waited for `wait_ms` has to leave.
    pub(super) fn is_overdue(&self, wait_ms: u64) -> bool {
        self.lasting && self.limits.is_some_and(|limits| wait_ms >= limits.target_ms)
    }
}
