//! What limits by key have to do with one exchange: what they hold for it, and which of them has refused it.

use std::sync::Arc;

use super::MEMORY_KEPT_MAX;
use crate::net::clock::Instant;
use crate::responder::Answer;
use crate::state::limit::{LimitAnswer, LimitHold, LimitPlan};

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

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

    /// The status that the limit wants for its refusals; `None` when none has refused the exchange.
    pub(super) fn status_of_refusal(&self) -> Option<u16> {
        self.refusal.and(self.by.as_ref()).map(|plan| plan.config.status)
    }

    /// Adds to the answer what a client may know of the limit that has refused it: when it may come again, in fields of HTTP
    /// (draft-ietf-httpapi-ratelimit-headers) or of gRPC (its retry design, A6).
    pub(super) fn write_refusal(&self, answer: &mut Answer<'_>, is_grpc: bool) {
        let (Some(LimitAnswer::OverRate { retry_ns }), Some(plan)) = (self.refusal, &self.by) else { return };
        if is_grpc {
            let millis = retry_ns.div_ceil(1_000_000);
            answer.fields.push((b"grpc-retry-pushback-ms", millis.to_string().into_bytes().into()));
        }
        if let Some(rate) = plan.config.rate.filter(|_| plan.config.fields) {
            // The name needs no escapes: it is letters, digits and a few signs.
            let (name, quota) = (&plan.config.name, rate.burst);
            let window = rate.tokens.refill_ns().div_ceil(SECOND_NS);
            let reset = retry_ns.div_ceil(SECOND_NS);
            answer
                .fields
                .push((b"RateLimit-Policy", format!("\"{name}\";q={quota};w={window}").into_bytes().into()));
            answer.fields.push((b"RateLimit", format!("\"{name}\";r=0;t={reset}").into_bytes().into()));
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
