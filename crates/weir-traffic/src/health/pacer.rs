//! Keeps probes apart that are due at the same time, as after a moment in which the machine was busy with something else.
//!
//! The schedule spreads the due times; this spreads the actual starts. Late probes are caught up with at one and
//! a half times the usual rate, not all at once, so that no server sees a burst because Weir had to wait for a CPU.

use std::time::Duration;

/// How much faster than usual late probes follow each other.
const CATCH_UP: f64 = 1.5;

/// The largest part of its interval by which a probe is put off.
const PUT_OFF_MAX: u32 = 10;

/// Lets the probes of all servers start one after the other. Times are microseconds on any clock that does not go back.
#[derive(Debug)]
pub struct ProbePacer {
    gap_us: u64,
    /// Waits that are not longer are none: such probes start together.
    slack_us: u64,
    /// When the next one may start.
    free_us: u64,
}

impl ProbePacer {
    /// For `per_second` probes; probes that are due within `slack` start together.
    pub fn new(per_second: f64, slack: Duration) -> ProbePacer {
        let gap_us = if per_second > 0.0 { 1e6 / (per_second * CATCH_UP) } else { 0.0 };
        ProbePacer { gap_us: gap_us as u64, slack_us: micros(slack), free_us: 0 }
    }

    /// How long a probe that is due now waits before it starts, in microseconds; `interval` is that of its server.
    pub fn wait_us(&mut self, now_us: u64, interval: Duration) -> u64 {
        let wait_max_us = micros(interval) / u64::from(PUT_OFF_MAX);
        let start_us = self.free_us.clamp(now_us, now_us.saturating_add(wait_max_us));
        self.free_us = start_us + self.gap_us;
        let wait_us = start_us - now_us;
        if wait_us > self.slack_us { wait_us } else { 0 }
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn probes_on_time_do_not_wait() {
        let mut pacer = ProbePacer::new(1_000.0, Duration::ZERO);
        for now_us in (0..1_000_000).step_by(1_000) {
            assert_eq!(pacer.wait_us(now_us, SECOND), 0);
        }
        let mut alone = ProbePacer::new(1.0, Duration::ZERO);
        assert_eq!((alone.wait_us(5, SECOND), alone.wait_us(1_000_005, SECOND)), (0, 0));
        assert_eq!(ProbePacer::new(0.0, Duration::ZERO).wait_us(5, SECOND), 0);
    }

    #[test]
    fn a_hundred_late_ones_are_caught_up_with_at_one_and_a_half_times_the_rate() {
        let mut pacer = ProbePacer::new(1_000.0, Duration::ZERO);
        let starts: Vec<u64> = (0..100).map(|_| pacer.wait_us(0, SECOND)).collect();
        for window in starts.windows(16) {
            assert!(window[15] - window[0] >= 9_990, "16 within 10 ms: {window:?}");
        }
        assert_eq!(starts[99], 99 * 666);
        assert_eq!(pacer.wait_us(70_000, SECOND), 0, "then they are on time again");
    }

    #[test]
    fn those_that_are_due_within_the_slack_start_together() {
        let mut pacer = ProbePacer::new(1_000.0, Duration::from_millis(4));
        for turn in 0..100 {
            let at_us = turn * 5_000;
            assert!((0..5).all(|_| pacer.wait_us(at_us, SECOND) == 0), "five every five milliseconds");
        }
        let starts: Vec<u64> = (0..100).map(|_| pacer.wait_us(1_000_000, SECOND)).collect();
        assert_eq!(starts.iter().filter(|&&wait_us| wait_us == 0).count(), 7);
        assert!(starts.iter().all(|&wait_us| wait_us == 0 || wait_us > 4_000), "{starts:?}");
    }

    #[test]
    fn nobody_is_put_off_for_long() {
        let mut pacer = ProbePacer::new(10.0, Duration::ZERO);
        let last = (0..100).map(|_| pacer.wait_us(0, SECOND)).max();
        assert_eq!(last, Some(100_000));
    }
}
