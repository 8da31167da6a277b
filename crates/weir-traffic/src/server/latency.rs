//! How slow a server is lately: a moving average of its latency that jumps up at once and falls slowly.
//!
//! Peak EWMA, as in Finagle: a sample above the average takes its place, a sample below pulls it down by how
//! much time has passed since the last one. Without samples it falls towards zero, so that a server that was
//! slow once is tried again. Time is passed in.

use std::sync::atomic::{AtomicU64, Ordering};

/// After this time without a sample, half of the average is left: a server that was 1 000 times slower than
/// the others is tried again after ten times as long.
const HALF_LIFE_MS: u64 = 5_000;

/// The latency of one server. In one word, so that a reader never sees half of a change: the milliseconds of
/// the last sample (the lower 32 bits of them) and the average in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Latency(AtomicU64);

impl Latency {
    /// Takes in that a response took `micros`.
    pub(crate) fn observe(&self, micros: u32, now_ms: u64) {
        // Zero means no sample.
        let sample = micros.max(1);
        let update = |word: u64| {
            let elapsed_ms = elapsed_ms(word, now_ms);
            // Faded memory must not come back with the next sample.
            let above = decayed(word as u32, elapsed_ms).saturating_sub(sample);
            let average = sample + decayed(above, elapsed_ms);
            Some((now_ms as u32 as u64) << 32 | u64::from(average))
        };
        let _previous = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// The average in microseconds; 0 when there was no sample, or none for so long that it means nothing.
    #[inline]
    pub(crate) fn at(&self, now_ms: u64) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        decayed(word as u32, elapsed_ms(word, now_ms))
    }
}

/// The time since the last sample. Workers read the clock one after the other: one may be a little behind.
#[inline]
fn elapsed_ms(word: u64, now_ms: u64) -> u64 {
    let elapsed = (now_ms as u32).wrapping_sub((word >> 32) as u32);
    if elapsed > i32::MAX as u32 { 0 } else { elapsed.into() }
}

/// The rest of `value` after `elapsed_ms`: halves at each half-life, straight lines in between.
#[inline]
fn decayed(value: u32, elapsed_ms: u64) -> u32 {
    let halved = u64::from(value).checked_shr((elapsed_ms / HALF_LIFE_MS) as u32).unwrap_or(0);
    (halved - halved * (elapsed_ms % HALF_LIFE_MS) / (2 * HALF_LIFE_MS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_jumps_up_and_falls_slowly() {
        let latency = Latency::default();
        assert_eq!(latency.at(0), 0);
        latency.observe(1_000, 100);
        latency.observe(500, 100);
        assert_eq!(latency.at(100), 1_000, "no time has passed");
        latency.observe(2_000, 101);
        assert_eq!(latency.at(101), 2_000);
        latency.observe(600, 101 + HALF_LIFE_MS);
        assert_eq!(latency.at(101 + HALF_LIFE_MS), 800, "half way to the sample from what was left");
        assert_eq!(latency.at(101 + HALF_LIFE_MS * 3 / 2), 600);
        assert_eq!(latency.at(101 + HALF_LIFE_MS * 2), 400);
        assert_eq!(latency.at(101 + HALF_LIFE_MS * 100), 0);
    }

    #[test]
    fn a_clock_that_is_a_little_behind_or_wraps_changes_nothing() {
        let latency = Latency::default();
        let wrap = 1 << 32;
        latency.observe(800, wrap + 10);
        assert_eq!(latency.at(wrap + 5), 800);
        latency.observe(800, wrap - 5);
        assert_eq!(latency.at(wrap + HALF_LIFE_MS - 5), 400);
    }

    #[test]
    fn zero_and_huge_samples_are_samples() {
        let latency = Latency::default();
        latency.observe(0, 0);
        assert_eq!(latency.at(0), 1);
        latency.observe(u32::MAX, 0);
        assert_eq!(latency.at(HALF_LIFE_MS), u32::MAX / 2);
    }
}
