//! How often Weir was about to send a body other than its head had said: in a program without defects, never.

use std::sync::atomic::{AtomicU64, Ordering};

static VIOLATIONS: AtomicU64 = AtomicU64::new(0);

/// Counts one.
#[cold]
pub(crate) fn add() {
    VIOLATIONS.fetch_add(1, Ordering::Relaxed);
}

/// Those of this process, since it began.
pub fn count() -> u64 {
    VIOLATIONS.load(Ordering::Relaxed)
}
