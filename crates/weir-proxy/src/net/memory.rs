//! Returns memory to the system when many connections of a worker have ended.
//!
//! An allocator keeps freed memory for later allocations. The library does not know the allocator of the program, so the
//! program provides the function that releases it. Must not be called on the path of a request: it takes milliseconds.

use std::sync::OnceLock;

/// A decrease by fewer connections than this frees too little.
const FALL_MIN: u32 = 256;

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
    use super::ConnectionPeak;

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
