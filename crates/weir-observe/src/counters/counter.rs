//! Counters and gauges with one writer and any number of readers.
//!
//! A worker owns its counters, so an increment is a relaxed load and a relaxed store: no lock prefix, no cache line
//! that travels. Readers see a value that is whole, though perhaps a moment old. With two writers counts would get lost;
//! nothing shared between workers may be a [`Counter`].

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows; one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Counter {
        Counter(AtomicU64::new(0))
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `count`, wrapping at 2^64.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    /// The count so far.
    #[inline]
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls, with the highest value it ever had; one writer.
#[derive(Debug, Default)]
pub struct Gauge {
    now: AtomicI64,
    peak: AtomicI64,
}

impl Gauge {
    /// A gauge at zero.
    pub const fn new() -> Gauge {
        Gauge { now: AtomicI64::new(0), peak: AtomicI64::new(0) }
    }

    /// Adds one.
    #[inline]
    pub fn increment(&self) {
        self.set(self.now.load(Ordering::Relaxed).wrapping_add(1));
    }

    /// Subtracts one.
    #[inline]
    pub fn decrement(&self) {
        self.now.store(self.now.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Relaxed);
    }

    /// Sets the value, raising the peak when it is higher.
    #[inline]
    pub fn set(&self, value: i64) {
        self.now.store(value, Ordering::Relaxed);
        if value > self.peak.load(Ordering::Relaxed) {
            self.peak.store(value, Ordering::Relaxed);
        }
    }

    /// The present value.
    #[inline]
    pub fn value(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// The present value and the peak.
    pub fn level(&self) -> Level {
        Level { now: self.value(), peak: self.peak.load(Ordering::Relaxed) }
    }
}

/// The value of a [`Gauge`] at one moment, or the sum of several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct Level {
    /// The value.
    pub now: i64,
    /// The highest value so far; in a sum an upper bound, as the parts may have peaked at different times.
    pub peak: i64,
}

impl Level {
    /// Adds another gauge's level.
    pub fn merge(&mut self, other: Level) {
        self.now += other.now;
        self.peak += other.peak;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_counts() {
        let counter = Counter::new();
        counter.increment();
        counter.add(41);
        assert_eq!(counter.value(), 42);
    }

    #[test]
    fn gauge_remembers_its_peak() {
        let gauge = Gauge::new();
        gauge.increment();
        gauge.increment();
        gauge.decrement();
        assert_eq!(gauge.level(), Level { now: 1, peak: 2 });
        gauge.set(-5);
        assert_eq!(gauge.level(), Level { now: -5, peak: 2 });
        let mut sum = gauge.level();
        sum.merge(Level { now: 7, peak: 9 });
        assert_eq!(sum, Level { now: 2, peak: 11 });
    }
}
