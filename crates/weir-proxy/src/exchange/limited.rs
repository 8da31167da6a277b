//! What limits by key have to do with one exchange: what they hold for it, and which of them has refused it.

use std::sync::Arc;

use super::MEMORY_KEPT_MAX;
use crate::net::clock::Instant;
use crate::state::limit::{LimitAnswer, LimitHold, LimitPlan};

/// The limits of one exchange.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    /// What limits hold until it is over.
    pub(super) holds: Vec<LimitHold>,
    /// The limits that were asked, by their places, and the keys: what was taken is given back when a later one refuses.
    pub(super) asked: Vec<(usize, u64)>,
    /// The text of a key.
    pub(super) text: Vec<u8>,
    /// The limit that has refused or delayed it.
    pub(super) by: Option<Arc<LimitPlan>>,
    /// Why it was refused.
    pub(super) refusal: Option<LimitAnswer>,
}

impl Limited {
    /// Whether any limit has to do with it.
    #[inline]
    pub(super) fn is_any(&self) -> bool {
        !self.holds.is_empty() || self.by.is_some()
    }

    /// The exchange is over: counts its response where limits count responses, and gives back its places.
    #[cold]
    pub(super) fn settle(&mut self, status: u16, now: Instant) {
        for hold in self.holds.drain(..) {
            hold.plan.count_response(hold.key, status, now);
        }
    }

    /// Lets go of everything; keeps the memory.
    pub(super) fn reset(&mut self) {
        self.holds.clear();
        self.asked.clear();
        self.text.clear();
        self.text.shrink_to(MEMORY_KEPT_MAX);
        (self.by, self.refusal) = (None, None);
    }
}
