//! Shares as fractions of whole numbers, such as 1/3.

use std::fmt;

use super::Percent;

/// A part of something, at most the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareFraction {
    numerator: u32,
    denominator: u32,
}

impl ShareFraction {
    /// The whole.
    pub const WHOLE: Self = Self { numerator: 100, denominator: 100 };

    /// `None` if that is more than the whole, or of nothing.
    pub const fn new(numerator: u32, denominator: u32) -> Option<Self> {
        match denominator > 0 && numerator <= denominator {
            true => Some(Self { numerator, denominator }),
            false => None,
        }
    }

    /// So many hundredths, at most 100.
    pub fn of_percent(percent: Percent) -> Self {
        Self { numerator: percent.percent().min(100), denominator: 100 }
    }

    /// Whether nothing is part of it.
    pub const fn is_none(self) -> bool {
        self.numerator == 0
    }

    /// Its size in hundredths, for figures.
    pub fn percent(self) -> f64 {
        f64::from(self.numerator) * 100.0 / f64::from(self.denominator)
    }

    /// Whether it has the one for which this number was drawn at random.
    #[inline]
    pub const fn has(self, random: u64) -> bool {
        ((random >> 32) * self.denominator as u64) >> 32 < self.numerator as u64
    }
}

impl fmt::Display for ShareFraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hundredths = u64::from(self.numerator) * 100;
        match hundredths % u64::from(self.denominator) {
            0 => write!(f, "{}%", hundredths / u64::from(self.denominator)),
            _ => write!(f, "{}/{}", self.numerator, self.denominator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_at_most_the_whole() {
        assert_eq!(ShareFraction::new(1, 0), None);
        assert_eq!(ShareFraction::new(3, 2), None);
        for (numerator, denominator, text) in
            [(0, 5, "0%"), (1, 4, "25%"), (1, 3, "1/3"), (100, 100, "100%"), (1, 1 << 31, "1/2147483648")]
        {
            assert_eq!(ShareFraction::new(numerator, denominator).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_share_has_its_part_of_evenly_spread_numbers() {
        for (numerator, denominator) in
            [(0, 7), (1, 3), (2, 3), (50, 100), (7, 7), (1, 1 << 31), (1 << 31, 1 << 31)]
        {
            let share = ShareFraction::new(numerator, denominator).unwrap();
            let numbers = (0..3_000_u64).map(|number| number * (u64::MAX / 3_000));
            let had = numbers.filter(|number| share.has(*number)).count();
            let wanted = 3_000.0 * f64::from(numerator) / f64::from(denominator);
            assert!((had as f64 - wanted).abs() <= 1.0, "{had} of 3000 for {share}");
        }
        assert!(ShareFraction::WHOLE.has(u64::MAX) && ShareFraction::WHOLE.has(0));
    }
}
