//! The bytes that bodies have in temporary files, over the whole process.

use std::sync::atomic::{AtomicU64, Ordering};

/// The most that is in them.
const BYTES_MAX: u64 = 1024 * 1024 * 1024;

static BYTES: AtomicU64 = AtomicU64::new(0);

/// How much is in them now.
pub fn bytes() -> u64 {
    BYTES.load(Ordering::Relaxed)
}

/// Counts `len` more, if there may be so much.
pub(crate) fn take(len: u64) -> bool {
    let add = |bytes: u64| (bytes + len <= BYTES_MAX).then_some(bytes + len);
    BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
}

/// Counts `len` more in any case.
pub(crate) fn take_beyond(len: u64) {
    BYTES.fetch_add(len, Ordering::Relaxed);
}

/// Counts `len` less.
pub(crate) fn give_back(len: u64) {
    BYTES.fetch_sub(len, Ordering::Relaxed);
}
