//! The retry budget of an upstream: retries are a share of its requests, never a multiple.
//!
//! Without it every server that fails doubles the load on those that still work. A window of the last ten
//! seconds, so that the budget follows the traffic; at least a few per second, so that a single failure on a
//! quiet upstream is repeated. The larger of both counts, not their sum: the least of a thousand nodes adds
//! nothing where there is traffic (decision 151). Lock-free; time is passed in.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Length of the window in seconds.
const WINDOW_SECONDS: u64 = 10;

/// One slot more than the window, so that the slot being reused is never one being summed.
const SLOTS: usize = WINDOW_SECONDS as usize + 1;

/// How many retries an upstream may have.
#[derive(Debug)]
pub struct RetryBudget {
    share_percent: u32,
    least_per_second: u32,
    /// Made with the first thing to count: most upstreams of a large config have no requests.
    window: OnceLock<Box<BudgetWindow>>,
}

/// The last seconds.
#[derive(Debug, Default)]
struct BudgetWindow {
    requests: [BudgetSecond; SLOTS],
    retries: [BudgetSecond; SLOTS],
}

/// The count of one second: the second in the upper half, the count in the lower. One word, so that they
/// change together.
#[derive(Debug, Default)]
struct BudgetSecond(AtomicU64);

impl RetryBudget {
    /// One retry for every five requests.
    pub const SHARE_PERCENT_DEFAULT: u32 = 20;
    /// At least three a second, whatever the traffic: thirty at once.
    pub const LEAST_PER_SECOND_DEFAULT: u32 = 3;

    /// A budget of `share_percent` of the requests of the last ten seconds, at least of `least_per_second`.
    pub fn new(share_percent: u32, least_per_second: u32) -> RetryBudget {
        RetryBudget { share_percent, least_per_second, window: OnceLock::new() }
    }

    fn window(&self) -> &BudgetWindow {
        self.window.get_or_init(Box::default)
    }

    /// Counts a request (not a retry) at `now_ms`.
    pub fn record_request(&self, now_ms: u64) {
        self.record_requests(1, now_ms);
    }

    /// Counts several at once, for callers that avoid touching shared memory at every request.
    pub fn record_requests(&self, count: u32, now_ms: u64) {
        let second = now_ms / 1_000;
        slot_of(&self.window().requests, second).add(second, count);
    }

    /// Takes one retry from the budget at `now_ms`; false when it is used up. However many threads ask at
    /// once, the budget is not exceeded; threads that ask at the very end of it may all be refused.
    pub fn try_take(&self, now_ms: u64) -> bool {
        let second = now_ms / 1_000;
        let window = self.window();
        let slot = slot_of(&window.retries, second);
        slot.add(second, 1);
        if sum(&window.retries, second) <= self.allowed(second) {
            return true;
        }
        slot.take_back(second);
        false
    }

    /// Retries that could still be taken at `now_ms`.
    pub fn left(&self, now_ms: u64) -> u64 {
        let second = now_ms / 1_000;
        self.allowed(second).saturating_sub(sum(&self.window().retries, second))
    }

    fn allowed(&self, second: u64) -> u64 {
        let share = sum(&self.window().requests, second) * u64::from(self.share_percent) / 100;
        share.max(u64::from(self.least_per_second) * WINDOW_SECONDS)
    }
}

/// 20 percent, at least 3 a second.
impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget::new(Self::SHARE_PERCENT_DEFAULT, Self::LEAST_PER_SECOND_DEFAULT)
    }
}

fn slot_of(slots: &[BudgetSecond; SLOTS], second: u64) -> &BudgetSecond {
    &slots[(second % SLOTS as u64) as usize]
}

/// The counts of the window that ends with `second`.
fn sum(slots: &[BudgetSecond; SLOTS], second: u64) -> u64 {
    let oldest = second.saturating_sub(WINDOW_SECONDS - 1);
    (oldest..=second).map(|second| slot_of(slots, second).count(second)).sum()
}

impl BudgetSecond {
    /// Adds to the count of `second`, from 0 if the slot still holds an older second.
    fn add(&self, second: u64, count: u32) {
        let count = u64::from(count);
        let fresh = second << 32 | count;
        let update = |word: u64| Some(if word >> 32 == second & 0xffff_ffff { word + count } else { fresh });
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    fn take_back(&self, second: u64) {
        let update =
            |word: u64| (word >> 32 == second & 0xffff_ffff && word & 0xffff_ffff > 0).then(|| word - 1);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    fn count(&self, second: u64) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        if word >> 32 == second & 0xffff_ffff { word & 0xffff_ffff } else { 0 }
    }
}
