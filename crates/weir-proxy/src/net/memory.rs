//! When many connections of a worker have ended: the memory that they had goes back to the system, not to a next crowd that may never come.
//!
//! An allocator keeps what is freed for the next one who asks. The library does not know which allocator the program has, so the
//! program says how that is told to let go. Must not be asked on the path of a request: letting go takes milliseconds.

use std::sync::OnceLock;

/// A peak that falls by fewer connections than this takes too little along.
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

/// The number of a worker's connections, as far as it rises and falls.
#[derive(Debug, Default)]
pub(crate) struct ConnectionPeak {
    /// The most connections since memory was last given back.
    high: u32,
    /// Whether that was when it was last looked at: then the rest of a crowd may still be on its way out.
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
    fn half_of_a_crowd_has_to_go() {
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
    fn the_last_of_a_crowd_are_waited_for() {
        let mut peak = ConnectionPeak::default();
        let looks = [(1_000, false), (200, true), (3, true), (0, true), (0, false), (5, false), (0, false)];
        for (connections, has_fallen) in looks {
            assert_eq!(peak.has_fallen(connections), has_fallen, "{connections}");
        }
    }

    #[test]
    fn few_connections_are_no_crowd() {
        let mut peak = ConnectionPeak::default();
        assert!([200, 0, 255, 0].into_iter().all(|connections| !peak.has_fallen(connections)));
    }
}
