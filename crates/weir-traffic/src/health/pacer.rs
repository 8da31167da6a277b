//! Keeps probes apart that are due at the same time, as after a moment in which the machine was busy with something else.
//!
//! The schedule spreads the beats; this spreads what became of them. Probes that are late are caught up with at twice
//! the usual rate, not all at once, so that no server sees a burst because Weir had to wait for a CPU.

use std::time::Duration;

/// How much faster than usual late probes follow each other.
const CATCH_UP: u32 = 2;

/// The largest part of its interval by which a probe is put off.
const PUT_OFF_MAX: u32 = 10;

/// Lets the probes of all servers start one after the other. Times are microseconds on any clock that does not go back.
#[derive(Debug)]
pub struct Pacer {
    gap_us: u64,
    /// When the next one may start.
    free_us: u64,
}

impl Pacer {
    /// For servers that are each probed once per interval.
    pub fn new(intervals: impl Iterator<Item = Duration>) -> Pacer {
        let per_second: f64 = intervals.map(|interval| 1.0 / interval.as_secs_f64().max(1e-3)).sum();
        let gap_us = if per_second > 0.0 { 1e6 / (per_second * f64::from(CATCH_UP)) } else { 0.0 };
        Pacer { gap_us: gap_us as u64, free_us: 0 }
    }

    /// How long a probe that is due now waits before it starts, in microseconds; `interval` is that of its server.
    pub fn wait_us(&mut self, now_us: u64, interval: Duration) -> u64 {
        let wait_max_us = u64::try_from(interval.as_micros()).unwrap_or(u64::MAX) / u64::from(PUT_OFF_MAX);
        let start_us = self.free_us.clamp(now_us, now_us.saturating_add(wait_max_us));
        self.free_us = start_us + self.gap_us;
        start_us - now_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn probes_on_time_do_not_wait() {
        let mut pacer = Pacer::new(std::iter::repeat_n(SECOND, 1_000));
        for now_us in (0..1_000_000).step_by(1_000) {
            assert_eq!(pacer.wait_us(now_us, SECOND), 0);
        }
        let mut alone = Pacer::new(std::iter::once(SECOND));
        assert_eq!((alone.wait_us(5, SECOND), alone.wait_us(1_000_005, SECOND)), (0, 0));
    }

    #[test]
    fn a_hundred_late_ones_are_caught_up_with_at_twice_the_rate() {
        let mut pacer = Pacer::new(std::iter::repeat_n(SECOND, 1_000));
        let starts: Vec<u64> = (0..100).map(|_| pacer.wait_us(0, SECOND)).collect();
        for window in starts.windows(21) {
            assert!(window[20] - window[0] >= 10_000, "21 within 10 ms: {window:?}");
        }
        assert_eq!(starts[99], 99 * 500);
        assert_eq!(pacer.wait_us(60_000, SECOND), 0, "then they are on time again");
    }

    #[test]
    fn nobody_is_put_off_for_long() {
        let mut pacer = Pacer::new(std::iter::repeat_n(SECOND, 10));
        let last = (0..100).map(|_| pacer.wait_us(0, SECOND)).max();
        assert_eq!(last, Some(100_000));
    }
}
