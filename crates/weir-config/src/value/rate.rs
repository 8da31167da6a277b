//! Rates in bytes per second: `"500B/s"`, `"1MiB/s"`.

/// A number of bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// A rate of so many bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The rate in bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }
}
