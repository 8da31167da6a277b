//! A count with an upper bound that threads share: connections of the process, of a listener.

use std::sync::atomic::{AtomicU32, Ordering};

/// How many there are, and how many there may be.
#[derive(Debug)]
#[repr(align(128))]
pub struct Gauge {
    count: AtomicU32,
    count_max: AtomicU32,
}

impl Gauge {
    /// A gauge at 0 that goes up to `count_max`.
    pub fn new(count_max: u32) -> Gauge {
        Gauge { count: AtomicU32::new(0), count_max: AtomicU32::new(count_max) }
    }

    /// Adds one if there is room. The bound is never exceeded, however many threads call at once.
    #[must_use = "what was taken has to be released"]
    pub fn try_acquire(&self) -> bool {
        let count_max = self.count_max.load(Ordering::Relaxed);
        let add = |count: u32| (count < count_max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Takes away one that was added before.
    pub fn release(&self) {
        let released =
            self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        debug_assert!(released.is_ok(), "released more than was acquired");
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many there may be.
    pub fn count_max(&self) -> u32 {
        self.count_max.load(Ordering::Relaxed)
    }

    /// Changes the bound. What is there already above a lowered bound stays.
    pub fn set_count_max(&self, count_max: u32) {
        self.count_max.store(count_max, Ordering::Relaxed);
    }
}
