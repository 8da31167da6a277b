//! Which exchanges are traced: a share of all traces, with a maximum rate per second.
//!
//! The share is decided by the trace id alone, the way OpenTelemetry does, so that all services that handle a trace decide alike. The
//! rate is a token bucket as one number, the time at which it is full again (the generic cell rate algorithm, ITU-T I.371).

use std::time::Duration;

/// Parts of a million: the finest share.
pub const SHARE_WHOLE: u32 = 1_000_000;

/// A share of all traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleShare {
    /// Traces whose 63 last but one bits are below this are in.
    bound: u64,
}

impl SampleShare {
    /// This many of a million; more than that is all.
    pub fn of_million(parts: u32) -> Self {
        let parts = u128::from(parts.min(SHARE_WHOLE));
        Self { bound: ((parts << 63) / u128::from(SHARE_WHOLE)) as u64 }
    }

    /// Whether the trace of this id is in it.
    #[inline]
    pub fn takes(self, trace_id: u128) -> bool {
        (trace_id as u64) >> 1 < self.bound
    }
}

/// How many may be taken a second. A second's worth may come at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleRate {
    /// Time that one costs.
    cost_ns: u64,
}

/// Nanoseconds of a second.
const SECOND_NS: u64 = 1_000_000_000;

impl SampleRate {
    /// This many a second over `parts` that do not communicate; each of them gets at least one a second.
    pub fn new(per_second: u32, parts: usize) -> Self {
        let mine = (u64::from(per_second) / parts.max(1) as u64).max(1);
        Self { cost_ns: SECOND_NS / mine }
    }

    /// Takes one at `now`, which counts from anywhere, if there is one to take.
    #[inline]
    pub fn try_take(self, full_at: &mut Duration, now: Duration) -> bool {
        let start = (*full_at).max(now);
        let next = start + Duration::from_nanos(self.cost_ns);
        let fits = next - now <= Duration::from_nanos(SECOND_NS.max(self.cost_ns));
        if fits {
            *full_at = next;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{SHARE_WHOLE, SampleRate, SampleShare};
    use std::time::Duration;

    /// Ids spread evenly over the bits that decide.
    fn taken(parts: u32, of: u64) -> u64 {
        let step = u64::MAX / of;
        (0..of).filter(|index| SampleShare::of_million(parts).takes(u128::from(index * step))).count() as u64
    }

    #[test]
    fn the_share_is_exact_in_the_long_run() {
        for (parts, expected) in
            [(0, 0), (1, 1), (10, 10), (10_000, 10_000), (500_000, 500_000), (SHARE_WHOLE, 1_000_000)]
        {
            let found = taken(parts, 1_000_000);
            assert!(found.abs_diff(expected) <= 1, "{parts}: {found}");
        }
        assert!(SampleShare::of_million(SHARE_WHOLE).takes(u128::MAX), "all means all");
        assert!(!SampleShare::of_million(0).takes(1 << 127), "none means none");
    }

    #[test]
    fn so_many_a_second_and_no_more() {
        for per_second in [1, 7, 100, 1_000] {
            let pace = SampleRate::new(per_second, 1);
            let (mut full_at, mut taken) = (Duration::ZERO, 0);
            // Ten seconds of a look every tenth of a millisecond: a burst, then the rate.
            for tick in 0..100_000 {
                taken += u32::from(pace.try_take(&mut full_at, Duration::from_micros(tick * 100)));
            }
            assert!(
                (per_second * 10..=per_second * 11 + 1).contains(&taken),
                "{per_second} a second: {taken} in ten"
            );
        }
    }

    #[test]
    fn workers_share_the_rate() {
        let pace = SampleRate::new(100, 4);
        let mut full_at = Duration::ZERO;
        let at_once = (0..1000).filter(|_| pace.try_take(&mut full_at, Duration::ZERO)).count();
        assert_eq!(at_once, 25);
        let pace = SampleRate::new(1, 4);
        let mut untouched = Duration::ZERO;
        assert!(pace.try_take(&mut untouched, Duration::ZERO), "a worker is never left with none");
    }

    proptest! {
        #[test]
        fn a_larger_share_has_all_of_a_smaller_one(small in 0..SHARE_WHOLE, more in 0..SHARE_WHOLE, id: u128) {
            let large = small.saturating_add(more);
            prop_assert!(!SampleShare::of_million(small).takes(id) || SampleShare::of_million(large).takes(id));
        }

        #[test]
        fn only_the_last_bits_of_the_id_decide(parts in 0..=SHARE_WHOLE, low: u64, high: u64) {
            let share = SampleShare::of_million(parts);
            prop_assert_eq!(share.takes(u128::from(low)), share.takes(u128::from(high) << 64 | u128::from(low)));
        }
    }
}
