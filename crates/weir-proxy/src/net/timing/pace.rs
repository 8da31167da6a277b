//! How slow a peer may be: a limit by progress, not by total time.
//!
//! Every byte a peer moves earns it time at the minimum rate, up to a bounded credit; waiting for that peer spends
//! it. A large upload over a slow line lives, a peer that sends one byte now and then dies. Time is passed in.

use std::time::Duration;

use weir_config::{ByteRate, ProgressLimit};

use crate::net::clock::Instant;

/// The credit that one peer has left in one direction of one exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    limit: ProgressLimit,
    credit: Duration,
    waiting_since: Option<Instant>,
    moved_before: u64,
}

impl Pace {
    pub(crate) fn new(limit: ProgressLimit) -> Self {
        Self { limit, credit: limit.credit, waiting_since: None, moved_before: 0 }
    }

    /// The peer has to be waited for at `now`, with `moved` bytes moved in all; returns when its credit ends.
    pub(crate) fn wait(&mut self, now: Instant, moved: u64) -> Instant {
        self.settle(now, moved);
        self.waiting_since = Some(now);
        now + self.credit
    }

    /// The wait is over, or the awaited party has changed.
    pub(crate) fn rest(&mut self, now: Instant, moved: u64) {
        if self.waiting_since.is_some() {
            self.settle(now, moved);
            self.waiting_since = None;
        }
    }

    /// Whether the peer had its whole credit at the start of the current wait: it was silent, not slow.
    pub(crate) fn was_silent(&self) -> bool {
        self.credit == self.limit.credit
    }

    fn settle(&mut self, now: Instant, moved: u64) {
        if let Some(since) = self.waiting_since {
            self.credit = self.credit.saturating_sub(now.saturating_duration_since(since));
        }
        let bytes = moved.saturating_sub(self.moved_before);
        self.moved_before = moved;
        if bytes == 0 {
            return;
        }
        let earned = match self.limit.rate_min.map_or(0, ByteRate::bytes_per_second) {
            0 => self.limit.credit,
            rate => Duration::from_micros(bytes.saturating_mul(1_000_000) / rate),
        };
        self.credit = self.credit.saturating_add(earned).min(self.limit.credit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(rate_bytes_min: u64) -> ProgressLimit {
        let rate_min = Some(ByteRate::from_bytes_per_second(rate_bytes_min));
        match rate_min {
            Some(rate_min) => ProgressLimit::with_rate(Duration::from_secs(10), rate_min),
            None => ProgressLimit::standstill(Duration::from_secs(10)),
        }
    }

    #[test]
    fn silence_spends_the_credit() {
        let start = crate::net::clock::now();
        let mut pace = Pace::new(limit(1000));
        assert_eq!(pace.wait(start, 0), start + Duration::from_secs(10));
        let later = start + Duration::from_secs(4);
        assert_eq!(pace.wait(later, 0), later + Duration::from_secs(6));
    }

    #[test]
    fn a_trickle_below_the_rate_dies_and_one_above_lives() {
        for (bytes_per_second, lives) in [(999, false), (1000, true), (5000, true)] {
            let mut now = crate::net::clock::now();
            let mut pace = Pace::new(limit(1000));
            let mut moved = 0;
            let mut alive = true;
            for _ in 0..20_000 {
                let end = pace.wait(now, moved);
                now += Duration::from_secs(1);
                alive &= now <= end;
                moved += bytes_per_second;
            }
            assert_eq!(alive, lives, "{bytes_per_second} B/s");
        }
    }

    #[test]
    fn waiting_for_another_party_costs_nothing() {
        let start = crate::net::clock::now();
        let mut pace = Pace::new(limit(1000));
        pace.wait(start, 0);
        pace.rest(start + Duration::from_secs(1), 0);
        let later = start + Duration::from_secs(100);
        assert_eq!(pace.wait(later, 0), later + Duration::from_secs(9));
    }

    #[test]
    fn credit_is_bounded() {
        let start = crate::net::clock::now();
        let mut pace = Pace::new(limit(1));
        pace.wait(start, 0);
        assert_eq!(pace.wait(start, 1 << 40), start + Duration::from_secs(10));
    }
}
