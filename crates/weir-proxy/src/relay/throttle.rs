//! A limit on the bytes per second of one direction: a bucket that fills at that rate and holds an eighth of a second.

use std::time::Duration;

use crate::net::clock::Instant;

/// What the bucket holds, as a share of a second: longer makes bursts, shorter makes small writes.
const BUCKET: Duration = Duration::from_millis(125);

/// The bucket of one direction.
#[derive(Debug)]
pub(crate) struct Throttle {
    bytes_per_second: u64,
    credit: u64,
    /// Up to when time was turned into credit.
    filled_at: Instant,
}

impl Throttle {
    /// A full bucket for at least one byte per second.
    pub(crate) fn new(bytes_per_second: u64, now: Instant) -> Self {
        let bytes_per_second = bytes_per_second.max(1);
        Self { bytes_per_second, credit: capacity(bytes_per_second), filled_at: now }
    }

    /// How many of `wanted` bytes may move now, at least one.
    ///
    /// # Errors
    /// When it is worth looking again, if none may.
    pub(crate) fn allowed(&mut self, now: Instant, wanted: usize) -> Result<usize, Instant> {
        self.fill(now);
        if self.credit == 0 {
            // Not for every byte that falls due: for a fair part of what fits.
            let worth = capacity(self.bytes_per_second).div_ceil(2).min(wanted as u64).max(1);
            return Err(self.filled_at + self.time_for(worth));
        }
        Ok(usize::try_from(self.credit).unwrap_or(usize::MAX).min(wanted))
    }

    /// Counts bytes that have moved.
    pub(crate) fn take(&mut self, len: usize) {
        self.credit = self.credit.saturating_sub(len as u64);
    }

    /// Turns the time since the last call into credit, and leaves the rest of a byte for the next.
    fn fill(&mut self, now: Instant) {
        let nanos = now.saturating_duration_since(self.filled_at).as_nanos();
        let gained = nanos * u128::from(self.bytes_per_second) / 1_000_000_000;
        let gained = u64::try_from(gained).unwrap_or(u64::MAX);
        let room = capacity(self.bytes_per_second) - self.credit;
        if gained >= room {
            self.credit += room;
            self.filled_at = now;
        } else {
            self.credit += gained;
            self.filled_at += self.time_for(gained);
        }
    }

    fn time_for(&self, bytes: u64) -> Duration {
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_second);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn capacity(bytes_per_second: u64) -> u64 {
    (u128::from(bytes_per_second) * BUCKET.as_millis() / 1000).max(1) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::net::clock;

    #[test]
    fn a_bucket_begins_full_and_fills_at_the_rate() {
        let start = clock::now();
        let mut throttle = Throttle::new(8_000, start);
        assert_eq!(throttle.allowed(start, 16_384), Ok(1_000));
        throttle.take(1_000);
        let again = throttle.allowed(start, 16_384).expect_err("it is empty");
        assert_eq!(again, start + Duration::from_micros(62_500));
        assert_eq!(throttle.allowed(again, 16_384), Ok(500));
        assert_eq!(
            throttle.allowed(start + Duration::from_secs(9), 16_384),
            Ok(1_000),
            "it does not overflow"
        );
        assert_eq!(throttle.allowed(start + Duration::from_secs(9), 10), Ok(10));
    }

    #[test]
    fn one_byte_per_second_is_one_byte_per_second() {
        let start = clock::now();
        let mut throttle = Throttle::new(0, start);
        assert_eq!(throttle.allowed(start, 5), Ok(1));
        throttle.take(1);
        assert_eq!(throttle.allowed(start, 5), Err(start + Duration::from_secs(1)));
    }

    proptest! {
        /// A sender that takes all that is allowed, at the times that are returned, moves the rate and the bucket, within a percent.
        #[test]
        fn the_rate_holds(rate in 1_u64..1 << 40, wanted in 1_usize..1 << 17, late_us in 0_u64..3_000) {
            let start = clock::now();
            let mut throttle = Throttle::new(rate, start);
            let (mut now, mut moved, mut looks) = (start, 0_u64, 0);
            while looks < 500 {
                match throttle.allowed(now, wanted) {
                    Ok(len) => {
                        throttle.take(len);
                        moved += len as u64;
                        looks += 1;
                    }
                    Err(at) => now = at + Duration::from_micros(late_us),
                }
            }
            let passed = (now - start).as_nanos() * u128::from(rate) / 1_000_000_000;
            let most = passed + u128::from(capacity(rate));
            prop_assert!(u128::from(moved) <= most + most / 100 + 1, "{moved} of {most}");
        }
    }
}
