//! `[limit.NAME]`: how many requests each key may make.

use std::sync::Arc;

use weir_traffic::balance::AddressPrefixes;
use weir_traffic::limit::TokenRate;

use super::list::is_client_address;
use crate::config::LimitStore;
use crate::value::{ByteRate, RequestFrequency, Size, StatusRange, Template};

/// How many requests each key may make, in a time or at once.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyLimit {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// What has a limit of its own: each value that this text comes to. Without values in it, all requests together.
    pub key: Template,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitRate {
    /// The rate as written.
    pub rate: RequestFrequency,
    /// Requests at once after a pause.
    pub burst: u32,
    /// All of it, ready for use.
    pub tokens: TokenRate,
    /// Whether requests of a burst wait for their turn.
    pub delays: bool,
}

/// Bytes of responses per time, with a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitBandwidth {
    /// Bytes per second.
    pub rate: ByteRate,
    /// Bytes at once after a pause.
    pub burst: Size,
}

impl KeyLimit {
    /// Whether the key is the address of the client and nothing else.
    pub fn is_by_address(&self) -> bool {
        is_client_address(&self.key)
    }

    /// What each key may do, in a few words.
    pub fn rule(&self) -> String {
        let rate = self.rate.map(|LimitRate { rate, burst, delays, .. }| {
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
