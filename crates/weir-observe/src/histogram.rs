//! A log-linear histogram of microseconds: eight buckets per power of two, one writer, any number of readers.
//!
//! Values below 8 are exact; above, a bucket is at most an eighth of its lower bound wide, so a quantile read from the
//! middle of its bucket is off by at most 6.25 % ([`Histogram::ERROR_MAX`]). Values of 2^30 µs (17.9 minutes) and more share
//! the last bucket. Fixed size: 225 counts and a sum, 1.8 KiB.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counter::Counter;

/// Buckets per power of two, as a power of two.
const SUB_BITS: u32 = 3;
const SUB: u64 = 1 << SUB_BITS;
/// Values from here on share the overflow bucket.
const VALUE_BITS: u32 = 30;
const OVERFLOW: usize = ((VALUE_BITS - SUB_BITS + 1) << SUB_BITS) as usize;
const BUCKETS: usize = OVERFLOW + 1;

/// How often which time was seen.
#[derive(Debug)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    sum: Counter,
}

impl Histogram {
    /// The largest relative error of a quantile, for values below 2^30 µs.
    pub const ERROR_MAX: f64 = 0.0625;

    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram { counts: [const { AtomicU64::new(0) }; BUCKETS], sum: Counter::new() }
    }

    /// Counts one value.
    #[inline]
    pub fn record(&self, micros: u64) {
        let count = &self.counts[bucket_of(micros)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.sum.add(micros);
    }

    /// The counts at this moment; a value recorded meanwhile may be in the buckets and not yet in the sum.
    pub fn snapshot(&self) -> HistogramSnapshot {
        let mut snapshot = HistogramSnapshot::new();
        snapshot.add(self);
        snapshot
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

/// The bucket that holds a value: exact below 8, then the exponent and the three bits after the leading one.
#[inline]
const fn bucket_of(micros: u64) -> usize {
    if micros < SUB {
        return micros as usize;
    }
    let exponent = micros.ilog2();
    if exponent >= VALUE_BITS {
        return OVERFLOW;
    }
    let shift = exponent - SUB_BITS;
    (((shift as u64) << SUB_BITS) + (micros >> shift)) as usize
}

/// The smallest value in a bucket.
const fn lower_bound(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    (SUB + (bucket & (SUB - 1))) << shift
}

/// The value that stands for all values of a bucket: its middle.
fn middle(bucket: usize) -> u64 {
    if bucket == OVERFLOW {
        return lower_bound(OVERFLOW);
    }
    let (first, last) = (lower_bound(bucket), lower_bound(bucket + 1) - 1);
    first + (last - first) / 2
}

/// The counts of one histogram at one moment, or of several added up.
#[derive(Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u64,
}

impl HistogramSnapshot {
    /// No values.
    pub fn new() -> HistogramSnapshot {
        HistogramSnapshot { counts: Box::new([0; BUCKETS]), count: 0, sum: 0 }
    }

    /// Adds what a histogram holds at this moment.
    pub fn add(&mut self, histogram: &Histogram) {
        for (total, count) in self.counts.iter_mut().zip(&histogram.counts) {
            let count = count.load(Ordering::Relaxed);
            *total += count;
            self.count += count;
        }
        self.sum = self.sum.wrapping_add(histogram.sum.value());
    }

    /// Adds another snapshot.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        for (total, count) in self.counts.iter_mut().zip(other.counts.iter()) {
            *total += count;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values in microseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The mean in microseconds; `None` when empty.
    pub fn mean(&self) -> Option<u64> {
        self.sum.checked_div(self.count)
    }

    /// The value in microseconds that a share `q` (0 to 1) of all values does not exceed, off by at most
    /// [`Histogram::ERROR_MAX`]; `None` when empty.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(bucket));
            }
        }
        None
    }

    /// How many values lie below `2^exponent` microseconds (exact for exponents up to 30).
    ///
    /// As values are whole microseconds rounded down, this is what Prometheus calls the count of the bucket with the
    /// upper bound `2^exponent`.
    pub fn count_below_power(&self, exponent: u32) -> u64 {
        let end = if exponent >= VALUE_BITS { OVERFLOW } else { bucket_of(1 << exponent) };
        self.counts[..end].iter().sum()
    }

    /// Every bucket that is not empty: its smallest value, its largest, and the count. The last one has no upper end.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, Option<u64>, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| {
            let last = (bucket < OVERFLOW).then(|| lower_bound(bucket + 1) - 1);
            (lower_bound(bucket), last, *count)
        })
    }
}

impl Default for HistogramSnapshot {
    fn default() -> Self {
        HistogramSnapshot::new()
    }
}

impl std::fmt::Debug for HistogramSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistogramSnapshot")
            .field("count", &self.count)
            .field("sum", &self.sum)
            .finish_non_exhaustive()
    }
}
