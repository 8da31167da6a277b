//! Figures second by second: a mean over the whole window does not show a stall in it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// One second of a window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Second {
    /// Correct answers that came in it.
    pub requests: u64,
    /// Exchanges that failed in it.
    pub errors: u64,
    /// Median latency of those answers, µs; 0 without any.
    pub p50: f64,
    /// P99 of it, µs; 0 without any.
    pub p99: f64,
}

/// Collects the seconds of a window, each when it is over.
#[derive(Debug)]
pub(crate) struct Series {
    /// Start and end of the window, ns since the start of the run.
    from: u64,
    to: u64,
    latency: Histogram<u64>,
    errors: u64,
    done: Vec<Second>,
}

impl Series {
    /// For the window from `from` to `to`.
    pub(crate) fn new(from: u64, to: u64) -> Self {
        // Two digits are enough for a plot, and the histogram is emptied each second.
        let latency = Histogram::new_with_bounds(1000, 60_000_000_000, 2).expect("the bounds are in order");
        Self { from, to, latency, errors: 0, done: Vec::new() }
    }

    /// An answer that came at `now`.
    pub(crate) fn answered(&mut self, now: u64, latency: u64) {
        if self.advance(now) {
            self.latency.saturating_record(latency);
        }
    }

    /// An exchange that failed at `now`.
    pub(crate) fn failed(&mut self, now: u64) {
        if self.advance(now) {
            self.errors += 1;
        }
    }

    /// Ends the seconds that are over at `now`; says whether that is in the window.
    fn advance(&mut self, now: u64) -> bool {
        let end = now.min(self.to);
        while self.from + (self.done.len() as u64 + 1) * SECOND <= end {
            self.end_second();
        }
        now >= self.from && now < self.to
    }

    fn end_second(&mut self) {
        let micros = |quantile: f64| self.latency.value_at_quantile(quantile) as f64 / 1000.0;
        let (p50, p99) = if self.latency.is_empty() { (0.0, 0.0) } else { (micros(0.5), micros(0.99)) };
        self.done.push(Second { requests: self.latency.len(), errors: self.errors, p50, p99 });
        self.latency.reset();
        self.errors = 0;
    }

    /// The whole seconds of the window until `now`, when the run is over.
    pub(crate) fn finish(&mut self, now: u64) -> Vec<Second> {
        self.advance(now);
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::{SECOND, Second, Series};

    const MS: u64 = SECOND / 1000;

    #[test]
    fn a_second_without_answers_is_one_too() {
        // A window of three and a half seconds after two of warm-up.
        let mut series = Series::new(2 * SECOND, 5 * SECOND + 500 * MS);
        series.answered(1999 * MS, 9 * MS);
        series.answered(2000 * MS, 2 * MS);
        series.answered(2999 * MS, 2 * MS);
        series.failed(2999 * MS);
        series.answered(4500 * MS, 40 * MS);
        series.failed(6000 * MS);
        let seen = series.finish(7 * SECOND);
        assert_eq!(seen.len(), 3, "what is left of a second is none: {seen:?}");
        assert_eq!((seen[0].requests, seen[0].errors, seen[1]), (2, 1, Second::default()));
        let within = |value: f64, of: f64| (value / of - 1.0).abs() < 0.02;
        assert!(within(seen[0].p50, 2000.0) && within(seen[2].p99, 40_000.0), "{seen:?}");
    }

    #[test]
    fn a_run_that_ends_early_has_the_seconds_that_it_had() {
        let mut series = Series::new(0, 10 * SECOND);
        series.answered(100 * MS, MS);
        let seen = series.finish(1200 * MS);
        assert_eq!((seen.len(), seen[0].requests), (1, 1));
    }
}
