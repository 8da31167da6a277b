//! Time limits by progress: how long a transfer may stand still, and how slow it may be.
//!
//! A limit by total time kills big uploads and lets a slow client hold a connection for exactly that time. A credit of
//! seconds that passing bytes refill does neither.

use std::time::Duration;

use super::ByteRate;

/// A time limit on a transfer that is measured by its progress.
///
/// The transfer starts with `credit` and uses it up second by second. Each byte that moves gives back
/// `1 / rate_min` seconds, never beyond `credit`; without `rate_min` any byte gives all of it back. When the credit is gone,
/// so is the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
