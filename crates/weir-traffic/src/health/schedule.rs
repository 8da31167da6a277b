//! When to probe: each server on a beat of its own, so that the probes of many never come at once.
//!
//! The beats of all servers are spread over the interval by the golden ratio: however many there are, and
//! whichever share an interval, neighbours are far apart, and a server more or less moves no other. Jitter is
//! added to each beat anew and does not add up. While a server changes, its probes follow each other sooner,
//! counted from the last; afterwards it returns to its beat.

use std::time::Duration;

use crate::hash::mix;

/// 2^64 over the golden ratio: multiples of it, taken as fractions, spread more evenly than those of any other
/// number (Knuth, The Art of Computer Programming, volume 3, section 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The largest jitter, in percent of the interval: with more, two probes could swap their beats.
const JITTER_PERCENT_MAX: u32 = 50;

/// How often a server is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeTiming {
    /// From beat to beat; whole milliseconds, at least one.
    pub interval: Duration,
    /// From probe to probe while the verdict may be about to change; whole milliseconds, at least one.
    pub fast_interval: Duration,
    /// How much later than planned a probe may come, in percent of the interval, at most 50.
    pub jitter_percent: u32,
}

/// The times at which one server is probed, in milliseconds on a clock of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeSchedule {
    interval_ms: u64,
    fast_ms: u64,
    jitter_percent: u32,
    /// The first beat.
    offset_ms: u64,
}

impl ProbeSchedule {
    /// The schedule of the server that is the `turn`th of all that are probed; `seed` is the same for all of a
    /// process, and different in each, so that several processes do not probe a server at the same time.
    pub fn new(pace: &ProbeTiming, turn: u32, seed: u64) -> ProbeSchedule {
        let interval_ms = millis(pace.interval);
        let fraction = mix(seed).wrapping_add(u64::from(turn).wrapping_mul(GOLDEN));
        ProbeSchedule {
            interval_ms,
            fast_ms: millis(pace.fast_interval),
            jitter_percent: pace.jitter_percent.min(JITTER_PERCENT_MAX),
            offset_ms: part(interval_ms, fraction),
        }
    }

    /// When the first probe is due that is not before `now_ms`; `random` is any number.
    pub fn first(&self, now_ms: u64, random: u64) -> u64 {
        self.beat(now_ms) + self.jitter(self.interval_ms, random)
    }

    /// When the next probe is due, after one that began at `began_ms` and has ended by `now_ms`.
    ///
    /// A probe that takes longer than the interval leaves out the beats that it covers.
    pub fn next(&self, began_ms: u64, now_ms: u64, is_changing: bool, random: u64) -> u64 {
        if is_changing {
            let soon = began_ms + self.fast_ms + self.jitter(self.fast_ms, random);
            return soon.max(now_ms);
        }
        self.beat(now_ms.max(began_ms + 1)) + self.jitter(self.interval_ms, random)
    }

    /// The first beat that is not before `at_ms`.
    fn beat(&self, at_ms: u64) -> u64 {
        let beats = at_ms.saturating_sub(self.offset_ms).div_ceil(self.interval_ms);
        self.offset_ms + beats * self.interval_ms
    }

    fn jitter(&self, interval_ms: u64, random: u64) -> u64 {
        part(interval_ms * u64::from(self.jitter_percent) / 100, random)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4).clamp(1, u64::MAX / 4)
}

/// `whole` times `fraction`/2^64, rounded down.
fn part(whole: u64, fraction: u64) -> u64 {
    ((u128::from(whole) * u128::from(fraction)) >> 64) as u64
}
