//! Points in time, as milliseconds since 1970: passed in by the caller, so that no test needs a clock.

/// A point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct CacheTime(u64);

impl CacheTime {
    /// The time that never comes.
    pub const NEVER: Self = Self(u64::MAX);

    /// So many milliseconds after 1970 began.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// So many seconds after 1970 began.
    pub const fn from_seconds(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1_000))
    }

    /// Milliseconds since 1970.
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// Whole seconds since 1970.
    pub const fn seconds(self) -> u64 {
        self.0 / 1_000
    }

    /// The time so many milliseconds later; never, when that is too far away.
    #[must_use]
    pub const fn after(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis))
    }

    /// Milliseconds from `earlier` to this time; 0 when that is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
