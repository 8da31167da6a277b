//! Events in a sliding period, from two fixed ones: those of the current period, and of the one before as far as it still reaches into the sliding one,
//! as if they had come evenly (`freq_ctr` of HAProxy). Three numbers, exact when a period begins and ends with events.

/// The numbers of a rate: when the current period began in milliseconds, its events, those of the period before.
pub(super) const WORDS: usize = 3;

/// Counts `count` events at `now_ms`. A clock that lags behind another thread's counts into the period that is current there.
pub(super) fn add(words: &mut [u64], period_ms: u64, count: u64, now_ms: u64) {
    let [began, current, before] = words else { return };
    let elapsed = now_ms.saturating_sub(*began);
    if elapsed >= period_ms {
        (*before, *began) = match elapsed < period_ms.saturating_mul(2) {
            true => (*current, *began + period_ms),
            false => (0, now_ms),
        };
        *current = 0;
    }
    *current = current.saturating_add(count);
}

/// The events of the period that ends at `now_ms`, rounded down.
pub(super) fn read(words: &[u64], period_ms: u64, now_ms: u64) -> u64 {
    let &[began, current, before] = words else { return 0 };
    let elapsed = now_ms.saturating_sub(began);
    let (before, current, elapsed) = match elapsed {
        within if within < period_ms => (before, current, within),
        behind if behind < period_ms.saturating_mul(2) => (current, 0, behind - period_ms),
        _ => return 0,
    };
    // One event of before that fades away would flap between 1 and 0.
    if before <= 1 && current == 0 {
        return before;
    }
    let rest = u128::from(before) * u128::from(period_ms - elapsed) / u128::from(period_ms);
    current.saturating_add(u64::try_from(rest).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_before_fades_out() {
        let mut words = [1_000, 0, 0];
        for _ in 0..100 {
            add(&mut words, 10_000, 1, 2_000);
        }
        for (now_ms, expected) in [
            (2_000, 100),
            (10_999, 100),
            (11_000, 100),
            (16_000, 50),
            (20_000, 10),
            (20_999, 0),
            (21_000, 0),
            (99_000, 0),
        ] {
            assert_eq!(read(&words, 10_000, now_ms), expected, "at {now_ms}");
        }
        add(&mut words, 10_000, 10, 16_000);
        assert_eq!(words, [11_000, 10, 100]);
        assert_eq!(read(&words, 10_000, 16_000), 60);
        add(&mut words, 10_000, 1, 45_000);
        assert_eq!(words, [45_000, 1, 0], "what is two periods away is forgotten");
    }

    #[test]
    fn clocks_that_lag_and_large_numbers_do_no_harm() {
        let mut words = [1_000, 0, 0];
        add(&mut words, 10, u64::MAX, 1_005);
        add(&mut words, 10, u64::MAX, 1_001);
        add(&mut words, 10, 1, 0);
        assert_eq!(words, [1_000, u64::MAX, 0]);
        assert_eq!(read(&words, 10, 1_010), u64::MAX);
        assert_eq!(read(&words, 10, 0), u64::MAX);
    }
}
