//! A log-linear histogram of microseconds: eight buckets per power of two, one writer, any number of readers.
//!
//! Values below 8 are exact; above, a bucket is at most an eighth of its lower bound wide, so a quantile read from the
//! middle of its bucket is off by at most 6.25 % ([`Histogram::ERROR_MAX`]). Values of 2^30 µs (17.9 minutes) and more share
//! the last bucket. Fixed size: 225 counts and a sum, 1.8 KiB, of which all but 24 bytes are taken with the first value.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::counter::Counter;

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
    counts: OnceLock<Box<[AtomicU64; BUCKETS]>>,
    sum: Counter,
}

impl Histogram {
    /// The largest relative error of a quantile, for values below 2^30 µs.
    pub const ERROR_MAX: f64 = 0.0625;

    /// An empty histogram.
    pub const fn new() -> Histogram {
        Histogram { counts: OnceLock::new(), sum: Counter::new() }
    }

    /// Counts one value. The first one allocates.
    #[inline]
    pub fn record(&self, micros: u64) {
        let counts = self.counts.get_or_init(|| Box::new([const { AtomicU64::new(0) }; BUCKETS]));
        let count = &counts[bucket_of(micros)];
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

/// The representative of all values of a bucket: its middle.
fn middle(bucket: usize) -> u64 {
    if bucket == OVERFLOW {
        return lower_bound(OVERFLOW);
    }
    let (first, last) = (lower_bound(bucket), lower_bound(bucket + 1) - 1);
    first + (last - first) / 2
}

static NO_COUNTS: [u64; BUCKETS] = [0; BUCKETS];

/// The counts of one histogram at one moment, or of several added up.
#[derive(Clone, PartialEq, Eq)]
pub struct HistogramSnapshot {
    /// `None` when there are no values.
    counts: Option<Box<[u64; BUCKETS]>>,
    count: u64,
    sum: u64,
}

impl HistogramSnapshot {
    /// No values.
    pub fn new() -> HistogramSnapshot {
        HistogramSnapshot { counts: None, count: 0, sum: 0 }
    }

    fn counts(&self) -> &[u64; BUCKETS] {
        self.counts.as_deref().unwrap_or(&NO_COUNTS)
    }

    fn counts_mut(&mut self) -> &mut [u64; BUCKETS] {
        self.counts.get_or_insert_with(|| Box::new(NO_COUNTS))
    }

    /// Adds the content of a histogram at this moment.
    pub fn add(&mut self, histogram: &Histogram) {
        let Some(counts) = histogram.counts.get() else { return };
        let mut added = 0;
        for (total, count) in self.counts_mut().iter_mut().zip(counts.iter()) {
            let count = count.load(Ordering::Relaxed);
            *total += count;
            added += count;
        }
        self.count += added;
        self.sum = self.sum.wrapping_add(histogram.sum.value());
    }

    /// Adds another snapshot.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        let Some(counts) = &other.counts else { return };
        for (total, count) in self.counts_mut().iter_mut().zip(counts.iter()) {
            *total += count;
        }
        self.count += other.count;
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// The values recorded since `earlier` was taken of the same histograms.
    pub fn since(&self, earlier: &HistogramSnapshot) -> HistogramSnapshot {
        if self.count == earlier.count {
            return HistogramSnapshot { sum: self.sum.wrapping_sub(earlier.sum), ..HistogramSnapshot::new() };
        }
        let mut since = self.clone();
        for (count, before) in since.counts_mut().iter_mut().zip(earlier.counts().iter()) {
            *count = count.saturating_sub(*before);
        }
        since.count = since.counts().iter().sum();
        since.sum = self.sum.wrapping_sub(earlier.sum);
        since
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
        for (bucket, count) in self.counts().iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Some(middle(bucket));
            }
        }
        None
    }

    /// How many values lie below each of these bounds, which ascend, in microseconds: exact where a bound is that of a bucket, as all powers of
    /// two are; in a bucket that a bound divides, the values are taken to be spread evenly.
    ///
    /// As values are whole microseconds rounded down, this equals Prometheus' count of the bucket with that
    /// upper bound.
    pub fn counts_below(&self, bounds: impl Iterator<Item = u64>) -> impl Iterator<Item = u64> {
        let (mut start, mut below) = (0, 0);
        bounds.map(move |bound| {
            let end = bucket_of(bound);
            below += self.counts()[start..end].iter().sum::<u64>();
            start = end;
            below + self.part_below(end, bound)
        })
    }

    /// How many of the values in a bucket lie below a bound in it.
    fn part_below(&self, bucket: usize, bound: u64) -> u64 {
        if bucket == OVERFLOW {
            return 0;
        }
        let (first, next) = (lower_bound(bucket), lower_bound(bucket + 1));
        let part = u128::from(self.counts()[bucket]) * u128::from(bound - first) / u128::from(next - first);
        part as u64
    }

    /// Every bucket that is not empty: its smallest value, its largest, and the count. The last one has no upper end.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, Option<u64>, u64)> + '_ {
        self.counts().iter().enumerate().filter(|(_, count)| **count > 0).map(|(bucket, count)| {
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_are_contiguous_and_hold_their_bounds() {
        for bucket in 0..OVERFLOW {
            let (first, last) = (lower_bound(bucket), lower_bound(bucket + 1) - 1);
            assert_eq!(bucket_of(first), bucket);
            assert_eq!(bucket_of(last), bucket);
            assert_eq!(bucket_of(last + 1), bucket + 1);
        }
        assert_eq!(lower_bound(OVERFLOW), 1 << VALUE_BITS);
        assert_eq!(bucket_of(u64::MAX), OVERFLOW);
        assert!(
            size_of::<[AtomicU64; BUCKETS]>() + size_of::<Histogram>() <= 1_824,
            "the size that the docs state"
        );
        assert!(size_of::<Histogram>() <= 24, "what an unused one costs");
    }

    #[test]
    fn empty_histogram_has_no_quantile() {
        let snapshot = Histogram::new().snapshot();
        assert_eq!(
            (snapshot.count(), snapshot.sum(), snapshot.mean(), snapshot.quantile(0.5)),
            (0, 0, None, None)
        );
        assert_eq!(snapshot.buckets().count(), 0);
    }

    #[test]
    fn small_values_are_exact_and_large_ones_share_the_last_bucket() {
        let histogram = Histogram::new();
        for micros in [0, 1, 2, 3, 4, 5, 6, 7, u64::from(u32::MAX), 1 << 30] {
            histogram.record(micros);
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.quantile(0.0), Some(0));
        assert_eq!(snapshot.quantile(0.5), Some(4));
        assert_eq!(snapshot.quantile(0.8), Some(7));
        assert_eq!(snapshot.quantile(1.0), Some(1 << 30));
        assert_eq!(snapshot.quantile(f64::NAN), Some(0));
        assert_eq!(snapshot.buckets().last(), Some((1 << 30, None, 2)));
        assert_eq!(snapshot.counts_below([1, 2, 4, 8].into_iter()).collect::<Vec<_>>(), [1, 2, 4, 8]);
        assert_eq!(snapshot.counts_below([1 << 29, u64::MAX].into_iter()).last(), Some(8));
    }

    fn micros() -> impl Strategy<Value = u64> {
        prop_oneof![0u64..16, 0u64..5_000, 0u64..(1 << 30)]
    }

    proptest! {
        #[test]
        fn quantiles_keep_their_error_bound(mut values in prop::collection::vec(micros(), 1..400), q in 0.0f64..=1.0) {
            let histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            let snapshot = histogram.snapshot();
            values.sort_unstable();
            let rank = ((q * values.len() as f64).ceil() as usize).max(1);
            let (exact, found) = (values[rank - 1] as f64, snapshot.quantile(q).unwrap() as f64);
            prop_assert!((found - exact).abs() <= Histogram::ERROR_MAX * exact, "exact {exact}, found {found}");
            prop_assert_eq!(snapshot.count(), values.len() as u64);
            prop_assert_eq!(snapshot.sum(), values.iter().sum::<u64>());
        }

        #[test]
        fn powers_count_exactly(values in prop::collection::vec(micros(), 0..200)) {
            let histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            let counts: Vec<u64> = histogram.snapshot().counts_below((4..=30).map(|power| 1 << power)).collect();
            let expected: Vec<u64> =
                (4..=30).map(|power| values.iter().filter(|value| **value < 1 << power).count() as u64).collect();
            prop_assert_eq!(counts, expected);
        }

        /// As the bounds of a config are: no count is wrong by values further from the bound than a bucket is wide, none falls from one bound to the
        /// next, and none falls when more is recorded.
        #[test]
        fn any_bound_counts_what_is_not_near_it(
            values in prop::collection::vec(micros(), 0..200),
            mut bounds in prop::collection::vec(1u64..(1 << 30), 1..20),
        ) {
            bounds.sort_unstable();
            let histogram = Histogram::new();
            let mut before = vec![0; bounds.len()];
            for half in values.chunks(values.len().div_ceil(2).max(1)) {
                half.iter().for_each(|value| histogram.record(*value));
                let counts: Vec<u64> = histogram.snapshot().counts_below(bounds.iter().copied()).collect();
                prop_assert!(counts.is_sorted(), "{counts:?}");
                prop_assert!(counts.iter().zip(&before).all(|(now, before)| now >= before));
                before = counts;
            }
            for (bound, count) in bounds.iter().zip(before) {
                let below = |limit: f64| values.iter().filter(|value| (**value as f64) < limit).count() as u64;
                let (least, most) = (below(*bound as f64 * 0.875), below(*bound as f64 * 1.125 + 1.0));
                prop_assert!((least..=most).contains(&count), "{least} to {most} below {bound}, not {count}");
            }
        }

        #[test]
        fn what_was_recorded_since_is_what_came_after(left in prop::collection::vec(micros(), 0..50), right in prop::collection::vec(micros(), 0..50)) {
            let (all, after) = (Histogram::new(), Histogram::new());
            left.iter().for_each(|value| all.record(*value));
            let earlier = all.snapshot();
            right.iter().for_each(|value| { all.record(*value); after.record(*value); });
            prop_assert!(all.snapshot().since(&earlier) == after.snapshot());
        }

        #[test]
        fn merging_is_recording_together(left in prop::collection::vec(micros(), 0..50), right in prop::collection::vec(micros(), 0..50)) {
            let (one, two, both) = (Histogram::new(), Histogram::new(), Histogram::new());
            left.iter().for_each(|value| { one.record(*value); both.record(*value); });
            right.iter().for_each(|value| { two.record(*value); both.record(*value); });
            let mut merged = one.snapshot();
            merged.merge(&two.snapshot());
            prop_assert!(merged == both.snapshot());
        }
    }
}
