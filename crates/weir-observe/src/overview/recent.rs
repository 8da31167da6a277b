//! Rates of the last seconds and minutes, made from figures that were taken a second apart.

use std::collections::VecDeque;

use serde::Serialize;

use crate::counters::histogram::HistogramSnapshot;

/// Something by second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct EventRate {
    /// In the last second.
    pub now: f64,
    /// In the liveliest second so far.
    pub peak: f64,
}

impl EventRate {
    /// Adds the count of a period, in seconds.
    pub fn note(&mut self, count: u64, seconds: f64) {
        self.now = if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        self.peak = self.peak.max(self.now);
    }
}

/// The counts of a listener, an upstream or a server, by second.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct EventRates {
    /// Connections of a listener, connections opened to an upstream or server.
    pub connections: EventRate,
    /// Requests.
    pub requests: EventRate,
    /// Failures.
    pub failures: EventRate,
    /// Bytes received.
    pub bytes_in: EventRate,
    /// Bytes sent.
    pub bytes_out: EventRate,
}

/// Quantiles of a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Quantiles {
    /// How many values there are.
    pub count: u64,
    /// The mean, in microseconds.
    pub mean_us: Option<u64>,
    /// The median.
    pub p50_us: Option<u64>,
    /// The 95th percentile.
    pub p95_us: Option<u64>,
    /// The 99th percentile.
    pub p99_us: Option<u64>,
}

impl Quantiles {
    /// The quantiles of a histogram.
    pub fn new(times: &HistogramSnapshot) -> Quantiles {
        Quantiles {
            count: times.count(),
            mean_us: times.mean(),
            p50_us: times.quantile(0.5),
            p95_us: times.quantile(0.95),
            p99_us: times.quantile(0.99),
        }
    }
}

/// One second of a listener or an upstream. Two minutes of them are kept for each that has traffic: small numbers do.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct HistorySample {
    /// When it ended, in milliseconds since 1970.
    pub at_ms: u64,
    /// Requests, by second.
    pub requests: f32,
    /// Failures, by second.
    pub failures: f32,
    /// The median of the response times; `None` when nothing was answered, and for listeners.
    pub p50_us: Option<u32>,
    /// Their 99th percentile.
    pub p99_us: Option<u32>,
    /// How many response times lie below 64 us, and from there on between one power of two and the next, up to 2^26 us (67 s); empty
    /// when nothing was answered, and for listeners.
    pub heat: Box<[u32]>,
}

impl HistorySample {
    /// Powers of two, in microseconds, that bound the times of [`HistorySample::heat`].
    pub const HEAT_POWERS: std::ops::RangeInclusive<u32> = 6..=26;

    /// Puts the response times of the second in.
    pub fn with_times(mut self, times: &HistogramSnapshot) -> HistorySample {
        if times.count() == 0 {
            return self;
        }
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let quantile = |share| times.quantile(share).map(small);
        (self.p50_us, self.p99_us) = (quantile(0.5), quantile(0.99));
        let mut before = 0;
        let each = |below: u64| small(below - std::mem::replace(&mut before, below));
        self.heat =
            times.counts_below(HistorySample::HEAT_POWERS.map(|power| 1 << power)).map(each).collect();
        self
    }
}

/// The last seconds of a listener or an upstream, the oldest first.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(transparent)]
pub struct RateHistory(VecDeque<HistorySample>);

impl RateHistory {
    /// How many seconds are kept.
    pub const SECONDS: usize = 120;

    /// Takes note of a second; the oldest one goes when there are too many.
    pub fn push(&mut self, moment: HistorySample) {
        if self.0.len() == RateHistory::SECONDS {
            self.0.pop_front();
        }
        self.0.push_back(moment);
    }

    /// Forgets all seconds.
    pub fn clear(&mut self) {
        self.0 = VecDeque::new();
    }

    /// The seconds, the oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &HistorySample> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::histogram::Histogram;

    #[test]
    fn a_rate_remembers_its_liveliest_second() {
        let mut rate = EventRate::default();
        rate.note(30, 2.0);
        assert_eq!(rate, EventRate { now: 15.0, peak: 15.0 });
        rate.note(1, 1.0);
        assert_eq!(rate, EventRate { now: 1.0, peak: 15.0 });
        rate.note(1, 0.0);
        assert_eq!(rate.now, 0.0);
    }

    #[test]
    fn the_heat_of_a_second_counts_each_time_once() {
        let times = Histogram::new();
        for micros in [3, 63, 64, 127, 128, 1 << 25] {
            times.record(micros);
        }
        let heat = HistorySample::default().with_times(&times.snapshot()).heat;
        assert_eq!((heat[0], heat[1], heat[2]), (2, 2, 1));
        assert_eq!(heat.last(), Some(&1));
        assert_eq!(heat.iter().sum::<u32>(), 6);
    }

    #[test]
    fn a_history_has_an_end() {
        let mut history = RateHistory::default();
        for at_ms in 0..200 {
            history.push(HistorySample { at_ms, ..HistorySample::default() });
        }
        assert_eq!(history.iter().len(), RateHistory::SECONDS);
        assert_eq!(history.iter().next().map(|moment| moment.at_ms), Some(80));
    }
}
