//! Returns memory to the system when many connections of a worker have ended, and bounds what the kernel keeps for each.
//!
//! An allocator keeps freed memory for later allocations. The library does not know the allocator of the program, so the
//! program provides the function that releases it. Must not be called on the path of a request: it takes milliseconds.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A decrease by fewer connections than this frees too little.
const FALL_MIN: u32 = 256;

/// What the kernel may hold of a client connection that it has not sent, as a part of the memory budget: a fourth of it for 2 048 clients that
/// read slowly.
const UNSENT_ONE_IN: u64 = 8_192;

/// A connection needs so much to be written to in few turns.
const UNSENT_AT_LEAST: u64 = 16 * 1024;

/// Budgets that would allow more leave the kernel its own limits.
const UNSENT_AT_MOST: u64 = 512 * 1024;

/// Bytes; 0: no bound.
static UNSENT_MAX: AtomicU32 = AtomicU32::new(0);

/// Has the kernel hold no more of what a client has not taken than this budget allows, on connections that are accepted from now on.
pub fn bound_unsent_by(budget: Option<u64>) {
    UNSENT_MAX.store(unsent_of(budget), Ordering::Relaxed);
}

fn unsent_of(budget: Option<u64>) -> u32 {
    let bytes = budget.map_or(u64::MAX, |budget| budget / UNSENT_ONE_IN).max(UNSENT_AT_LEAST);
    if bytes > UNSENT_AT_MOST { 0 } else { bytes as u32 }
}

/// The bound for a new listening socket, which accepted connections inherit.
pub(crate) fn unsent_max() -> Option<u32> {
    Some(UNSENT_MAX.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
}

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Has workers call `give_back`, each on its own thread, when many of their connections have ended. The first call counts.
pub fn give_back_memory_by(give_back: fn()) {
    let _first = GIVE_BACK.set(give_back);
}

/// Gives back what the calling thread has freed.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// The peak of the number of connections of a worker, to notice a large decrease.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPeak {
    /// The most connections since memory was last given back.
    high: u32,
    /// Whether the number was falling at the last check: then it may fall further.
    falls: bool,
}

impl ConnectionPeak {
    /// Whether it is worth giving memory back, now that there are `connections`: when half of them have gone, and then for as
    /// long as there are fewer at each look.
    pub(crate) fn has_fallen(&mut self, connections: u32) -> bool {
        let fallen = self.high.saturating_sub(connections);
        self.falls = fallen >= FALL_MIN.max(self.high.div_ceil(2)) || (self.falls && fallen > 0);
        self.high = if self.falls { connections } else { self.high.max(connections) };
        self.falls
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectionPeak, unsent_of};

    #[test]
    fn small_budgets_bound_what_the_kernel_has_not_sent() {
        let mib = |count: u64| Some(count << 20);
        let bytes = [mib(16), mib(256), mib(1024), mib(4096), mib(4100), None].map(unsent_of);
        assert_eq!(bytes, [16 << 10, 32 << 10, 128 << 10, 512 << 10, 0, 0]);
    }

    #[test]
    fn memory_is_returned_when_half_of_the_connections_have_ended() {
        let mut peak = ConnectionPeak::default();
        let looks = [
            (1_000, false),
            (600, false),
            (500, true),
            (500, false),
            (400, false),
            (250, false),
            (244, true),
        ];
        for (connections, has_fallen) in looks {
            assert_eq!(peak.has_fallen(connections), has_fallen, "{connections}");
        }
    }

    #[test]
    fn memory_is_returned_again_while_the_number_falls() {
        let mut peak = ConnectionPeak::default();
        let looks = [(1_000, false), (200, true), (3, true), (0, true), (0, false), (5, false), (0, false)];
        for (connections, has_fallen) in looks {
            assert_eq!(peak.has_fallen(connections), has_fallen, "{connections}");
        }
    }

    #[test]
    fn few_connections_return_no_memory() {
        let mut peak = ConnectionPeak::default();
        assert!([200, 0, 255, 0].into_iter().all(|connections| !peak.has_fallen(connections)));
    }
}
