//! A budget that refills over time: what a peer may do often for a moment, but not for long.

/// Steps of what refills, per unit of the budget: refills of less than one in a millisecond are not lost.
const PARTS: u32 = 1_000;

/// The most that there can be by what was earned: a peer that opens its windows for each 4 KiB of 200 MB at once.
const EARNED_MAX: u32 = 100_000;

/// A budget with a refill per second. Time is in milliseconds from any fixed moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bucket {
    /// In parts.
    left: u32,
    filled_at: u64,
    size: u16,
    per_second: u16,
}

impl Bucket {
    /// A full one, of at most 65 535.
    pub(crate) const fn new(size: u16, per_second: u16) -> Self {
        Self { left: size as u32 * PARTS, filled_at: 0, size, per_second }
    }

    /// Takes one; `false` when none is left.
    pub(crate) fn take(&mut self, now: u64) -> bool {
        if self.left < PARTS {
            self.refill(now);
        }
        let has_one = self.left >= PARTS;
        if has_one {
            self.left -= PARTS;
        }
        has_one
    }

    /// Puts some back, also beyond the size: a peer may take late, and all at once, what it has earned before.
    pub(crate) fn earn(&mut self, count: u16) {
        self.left = self.left.saturating_add(u32::from(count) * PARTS).min(EARNED_MAX * PARTS);
    }

    fn refill(&mut self, now: u64) {
        let since = now.saturating_sub(self.filled_at);
        // A millisecond brings a thousandth of what a second does: as many parts as a second brings units.
        let parts = since.saturating_mul(u64::from(self.per_second));
        let full = u64::from(self.size) * u64::from(PARTS);
        // Lossless: `full` fits.
        self.left = (u64::from(self.left).saturating_add(parts)).min(full) as u32;
        self.filled_at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_full_at_first_and_refills_slowly() {
        let mut bucket = Bucket::new(3, 20);
        bucket.refill(1_000);
        assert_eq!((0..10).filter(|_| bucket.take(1_000)).count(), 3);
        assert!(!bucket.take(1_049));
        assert!(bucket.take(1_050), "one in 50 ms");
        assert!(!bucket.take(1_050));
        assert_eq!((0..10).filter(|_| bucket.take(u64::MAX)).count(), 3, "never more than its size");
        bucket.earn(2);
        assert_eq!((0..10).filter(|_| bucket.take(u64::MAX)).count(), 2);
        bucket.earn(20);
        assert_eq!((0..30).filter(|_| bucket.take(u64::MAX)).count(), 20, "as many as were earned");
        (0..10).for_each(|_| bucket.earn(u16::MAX));
        assert_eq!((0..200_000).filter(|_| bucket.take(u64::MAX)).count(), EARNED_MAX as usize);
    }

    #[test]
    fn refills_of_less_than_one_add_up() {
        let mut bucket = Bucket::new(1, 1);
        assert!(bucket.take(0));
        assert!((1..1_000).all(|now| !bucket.take(now)));
        assert!(bucket.take(1_000));
    }
}
