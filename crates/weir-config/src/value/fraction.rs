//! Shares with fractions of a percent: `"0.1%"`.

use std::fmt;
use std::str::FromStr;

use weir_traffic::sampling::SHARE_WHOLE;

use super::{Scale, ValueError, parse_scaled};

const SCALE: Scale =
    Scale { name: "a share", units: &[("%", SHARE_WHOLE as u64 / 100)], slips: &[], example: "0.1%" };

/// A part of something, in millionths, at most the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u32);

impl Fraction {
    /// The whole.
    pub const WHOLE: Self = Self(SHARE_WHOLE);

    /// How many of a million.
    pub const fn of_million(self) -> u32 {
        self.0
    }
}

impl FromStr for Fraction {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let parts = parse_scaled(text, &SCALE)?;
        match u32::try_from(parts) {
            Ok(parts) if parts <= SHARE_WHOLE => Ok(Self(parts)),
            _ => Err(ValueError::new(format!("`{text}` is more than the whole")).help("write `100%`")),
        }
    }
}

impl fmt::Display for Fraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = SHARE_WHOLE / 100;
        let digits = format!("{}.{:04}", self.0 / percent, self.0 % percent);
        write!(f, "{}%", digits.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_printed() {
        for (text, parts) in [
            ("0%", 0),
            ("100%", 1_000_000),
            ("10%", 100_000),
            ("0.1%", 1000),
            ("0.0001%", 1),
            ("12.5%", 125_000),
        ] {
            assert_eq!(text.parse(), Ok(Fraction(parts)), "{text}");
            assert_eq!(Fraction(parts).to_string(), text);
        }
        for text in ["", "%", "0.1", "100.0001%", "101%", "-1%", "0.00001%", "1 %", "99999999999999999999%"] {
            assert!(text.parse::<Fraction>().is_err(), "{text}");
        }
    }
}
