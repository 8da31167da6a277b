//! How long a source is left alone after it failed: twice as long each time, with a random part, so that the nodes of a fleet do not all
//! come back at the same moment. Pure: the random number is passed in.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);

/// A source that is back is asked within this time, so that its answer is in use within two seconds.
const LONGEST: Duration = Duration::from_secs(1);

/// The failures in a row of one source.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The source has answered.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }

    /// The wait after one more failure; `random` is from 0 to 1.
    pub(crate) fn next_wait(&mut self, random: f64) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(8)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(0.5 + random.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..6).map(|_| backoff.next_wait(1.0).as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 1000, 1000, 1000]);
        assert_eq!(backoff.next_wait(0.0).as_millis(), 500, "half of it is random");
        backoff.reset();
        assert_eq!(backoff.next_wait(0.0).as_millis(), 125);
        for _ in 0..100 {
            assert!(backoff.next_wait(0.5) <= LONGEST, "no overflow");
        }
    }
}
