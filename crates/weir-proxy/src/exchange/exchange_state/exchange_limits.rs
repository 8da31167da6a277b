//! What limits by key have to do with one exchange: what they hold for it, and which of them has refused it.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use weir_config::{AccessList, Feature, LimitRate, ListAction, Stage};
use weir_http::FieldWriter;
use weir_traffic::limit::BucketLevel;
use weir_traffic::table::ExchangeResult;

use super::header_changes::HeadChanges;
use crate::exchange::acting;
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::net::clock::{self, Instant};
use crate::responder::Answer;
use crate::state::limits::limit::{LimitAnswer, LimitHold, LimitPlan};
use crate::state::snapshot::rule_name;
use crate::state::tables::table::TableHold;

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
    pub(in crate::exchange) fn take_holds(&mut self) -> Option<Box<ExchangeHolds>> {
        let asked =
            self.0.as_mut().filter(|limits| !limits.holds.is_empty() || !limits.tracked.is_empty())?;
        let (limits, tables) = (std::mem::take(&mut asked.holds), std::mem::take(&mut asked.tracked));
        Some(Box::new(ExchangeHolds { limits, tables }))
    }

    /// That tunnel is over.
    pub(in crate::exchange) fn give_back_holds(&mut self, holds: Option<Box<ExchangeHolds>>) {
        if let Some(holds) = holds {
            self.is_asked = true;
            (self.holds, self.tracked) = (holds.limits, holds.tables);
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

/// What limits and tables hold for a tunnel.
#[derive(Debug, Default)]
pub(in crate::exchange) struct ExchangeHolds {
    limits: Vec<LimitHold>,
    tables: Vec<TableHold>,
}

/// The limit or the list that has refused an exchange, with its answer and the status that the route wants for it.
#[derive(Debug, Default)]
pub(in crate::exchange) struct KnownRefusal(Option<RuleInForce>, Option<LimitAnswer>, Option<u16>);

/// The limits of one exchange.
#[derive(Debug, Default)]
pub(crate) struct AskedLimits {
    /// Whether any was asked.
    pub(in crate::exchange) is_asked: bool,
    /// What limits hold until it is over.
    pub(in crate::exchange) holds: Vec<LimitHold>,
    /// The entries of tables that count it until it is over.
    pub(in crate::exchange) tracked: Vec<TableHold>,
    /// The limits that were asked on this route, and the keys: what was taken is given back when a later one refuses.
    pub(in crate::exchange) asked: Vec<(Arc<LimitPlan>, u64)>,
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
    /// The status that the route wants for that.
    pub(in crate::exchange) status: Option<u16>,
    /// What a list says of it.
    pub(in crate::exchange) tag: Vec<u8>,
    /// What the lists have said, where authentication is the alternative.
    pub(in crate::exchange) alternative: Option<ListOpinion>,
    /// Whether a list has put it off: once is enough, on whichever routes it is refused.
    pub(in crate::exchange) is_put_off: bool,
}

/// What the lists of a route have said of a request that authentication may admit as well.
#[derive(Debug, Clone)]
pub(in crate::exchange) struct ListOpinion {
    /// The place of the route: the lists of another one have said nothing.
    pub(in crate::exchange) route: usize,
    /// Whether one of them allows it, so that nothing else is asked.
    pub(in crate::exchange) is_allowed: bool,
    /// The list that refuses it, until authentication has admitted it.
    pub(in crate::exchange) refused_by: Option<Arc<AccessList>>,
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
            tracked: Vec::new(),
            asked: Vec::new(),
            told: Vec::new(),
            paced: Vec::new(),
            keys: Vec::new(),
            text: Vec::new(),
            by: None,
            refusal: None,
            status: None,
            tag: Vec::new(),
            alternative: None,
            is_put_off: false,
        }
    }

    /// The exchange is over: counts its response where limits or tables count responses, and gives back its places.
    #[cold]
    pub(in crate::exchange) fn settle(&mut self, result: ExchangeResult, now: Instant) {
        for hold in self.holds.drain(..) {
            hold.plan.count_response(hold.key, result.status, now);
        }
        self.tracked.drain(..).for_each(|hold| hold.finish(result));
    }

    /// What has refused the exchange so far.
    pub(in crate::exchange) fn refusal(&self) -> KnownRefusal {
        KnownRefusal(self.by.clone(), self.refusal, self.status)
    }

    /// Has this have refused the exchange, and nothing that has refused it since.
    pub(in crate::exchange) fn restore_refusal(&mut self, refusal: KnownRefusal) {
        (self.by, self.refusal, self.status) = (refusal.0, refusal.1, refusal.2);
    }

    /// The status that the limit or the list wants for its refusals; `None` when none has refused the exchange.
    pub(in crate::exchange) fn status_of_refusal(&self) -> Option<u16> {
        match self.by.as_ref()? {
            RuleInForce::Limit(plan) => self.refusal.map(|_| self.status.unwrap_or(plan.config.status)),
            RuleInForce::List(list) => Some(list.status),
        }
    }

    /// Whether the list that has refused the exchange wants no answer for it.
    pub(in crate::exchange) fn wants_no_answer(&self) -> bool {
        matches!(&self.by, Some(RuleInForce::List(list)) if list.action == ListAction::Close)
    }

    /// The name of the limit or the list that has refused or delayed it; empty without one.
    pub(in crate::exchange) fn name(&self) -> &str {
        match &self.by {
            Some(RuleInForce::Limit(plan)) => &plan.config.name,
            Some(RuleInForce::List(list)) => &list.name,
            // Authentication has refused it, too, or has not been asked yet.
            None => {
                let list = self.alternative.as_ref().and_then(|one| one.refused_by.as_ref());
                list.map_or("", |list| &list.name)
            }
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
        self.is_put_off = false;
        self.holds.clear();
        self.tracked.clear();
        self.asked.clear();
        self.told.clear();
        self.paced.clear();
        self.text.clear();
        self.text.shrink_to(MEMORY_KEPT_MAX);
        self.tag.clear();
        (self.by, self.refusal, self.status, self.alternative) = (None, None, None, None);
    }
}
