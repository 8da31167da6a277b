//! Sizes in bytes: `"64KiB"`, `"10MB"`, `"0B"`.

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// A size of so many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size of so many KiB (1024 bytes each).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size in bytes as a length in memory; on a 32-bit machine at most 4 GiB - 1.
    pub const fn as_usize(self) -> usize {
        if self.0 > usize::MAX as u64 { usize::MAX } else { self.0 as usize }
    }
}
