//! Slow start: the share of a server that has come back, from next to nothing to all of its weight.

use crate::server::RAMP_FULL;

/// A stretch of time in which a server works its way up, evenly. Times are milliseconds on any clock that does not go back.
#[derive(Debug, Clone, Copy)]
pub struct SlowStart {
    began_ms: u64,
    length_ms: u64,
}

impl SlowStart {
    /// From `began_ms` on, for `length_ms`.
    pub const fn new(began_ms: u64, length_ms: u64) -> SlowStart {
        SlowStart { began_ms, length_ms }
    }

    /// The share of its weight at `now_ms`, for [`ServerState::set_ramp`](crate::ServerState::set_ramp).
    pub fn ramp(&self, now_ms: u64) -> u32 {
        let elapsed_ms = now_ms.saturating_sub(self.began_ms).min(self.length_ms);
        let full = u128::from(RAMP_FULL);
        let ramp = full * u128::from(elapsed_ms) / u128::from(self.length_ms.max(1));
        if self.length_ms == 0 { RAMP_FULL } else { (ramp as u32).max(1) }
    }

    /// When the share is next to change; `None` when it is whole.
    pub fn next_ms(&self, now_ms: u64) -> Option<u64> {
        let ramp = self.ramp(now_ms);
        let next = u128::from(ramp + 1) * u128::from(self.length_ms);
        (ramp < RAMP_FULL).then(|| self.began_ms + next.div_ceil(u128::from(RAMP_FULL)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_evenly_from_next_to_nothing_to_all() {
        let start = SlowStart::new(1_000, 25_600);
        assert_eq!((start.ramp(0), start.ramp(1_000), start.ramp(1_099)), (1, 1, 1));
        assert_eq!((start.ramp(1_200), start.ramp(13_800)), (2, 128));
        assert_eq!((start.ramp(26_599), start.ramp(26_600), start.ramp(u64::MAX)), (255, 256, 256));
        assert_eq!(
            (start.next_ms(1_000), start.next_ms(26_599), start.next_ms(26_600)),
            (Some(1_200), Some(26_600), None)
        );
    }

    /// A caller that sleeps until the next change sees every step once and comes to the end, whatever the length.
    #[test]
    fn each_change_is_one_step() {
        for length_ms in [0, 1, 100, 255, 256, 257, 10_000, 3_600_000] {
            let start = SlowStart::new(7, length_ms);
            let (mut now_ms, mut before) = (7, 0);
            while let Some(next_ms) = start.next_ms(now_ms) {
                assert!(next_ms > now_ms && start.ramp(next_ms) > before, "{length_ms} ms, at {now_ms}");
                (now_ms, before) = (next_ms, start.ramp(now_ms));
            }
            assert_eq!((now_ms, start.ramp(now_ms)), (7 + length_ms, RAMP_FULL), "{length_ms} ms");
        }
    }
}
