//! What limits by key have to do with one exchange: what they hold for it, and which of them has refused it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use weir_config::{AccessList, Feature, LimitRate, Stage};
use weir_http::FieldWriter;
use weir_traffic::limit::BucketLevel;

use super::header_changes::HeadChanges;
use crate::exchange::acting;
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::net::clock::{self, Instant};
use crate::responder::Answer;
use crate::state::limits::limit::{LimitAnswer, LimitHold, LimitPlan};
use crate::state::snapshot::rule_name;

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

/// The policies of a response, and what is left of them (draft-ietf-httpapi-ratelimit-headers-10).
const POLICY_FIELD: &[u8] = b"RateLimit-Policy";
const LEVEL_FIELD: &[u8] = b"RateLimit";

/// A member of `RateLimit-Policy`. The name needs no escapes: it is letters, digits and a few signs.
fn write_policy(out: &mut Vec<u8>, name: &str, rate: LimitRate) {
    let window = rate.tokens.refill_ns().div_ceil(SECOND_NS);
    out.extend_from_slice(format!("\"{name}\";q={};w={window}", rate.burst).as_bytes());
}

/// A member of `RateLimit`.
fn write_level(out: &mut Vec<u8>, name: &str, level: BucketLevel) {
    let reset = level.reset_ns.div_ceil(SECOND_NS);
    out.extend_from_slice(format!("\"{name}\";r={};t={reset}", level.remaining).as_bytes());
}

/// What limits have to do with one exchange; on the heap once any was asked, since most exchanges have none.
#[derive(Debug, Default)]
pub(crate) struct ExchangeLimits(Option<Box<AskedLimits>>);

/// Of an exchange for which none was asked.
static NOT_LIMITED: AskedLimits = AskedLimits::new();

impl Deref for ExchangeLimits {
    type Target = AskedLimits;

    fn deref(&self) -> &AskedLimits {
        self.0.as_deref().unwrap_or(&NOT_LIMITED)
    }
}

impl DerefMut for ExchangeLimits {
    fn deref_mut(&mut self) -> &mut AskedLimits {
        self.0.get_or_insert_default()
    }
}

impl ExchangeLimits {
    /// Whether any was asked: one branch for exchanges without limits, which are most.
    #[inline]
    pub(in crate::exchange) fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|limits| limits.is_asked)
    }

    /// Lets go of everything; keeps the memory.
    #[inline]
    pub(in crate::exchange) fn reset(&mut self) {
        if let Some(limits) = self.0.as_mut().filter(|limits| limits.is_asked) {
            limits.reset();
        }
    }

    /// What limits hold, for a tunnel that outlives the exchange.
    pub(in crate::exchange) fn take_holds(&mut self) -> Vec<LimitHold> {
        self.0.as_mut().map(|limits| std::mem::take(&mut limits.holds)).unwrap_or_default()
    }

    /// That tunnel is over.
    pub(in crate::exchange) fn give_back_holds(&mut self, holds: Vec<LimitHold>) {
        if !holds.is_empty() {
            self.is_asked = true;
            self.holds = holds;
        }
    }

    /// Adds what is left of the limits that tell it to a response that they have not refused. A field of the server stays as it is:
    /// the members of both lines are one list (RFC 9110 section 5.3).
    #[inline]
    pub(in crate::exchange) fn write_levels(&self, out: &mut impl FieldWriter, changes: HeadChanges<'_>) {
        if let Some(limits) = self.0.as_ref().filter(|limits| !limits.told.is_empty()) {
            limits.write_told(out, changes);
        }
    }
}

/// The limits of one exchange.
#[derive(Debug, Default)]
pub(crate) struct AskedLimits {
    /// Whether any was asked.
    pub(in crate::exchange) is_asked: bool,
    /// What limits hold until it is over.
    pub(in crate::exchange) holds: Vec<LimitHold>,
    /// The limits that were asked, by their places, and the keys: what was taken is given back when a later one refuses.
    pub(in crate::exchange) asked: Vec<(usize, u64)>,
    /// The limits whose rest responses tell, and the keys.
    pub(in crate::exchange) told: Vec<(Arc<LimitPlan>, u64)>,
    /// The limits that its response is sent no faster than, and the keys.
    pub(in crate::exchange) paced: Vec<(Arc<LimitPlan>, u64)>,
    /// The keys of the request under one limit, and the places of their texts.
    pub(in crate::exchange) keys: Vec<(u64, usize)>,
    /// The text of a key.
    pub(in crate::exchange) text: Vec<u8>,
    /// The limit or list that has refused or delayed it.
    pub(in crate::exchange) by: Option<RuleInForce>,
    /// What the limit has said that has refused it.
    pub(in crate::exchange) refusal: Option<LimitAnswer>,
    /// What a list says of it.
    pub(in crate::exchange) tag: Vec<u8>,
}

/// A limit or a list that has stopped a request.
#[derive(Debug, Clone)]
pub(in crate::exchange) enum RuleInForce {
    Limit(Arc<LimitPlan>),
    List(Arc<AccessList>),
}

impl AskedLimits {
    const fn new() -> Self {
        Self {
            is_asked: false,
            holds: Vec::new(),
            asked: Vec::new(),
            told: Vec::new(),
            paced: Vec::new(),
            keys: Vec::new(),
            text: Vec::new(),
            by: None,
            refusal: None,
            tag: Vec::new(),
        }
    }

    /// The exchange is over: counts its response where limits count responses, and gives back its places.
    #[cold]
    pub(in crate::exchange) fn settle(&mut self, status: u16, now: Instant) {
        for hold in self.holds.drain(..) {
            hold.plan.count_response(hold.key, status, now);
        }
    }

    /// The status that the limit or the list wants for its refusals; `None` when none has refused the exchange.
    pub(in crate::exchange) fn status_of_refusal(&self) -> Option<u16> {
        match self.by.as_ref()? {
            RuleInForce::Limit(plan) => self.refusal.map(|_| plan.config.status),
            RuleInForce::List(list) => Some(list.status),
        }
    }

    /// The name of the limit or the list that has refused or delayed it; empty without one.
    pub(in crate::exchange) fn name(&self) -> &str {
        match &self.by {
            Some(RuleInForce::Limit(plan)) => &plan.config.name,
            Some(RuleInForce::List(list)) => &list.name,
            None => "",
        }
    }

    /// The same in words, as snapshots have them.
    pub(in crate::exchange) fn rule_name(&self) -> Option<String> {
        Some(match self.by.as_ref()? {
            RuleInForce::Limit(plan) => rule_name("limit", &plan.config.name),
            RuleInForce::List(list) => rule_name("list", &list.name),
        })
    }

    /// Adds to the answer what a client may know of the limit that has refused it: when it may come again, in fields of HTTP
    /// (draft-ietf-httpapi-ratelimit-headers) or of gRPC (its retry design, A6).
    pub(in crate::exchange) fn write_refusal(&self, answer: &mut Answer<'_>, is_grpc: bool) {
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
            let [mut policy, mut left] = [Vec::new(), Vec::new()];
            write_policy(&mut policy, &plan.config.name, rate);
            let level = BucketLevel { remaining: 0, reset_ns: retry_ns };
            write_level(&mut left, &plan.config.name, level);
            answer.fields.push((POLICY_FIELD, policy.into()));
            answer.fields.push((LEVEL_FIELD, left.into()));
        }
    }

    #[cold]
    fn write_told(&self, out: &mut impl FieldWriter, changes: HeadChanges<'_>) {
        acting::note(Stage::ResponseFields, Feature::Limits);
        let now = clock::now();
        let [mut policies, mut levels] = [Vec::new(), Vec::new()];
        for (plan, key) in &self.told {
            let (Some(rate), Some(level)) = (plan.config.rate, plan.level(*key, now)) else { continue };
            for list in [&mut policies, &mut levels] {
                list.extend_from_slice(if list.is_empty() { b"" } else { b", " });
            }
            write_policy(&mut policies, &plan.config.name, rate);
            write_level(&mut levels, &plan.config.name, level);
        }
        for (name, list) in [(POLICY_FIELD, policies), (LEVEL_FIELD, levels)] {
            if changes.leave(name) {
                out.field(name, &list);
            }
        }
    }

    /// Lets go of everything; keeps the memory.
    #[cold]
    fn reset(&mut self) {
        self.is_asked = false;
        self.holds.clear();
        self.asked.clear();
        self.told.clear();
        self.paced.clear();
        self.text.clear();
        self.text.shrink_to(MEMORY_KEPT_MAX);
        self.tag.clear();
        (self.by, self.refusal) = (None, None);
    }
}
