//! Percentages: `"20%"`.

use std::fmt;
use std::str::FromStr;

use super::ValueError;

/// A whole number of hundredths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u32);

impl Percent {
    /// This many percent.
    pub const fn new(percent: u32) -> Self {
        Self(percent)
    }

    /// How many hundredths.
    pub const fn percent(self) -> u32 {
        self.0
    }
}

impl FromStr for Percent {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let number = text.strip_suffix('%').filter(|number| number.bytes().all(|byte| byte.is_ascii_digit()));
        match number.and_then(|number| number.parse().ok()) {
            Some(percent) => Ok(Self(percent)),
            None => Err(ValueError::new(format!("`{text}` is not a percentage"))
                .help("write a whole number with `%`, such as `20%`")),
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_and_printed() {
        for (text, percent) in [("0%", 0), ("20%", 20), ("125%", 125)] {
            assert_eq!(text.parse(), Ok(Percent(percent)));
            assert_eq!(Percent(percent).to_string(), text);
        }
        for text in ["", "%", "20", "20 %", "-1%", "1.5%", "99999999999%"] {
            assert!(text.parse::<Percent>().is_err(), "{text}");
        }
    }
}
