//! When many sessions of a worker have ended: the memory that they had goes back to the system, not to a next crowd that may never come.
//!
//! An allocator keeps what is freed for the next one who asks. The library does not know which allocator the program has, so the
//! program says how that is told to let go. Must not be asked on the path of a request: letting go takes milliseconds.

use std::sync::OnceLock;

/// A tide that falls by fewer sessions than this takes too little along.
const FALL_MIN: u32 = 256;

static GIVE_BACK: OnceLock<fn()> = OnceLock::new();

/// Has workers call `give_back`, each on its own thread, when many of their sessions have ended. The first call counts.
pub fn give_back_memory_by(give_back: fn()) {
    let _first = GIVE_BACK.set(give_back);
}

/// Gives back what the calling thread has freed.
pub(crate) fn give_back() {
    if let Some(give_back) = GIVE_BACK.get() {
        give_back();
    }
}

/// The number of a worker's sessions, as far as it rises and falls.
#[derive(Debug, Default)]
pub(crate) struct Tide {
    /// The most sessions since memory was last given back.
    high: u32,
    /// Whether that was when it was last looked at: then the rest of a crowd may still be on its way out.
    falls: bool,
}

impl Tide {
    /// Whether it is worth giving memory back, now that there are `sessions`: when half of them have gone, and then for as
    /// long as there are fewer at each look.
    pub(crate) fn has_fallen(&mut self, sessions: u32) -> bool {
        let fallen = self.high.saturating_sub(sessions);
        self.falls = fallen >= FALL_MIN.max(self.high.div_ceil(2)) || (self.falls && fallen > 0);
        self.high = if self.falls { sessions } else { self.high.max(sessions) };
        self.falls
    }
}

#[cfg(test)]
mod tests {
    use super::Tide;

    #[test]
    fn half_of_a_crowd_has_to_go() {
        let mut tide = Tide::default();
        let looks = [
            (1_000, false),
            (600, false),
            (500, true),
            (500, false),
            (400, false),
            (250, false),
            (244, true),
        ];
        for (sessions, has_fallen) in looks {
            assert_eq!(tide.has_fallen(sessions), has_fallen, "{sessions}");
        }
    }

    #[test]
    fn the_last_of_a_crowd_are_waited_for() {
        let mut tide = Tide::default();
        let looks = [(1_000, false), (200, true), (3, true), (0, true), (0, false), (5, false), (0, false)];
        for (sessions, has_fallen) in looks {
            assert_eq!(tide.has_fallen(sessions), has_fallen, "{sessions}");
        }
    }

    #[test]
    fn few_sessions_are_no_crowd() {
        let mut tide = Tide::default();
        assert!([200, 0, 255, 0].into_iter().all(|sessions| !tide.has_fallen(sessions)));
    }
}
