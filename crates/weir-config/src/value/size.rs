//! Sizes in bytes: `"64KiB"`, `"10MB"`, `"512B"`.

use std::fmt;
use std::str::FromStr;

use super::{Scale, ValueError, parse_scaled};

/// Units of bytes: KiB and its like are powers of 1024, kB and its like powers of 1000.
const SCALE: Scale = Scale {
    name: "a size",
    units: &[
        ("B", 1),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
    ],
    slips: &[("k", "KiB"), ("m", "MiB"), ("g", "GiB"), ("kb", "kB"), ("byte", "B"), ("bytes", "B")],
    example: "64KiB",
};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Size(u64);

impl Size {
    /// A size in bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// A size in KiB (1024 bytes each).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib * 1024)
    }

    /// The size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }

    /// The size in bytes as a length in memory; on a 32-bit machine at most 4 GiB - 1.
    pub const fn as_usize(self) -> usize {
        if self.0 > usize::MAX as u64 { usize::MAX } else { self.0 as usize }
    }
}

impl FromStr for Size {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_scaled(text, &SCALE).map(Self)
    }
}

impl fmt::Display for Size {
    /// In the largest unit that needs no fraction, powers of 1024 first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |(_, worth): &&(&str, u64)| self.0 > 0 && self.0.is_multiple_of(*worth);
        let binary = SCALE.units[1..5].iter().rev().find(fits);
        let decimal = SCALE.units[5..].iter().rev().find(fits);
        match binary.or(decimal) {
            Some((unit, worth)) => write!(f, "{}{unit}", self.0 / worth),
            None => write!(f, "{}B", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn sizes_are_read() {
        let cases = [
            ("0B", 0),
            ("512B", 512),
            ("64KiB", 65_536),
            ("1.5KiB", 1536),
            ("10MB", 10_000_000),
            ("1GiB", 1 << 30),
            ("2TB", 2_000_000_000_000),
        ];
        for (text, bytes) in cases {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
    }

    #[test]
    fn diagnostics_say_what_is_wrong() {
        let cases = [
            (
                "64k",
                "`64k`: unit `k` is not known (write `64KiB`; units are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)",
            ),
            (
                "1gb",
                "`1gb`: unit `gb` is not known (write `1GB`; units are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)",
            ),
            ("64", "`64` has no unit (units are B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)"),
            ("0.3B", "`0.3B` is finer than the smallest unit"),
            ("big", "`big` is not a size (write a number with its unit, such as `64KiB`)"),
            ("17000000TiB", "`17000000TiB` is too large"),
        ];
        for (text, message) in cases {
            assert_eq!(
                text.parse::<Size>().map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(bytes in any::<u64>(), zeros in 0..40_u32) {
            let size = Size(bytes >> zeros << zeros);
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }
}
