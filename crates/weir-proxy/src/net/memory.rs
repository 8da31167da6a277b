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
const BOUND_AT_LEAST: u64 = 16 * 1024;

/// Budgets that would allow more leave the kernel its own limits.
const UNSENT_AT_MOST: u64 = 512 * 1024;

/// What the kernel may have received of a server that Weir has not read: the same part, since it takes twice as much memory for it. Larger
/// values leave it its own limits, which begin there.
const UNREAD_ONE_IN: u64 = 16_384;
const UNREAD_AT_MOST: u64 = 64 * 1024;

/// Bytes; 0: no bound.
static UNSENT_MAX: AtomicU32 = AtomicU32::new(0);
static UNREAD_MAX: AtomicU32 = AtomicU32::new(0);

/// What the memory of the kernel for sockets is bounded by, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct SocketBounds {
    /// The budget of the process; `None`: none.
    pub budget: Option<u64>,
    /// What the kernel has for all TCP sockets of the machine before it saves; `None`: it does not say.
    pub kernel_max: Option<u64>,
    /// Whether a good part of that is in use.
    pub is_kernel_filling: bool,
}

/// Has the kernel hold no more of what a client has not taken, or of what a server has sent and Weir has not read, than these bounds allow, on
/// connections that are made from now on. The kernel's own limit bounds what servers have sent only once it fills: a fixed size ends the tuning of
/// the receive window, on which the throughput of long ways depends.
pub fn bound_sockets_by(bounds: SocketBounds) {
    let least = bounds.budget.into_iter().chain(bounds.kernel_max).min();
    UNSENT_MAX.store(part(least, UNSENT_ONE_IN, UNSENT_AT_MOST), Ordering::Relaxed);
    UNREAD_MAX.store(unread_part(bounds), Ordering::Relaxed);
}

fn unread_part(bounds: SocketBounds) -> u32 {
    match part(bounds.budget, UNREAD_ONE_IN, UNREAD_AT_MOST) {
        0 if bounds.is_kernel_filling => UNREAD_AT_MOST as u32,
        bytes => bytes,
    }
}

fn part(budget: Option<u64>, one_in: u64, at_most: u64) -> u32 {
    let bytes = budget.map_or(u64::MAX, |budget| budget / one_in).max(BOUND_AT_LEAST);
    if bytes > at_most { 0 } else { bytes as u32 }
}

/// The bound for a new connection to a server.
pub(crate) fn unread_max() -> Option<u32> {
    Some(UNREAD_MAX.load(Ordering::Relaxed)).filter(|bytes| *bytes > 0)
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
pub fn give_back() {
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
    use super::{
        ConnectionPeak, SocketBounds, UNREAD_AT_MOST, UNREAD_ONE_IN, UNSENT_AT_MOST, UNSENT_ONE_IN, part,
        unread_part,
    };

    #[test]
    fn small_budgets_bound_what_the_kernel_holds() {
        let budgets = [16, 256, 1024, 1100, 4096, 5000].map(|mib: u64| Some(mib << 20));
        let unsent = budgets.map(|budget| part(budget, UNSENT_ONE_IN, UNSENT_AT_MOST) >> 10);
        assert_eq!(unsent, [16, 32, 128, 137, 512, 0]);
        let unread = budgets.map(|budget| part(budget, UNREAD_ONE_IN, UNREAD_AT_MOST) >> 10);
        assert_eq!(unread, [16, 16, 64, 0, 0, 0]);
        assert_eq!(part(None, UNSENT_ONE_IN, UNSENT_AT_MOST), 0);
    }

    #[test]
    fn servers_get_small_buffers_while_the_memory_of_the_kernel_fills() {
        let bounds =
            SocketBounds { budget: Some(20 << 30), kernel_max: Some(1 << 30), is_kernel_filling: false };
        assert_eq!(unread_part(bounds), 0);
        assert_eq!(unread_part(SocketBounds { is_kernel_filling: true, ..bounds }), 64 << 10);
        let small = SocketBounds { budget: Some(256 << 20), is_kernel_filling: true, ..bounds };
        assert_eq!(unread_part(small), 16 << 10, "the budget bounds them further");
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
