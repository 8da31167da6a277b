//! The record of one server: whether it is out, until when, and how often it was lately.
//!
//! Only keeps the record: `table` decides which server is ejected, and when.

use super::rules::{EjectionReason, OutlierRules, millis};
use crate::health::OutcomeHistory;
use crate::server::ServerId;

/// Where a server stands; times are milliseconds on the clock of the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutlierState {
    /// It gets its share of the requests.
    Good {
        /// When it came back; 0 when it was never away.
        since_ms: u64,
    },
    /// It gets none.
    Ejected {
        /// When it may be tried again.
        until_ms: u64,
    },
    /// It may have one.
    OnTrial,
    /// It has had one, of which nothing is known yet.
    Trying {
        /// When it may have another.
        until_ms: u64,
    },
}

/// Something that was decided about a server, or the upstream as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlierEvent {
    /// When, in milliseconds on the clock of the book.
    pub at_ms: u64,
    /// What.
    pub change: OutlierChange,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutlierChange {
    /// The server gets no more requests.
    Ejected {
        /// Which.
        server: ServerId,
        /// Why.
        grounds: EjectionReason,
        /// For how long, in milliseconds.
        for_ms: u64,
        /// How often it was in a row, this time included.
        times: u32,
    },
    /// The time is up: the server may have one request.
    OnTrial {
        /// Which.
        server: ServerId,
    },
    /// The server gets its share of the requests again.
    Returned {
        /// Which.
        server: ServerId,
        /// Why.
        how: ReturnReason,
    },
    /// So few servers are usable that all get requests, or that is over.
    Panic {
        /// Whether it began.
        began: bool,
    },
}

/// Why a server came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnReason {
    /// A request that it was tried with succeeded.
    TrialPassed,
    /// No other server was left.
    LastOne,
    /// The rules by which it was ejected do not hold any more.
    RulesChanged,
}

/// A server that gets no requests, for a table that goes on from another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EjectedServer {
    /// Milliseconds until it may be tried; 0: now.
    pub left_ms: u64,
    /// How often it was ejected in a row.
    pub times: u32,
}

/// The account of one server.
#[derive(Debug)]
pub(super) struct OutlierRecord<C> {
    pub(super) place: OutlierState,
    /// When it was ejected last; 0 for never.
    pub(super) ejected_ms: u64,
    /// Ejections in a row, and trials without a result in time, minus the forgotten ones.
    times: u32,
    /// Ejections so far, by grounds.
    pub(super) ejections: [u64; EjectionReason::COUNT],
    /// The last failures.
    pub(super) history: OutcomeHistory<C>,
}

impl<C> OutlierRecord<C> {
    pub(super) const fn new() -> OutlierRecord<C> {
        OutlierRecord {
            place: OutlierState::Good { since_ms: 0 },
            ejected_ms: 0,
            times: 0,
            ejections: [0; EjectionReason::COUNT],
            history: OutcomeHistory::new(),
        }
    }

    pub(super) fn is_good(&self) -> bool {
        matches!(self.place, OutlierState::Good { .. })
    }

    /// Counts one ejection more in a row, after forgetting one for each `time` in good standing. Returns
    /// how long it takes, and how many there are.
    pub(super) fn lengthen(&mut self, rules: &OutlierRules, now_ms: u64) -> (u64, u32) {
        let time_ms = millis(rules.base_time).max(1);
        if let OutlierState::Good { since_ms } = self.place {
            let forgotten = now_ms.saturating_sub(since_ms) / time_ms;
            self.times = self.times.saturating_sub(u32::try_from(forgotten).unwrap_or(u32::MAX));
        }
        let for_ms = self.next_length_ms(rules);
        self.times = self.times.saturating_add(1);
        (for_ms, self.times)
    }

    /// How long the next ejection would take, or the wait for a trial.
    pub(super) fn next_length_ms(&self, rules: &OutlierRules) -> u64 {
        let time_ms = millis(rules.base_time).max(1);
        time_ms.saturating_mul(u64::from(self.times) + 1).min(millis(rules.max_time).max(time_ms))
    }

    /// What another record goes on with, if the server is out.
    pub(super) fn standing(&self, now_ms: u64) -> Option<EjectedServer> {
        let left_ms = match self.place {
            OutlierState::Good { .. } => return None,
            OutlierState::OnTrial => 0,
            OutlierState::Ejected { until_ms } | OutlierState::Trying { until_ms } => {
                until_ms.saturating_sub(now_ms)
            }
        };
        Some(EjectedServer { left_ms, times: self.times })
    }

    /// Goes on from another record.
    pub(super) fn resume(&mut self, ejected: EjectedServer, now_ms: u64) {
        self.place = match ejected.left_ms {
            0 => OutlierState::OnTrial,
            left_ms => OutlierState::Ejected { until_ms: now_ms.saturating_add(left_ms) },
        };
        (self.ejected_ms, self.times) = (now_ms, ejected.times);
    }

    /// Whether a request that began then is a trial since the ejection, perhaps not the last.
    pub(super) fn is_trial(&self, began_ms: u64) -> bool {
        matches!(self.place, OutlierState::OnTrial | OutlierState::Trying { .. })
            && began_ms > self.ejected_ms
    }

    /// Counts a trial of which nothing was heard in time: the next has as long as after a failure.
    pub(super) fn miss(&mut self) {
        self.times = self.times.saturating_add(1);
    }
}
