//! `[limit.NAME]`: how many requests each key may make.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use weir_traffic::balance::AddressPrefixes;
use weir_traffic::limit::{RateError, TokenRate};

use super::list::{REFUSAL_STATUSES, is_client_address};
use crate::config::RuleFault;
use crate::config::{Checked, CheckedParts, FoundFaults, LimitStore};
use crate::value::{ByteRate, RequestFrequency, Size, StatusRange, Template, TemplateValue, WhenCondition};

/// Requests at once after a pause.
pub(crate) const BURST: RangeInclusive<u64> = 1..=1_000_000_000;
/// Requests at once.
pub(crate) const CONCURRENT: RangeInclusive<u64> = 1..=10_000_000;
/// Bytes per second, and at once after a pause.
pub(crate) const BANDWIDTH: RangeInclusive<u64> = 1..=1_099_511_627_776;
/// The keys of a table.
pub(crate) const KEYS_MAX: RangeInclusive<u64> = 1..=4_000_000;

/// How many requests each key may make, in a time or at once.
pub type KeyLimit = Checked<KeyLimitParts>;

/// What makes up a [`KeyLimit`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct KeyLimitParts {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// What has a limit of its own: each value that this text comes to. Without values in it, all requests together.
    pub key: Template,
    /// Only requests for which it holds are limited.
    pub when: Option<WhenCondition>,
    /// The networks that `{client_address}` in the key stands for.
    pub prefixes: AddressPrefixes,
    /// Requests per time.
    pub rate: Option<LimitRate>,
    /// Requests at once.
    pub concurrent: Option<u32>,
    /// How fast bodies of responses are sent.
    pub bandwidth: Option<LimitBandwidth>,
    /// Only requests whose response has one of these statuses count towards the rate; empty: all.
    pub count_status: Vec<StatusRange>,
    /// Where several nodes share its rate.
    pub shared: Option<Arc<LimitStore>>,
    /// The status of refusals.
    pub status: u16,
    /// Whether refusals have the fields `RateLimit` and `RateLimit-Policy`.
    pub fields: bool,
    /// Whether other responses have them, too.
    pub fields_in_responses: bool,
    /// Whether requests are only counted, and never refused or delayed.
    pub dry_run: bool,
    /// The keys that the table is made for.
    pub keys_max: usize,
}

/// Requests per time, with a burst.
pub type LimitRate = Checked<LimitRateParts>;

/// What makes up a [`LimitRate`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitRateParts {
    /// The rate as written.
    pub rate: RequestFrequency,
    /// Requests at once after a pause.
    pub burst: u32,
    /// All of it, ready for use.
    pub tokens: TokenRate,
    /// Whether requests of a burst wait for their turn.
    pub delays: bool,
    /// Whether a key that has used it up is blocked for a time.
    pub blocks: bool,
}

impl LimitRate {
    /// A rate with this burst; requests of a burst wait for their turn for `delay` at most, and a key that has used it up is blocked for `block`.
    ///
    /// # Errors
    /// Why there can be no such rate.
    pub fn new(
        rate: RequestFrequency,
        burst: u32,
        delay: Option<Duration>,
        block: Option<Duration>,
    ) -> Result<Self, RateError> {
        let tokens = TokenRate::new(rate.requests, rate.period, burst)?;
        let tokens = delay.map_or(tokens, |delay| tokens.with_delay(delay));
        let tokens = block.map_or(tokens, |block| tokens.with_block(block));
        let (delays, blocks) = (delay.is_some(), block.is_some());
        Ok(Self::assume(LimitRateParts { rate, burst, tokens, delays, blocks }))
    }
}

/// Bytes of responses per time, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitBandwidth {
    /// Bytes per second.
    pub rate: ByteRate,
    /// Bytes at once after a pause.
    pub burst: Size,
}

impl LimitBandwidth {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<RuleFault> {
        const DAY_SECONDS: u64 = 86_400;
        let Self { rate, burst } = *self;
        let is_long = burst.bytes() > rate.bytes_per_second().saturating_mul(DAY_SECONDS);
        is_long.then_some(RuleFault::LongBurst { burst, rate })
    }
}

impl CheckedParts for KeyLimitParts {
    fn place(&self) -> String {
        format!("limit `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        let is_shared = self.shared.is_some();
        let delays = self.rate.is_some_and(|rate| rate.delays);
        let found = [
            (self.rate.is_none() && self.concurrent.is_none() && self.bandwidth.is_none())
                .then(|| RuleFault::NothingLimited(self.name.clone())),
            (is_shared && self.concurrent.is_some()).then_some(RuleFault::SharedConcurrent),
            (is_shared && self.bandwidth.is_some()).then_some(RuleFault::SharedBandwidth),
            (delays && self.counts_responses()).then_some(RuleFault::DelayAndStatuses),
            self.rate.is_some_and(|rate| rate.delays && rate.blocks).then_some(RuleFault::DelayAndBlock),
            (self.fields_in_responses && !self.fields).then_some(RuleFault::FieldsOff),
            self.bandwidth.and_then(|bandwidth| bandwidth.fault()),
        ];
        faults.extend(found.into_iter().flatten());
        faults.check_key("status", &self.status, REFUSAL_STATUSES);
        faults.check_key("concurrent", &self.concurrent, CONCURRENT);
        faults.check_key("keys_max", &self.keys_max, KEYS_MAX);
        if let Some(rate) = self.rate {
            faults.check_key("burst", &rate.burst, BURST);
        }
        if let Some(bandwidth) = self.bandwidth {
            faults.check_key("bandwidth", &bandwidth.rate, BANDWIDTH);
            faults.check_key("bandwidth_burst", &bandwidth.burst, BANDWIDTH);
        }
    }
}

impl KeyLimitParts {
    /// Those of a limit that limits nothing yet: by the address of the client, with the defaults of the product.
    pub fn new(name: &str, keys_max: usize) -> Self {
        Self {
            name: name.into(),
            key: TemplateValue::ClientAddress.into(),
            when: None,
            prefixes: AddressPrefixes::default(),
            rate: None,
            concurrent: None,
            bandwidth: None,
            count_status: Vec::new(),
            shared: None,
            status: 429,
            fields: true,
            fields_in_responses: false,
            dry_run: false,
            keys_max,
        }
    }

    /// Whether the key is the address of the client and nothing else.
    pub fn is_by_address(&self) -> bool {
        is_client_address(&self.key)
    }

    /// What each key may do, in a few words.
    pub fn rule(&self) -> String {
        let rate = self.rate.map(|rate| {
            let LimitRateParts { rate, burst, delays, .. } = *rate;
            let counted = if self.counts_responses() { " with certain statuses" } else { "" };
            let waits = if delays { ", delayed" } else { "" };
            format!("{rate}{counted}, burst {burst}{waits}")
        });
        let concurrent = self.concurrent.map(|count| format!("{count} at once"));
        let bandwidth = self.bandwidth.map(|bandwidth| format!("{} of responses", bandwidth.rate));
        rate.into_iter().chain(concurrent).chain(bandwidth).collect::<Vec<_>>().join(", ")
    }

    /// Whether requests count by the statuses of their responses.
    pub fn counts_responses(&self) -> bool {
        !self.count_status.is_empty()
    }

    /// Whether a response with this status counts.
    pub fn counts(&self, status: u16) -> bool {
        self.count_status.iter().any(|range| range.contains(status))
    }
}
