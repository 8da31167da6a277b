//! Rates in bytes per second: `"500B/s"`, `"1MiB/s"`.

use std::fmt;
use std::str::FromStr;

use super::{Scale, Size, ValueError, parse_scaled};

const SCALE: Scale = Scale {
    name: "a rate",
    units: &[
        ("B/s", 1),
        ("KiB/s", 1 << 10),
        ("MiB/s", 1 << 20),
        ("GiB/s", 1 << 30),
        ("TiB/s", 1 << 40),
        ("kB/s", 1_000),
        ("MB/s", 1_000_000),
        ("GB/s", 1_000_000_000),
        ("TB/s", 1_000_000_000_000),
    ],
    slips: &[
        ("b", "B/s"),
        ("kib", "KiB/s"),
        ("mib", "MiB/s"),
        ("gib", "GiB/s"),
        ("kb", "kB/s"),
        ("mb", "MB/s"),
        ("gb", "GB/s"),
        ("k/s", "KiB/s"),
        ("m/s", "MiB/s"),
    ],
    example: "500B/s",
};

/// A number of bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(u64);

impl ByteRate {
    /// A rate in bytes per second.
    pub const fn from_bytes_per_second(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The rate in bytes per second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteRate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_scaled(text, &SCALE).map(Self)
    }
}

impl fmt::Display for ByteRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/s", Size::from_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_printed() {
        for (text, rate) in [("500B/s", 500), ("1MiB/s", 1 << 20), ("3kB/s", 3000)] {
            assert_eq!(text.parse(), Ok(ByteRate(rate)));
            assert_eq!(ByteRate(rate).to_string(), text);
        }
    }

    #[test]
    fn diagnostics_say_what_is_wrong() {
        let units = "units are B/s, KiB/s, MiB/s, GiB/s, TiB/s, kB/s, MB/s, GB/s, TB/s";
        let cases = [
            ("500B", format!("`500B`: unit `B` is not known (write `500B/s`; {units})")),
            ("5k/s", format!("`5k/s`: unit `k/s` is not known (write `5KiB/s`; {units})")),
            ("500", format!("`500` has no unit ({units})")),
            ("/s", "`/s` is not a rate (write a number with its unit, such as `500B/s`)".to_owned()),
        ];
        for (text, message) in cases {
            assert_eq!(text.parse::<ByteRate>().map_err(|error| error.to_string()), Err(message), "{text}");
        }
    }
}
