//! Time limits by progress: the longest standstill and the least rate of a transfer.
//!
//! A limit on the total time cuts off large uploads and lets a slow client hold a connection for that long. A credit of seconds that
//! transferred bytes refill avoids both.

use std::time::Duration;

use super::ByteRate;

/// A time limit on a transfer that is measured by its progress.
///
/// The transfer starts with `credit` and uses it up second by second. Each byte that moves gives back
/// `1 / rate_min` seconds, up to `credit`; without `rate_min` any byte restores all of it. At zero,
/// the transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgressLimit {
    /// The longest standstill.
    pub credit: Duration,
    /// The rate that the transfer must keep up once its credit is used; `None` when only a standstill counts.
    pub rate_min: Option<ByteRate>,
}

impl ProgressLimit {
    /// Only a standstill of this length ends the transfer.
    pub const fn standstill(credit: Duration) -> Self {
        Self { credit, rate_min: None }
    }

    /// A standstill of `credit`, or less than `rate_min` for long enough to use the credit up, ends the transfer.
    pub const fn with_rate(credit: Duration, rate_min: ByteRate) -> Self {
        Self { credit, rate_min: Some(rate_min) }
    }
}
