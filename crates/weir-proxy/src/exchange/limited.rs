//! What limits by key have to do with one exchange: what they hold for it, and which of them has refused it.

use std::sync::Arc;

use weir_config::AccessList;

use super::MEMORY_KEPT_MAX;
use crate::net::clock::Instant;
use crate::responder::Answer;
use crate::state::limit::{LimitAnswer, LimitHold, LimitPlan};
use crate::state::snapshot::rule_name;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The limits of one exchange.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    /// Whether any was asked: one branch for exchanges without limits, which are most.
    pub(super) is_asked: bool,
    /// What limits hold until it is over.
    pub(super) holds: Vec<LimitHold>,
    /// The limits that were asked, by their places, and the keys: what was taken is given back when a later one refuses.
    pub(super) asked: Vec<(usize, u64)>,
    /// The text of a key.
    pub(super) text: Vec<u8>,
    /// The limit or list that has refused or delayed it.
    pub(super) by: Option<RuleInForce>,
    /// What the limit has said that has refused it.
    pub(super) refusal: Option<LimitAnswer>,
    /// What a list says of it.
    pub(super) tag: Vec<u8>,
}

/// A limit or a list that has stopped a request.
#[derive(Debug, Clone)]
pub(super) enum RuleInForce {
    Limit(Arc<LimitPlan>),
    List(Arc<AccessList>),
}

impl Limited {
    /// The exchange is over: counts its response where limits count responses, and gives back its places.
    #[cold]
    pub(super) fn settle(&mut self, status: u16, now: Instant) {
        for hold in self.holds.drain(..) {
            hold.plan.count_response(hold.key, status, now);
        }
    }

    /// The status that the limit or the list wants for its refusals; `None` when none has refused the exchange.
    pub(super) fn status_of_refusal(&self) -> Option<u16> {
        match self.by.as_ref()? {
            RuleInForce::Limit(plan) => self.refusal.map(|_| plan.config.status),
            RuleInForce::List(list) => Some(list.status),
        }
    }

    /// The name of the limit or the list that has refused or delayed it; empty without one.
    pub(super) fn name(&self) -> &str {
        match &self.by {
            Some(RuleInForce::Limit(plan)) => &plan.config.name,
            Some(RuleInForce::List(list)) => &list.name,
            None => "",
        }
    }

    /// The same in words, as snapshots have them.
    pub(super) fn rule_name(&self) -> Option<String> {
        Some(match self.by.as_ref()? {
            RuleInForce::Limit(plan) => rule_name("limit", &plan.config.name),
            RuleInForce::List(list) => rule_name("list", &list.name),
        })
    }

    /// Adds to the answer what a client may know of the limit that has refused it: when it may come again, in fields of HTTP
    /// (draft-ietf-httpapi-ratelimit-headers) or of gRPC (its retry design, A6).
    pub(super) fn write_refusal(&self, answer: &mut Answer<'_>, is_grpc: bool) {
        let (Some(LimitAnswer::OverRate { retry_ns }), Some(RuleInForce::Limit(plan))) =
            (self.refusal, &self.by)
        else {
            return;
        };
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
    #[cold]
    pub(super) fn reset(&mut self) {
        self.is_asked = false;
        self.holds.clear();
        self.asked.clear();
        self.text.clear();
        self.text.shrink_to(MEMORY_KEPT_MAX);
        self.tag.clear();
        (self.by, self.refusal) = (None, None);
    }
}
