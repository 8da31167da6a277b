//! How fast a queue drains: the number of waiters served in each of the last seconds.

/// Seconds that are looked back.
const SECONDS: usize = 10;

/// Counts of the last seconds, in a ring.
#[derive(Debug)]
pub(super) struct DrainRate {
    counts: [u32; SECONDS],
    /// The second that was counted in last.
    second: u64,
    /// The second of the first count.
    began: Option<u64>,
}

impl DrainRate {
    pub(super) const fn new() -> DrainRate {
        DrainRate { counts: [0; SECONDS], second: 0, began: None }
    }

    /// One was served.
    pub(super) fn count(&mut self, now_ms: u64) {
        let second = now_ms / 1000;
        self.began.get_or_insert(second);
        for passed in self.second + 1..=second.min(self.second + SECONDS as u64) {
            self.counts[slot(passed)] = 0;
        }
        if second > self.second + SECONDS as u64 {
            self.counts = [0; SECONDS];
        }
        self.second = self.second.max(second);
        let count = &mut self.counts[slot(self.second)];
        *count = count.saturating_add(1);
    }

    /// How long it takes to serve `waiters` at the rate of the last seconds, in milliseconds; `None` when none was
    /// served in them.
    pub(super) fn time_for_ms(&self, waiters: u64, now_ms: u64) -> Option<u64> {
        let second = now_ms / 1000;
        let oldest = (second + 1).saturating_sub(SECONDS as u64).max(self.began?);
        let newest = self.second.min(second);
        let served: u64 = (oldest..=newest).map(|second| u64::from(self.counts[slot(second)])).sum();
        // The current second has only begun.
        let window_ms = (now_ms - oldest * 1000).max(1);
        (served > 0).then(|| waiters.saturating_mul(window_ms) / served)
    }
}

fn slot(second: u64) -> usize {
    (second % SECONDS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::DrainRate;

    #[test]
    fn the_last_seconds_count() {
        let mut rate = DrainRate::new();
        assert_eq!(rate.time_for_ms(1, 5_000), None);
        for ms in (20_000..22_000).step_by(10) {
            rate.count(ms);
        }
        assert_eq!(rate.time_for_ms(100, 22_000), Some(1_000), "100 a second");
        assert_eq!(rate.time_for_ms(100, 24_000), Some(2_000), "and then none for as long");
        assert_eq!(rate.time_for_ms(100, 40_000), None, "long ago");
        for ms in (50_000..50_500).step_by(10) {
            rate.count(ms);
        }
        assert_eq!(rate.time_for_ms(1, 60_500), None, "the ring has turned");
        rate.count(70_000);
        assert_eq!(
            rate.time_for_ms(3, 70_000),
            Some(27_000),
            "one in nine seconds, the tenth has only begun"
        );
        assert_eq!(rate.time_for_ms(3, 70_500), Some(28_500));
    }
}
