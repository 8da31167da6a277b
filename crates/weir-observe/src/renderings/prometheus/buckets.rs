//! The bounds of the buckets that histograms are shown with.

use std::fmt;

/// Upper bounds in ascending order, and as the label `le` has them.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketBounds(Vec<(u64, String)>);

impl BucketBounds {
    /// Of these bounds, in microseconds; ascending.
    pub fn new(micros: impl IntoIterator<Item = u64>) -> BucketBounds {
        BucketBounds(micros.into_iter().map(|bound| (bound, format!("{}", bound as f64 / 1e6))).collect())
    }

    /// The bounds in microseconds.
    pub(super) fn micros(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(micros, _)| *micros)
    }

    /// The bounds in seconds.
    pub(super) fn labels(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, label)| &**label)
    }
}

impl Default for BucketBounds {
    /// 2^7 µs (128 µs) to 2^25 µs (33.6 s), each twice the one before.
    fn default() -> BucketBounds {
        BucketBounds::new((7..=25).map(|power| 1 << power))
    }
}

impl fmt::Debug for BucketBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.micros()).finish()
    }
}
