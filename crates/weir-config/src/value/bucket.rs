//! Bounds of histogram buckets: `"250us"`, `"5ms"`, `"1.5s"`. Finer than other durations, which start at a millisecond.

use super::{Scale, ValueError, parse_scaled};

const SCALE: Scale = Scale {
    name: "a time",
    units: &[("us", 1), ("ms", 1_000), ("s", 1_000_000), ("m", 60_000_000)],
    slips: &[
        ("µs", "us"),
        ("μs", "us"),
        ("usec", "us"),
        ("micros", "us"),
        ("msec", "ms"),
        ("sec", "s"),
        ("min", "m"),
    ],
    example: "5ms",
};

/// Parses a bound into microseconds.
pub(crate) fn parse_bucket(text: &str) -> Result<u64, ValueError> {
    parse_scaled(text, &SCALE)
}

/// Prints microseconds as [`parse_bucket`] reads them, in the largest unit that needs no fraction.
pub(crate) fn print_bucket(micros: u64) -> String {
    let unit = SCALE.units.iter().rev().find(|(_, worth)| micros > 0 && micros.is_multiple_of(*worth));
    unit.map_or_else(|| "0us".to_owned(), |(unit, worth)| format!("{}{unit}", micros / worth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_read_and_printed() {
        for (text, micros, printed) in [
            ("250us", 250, "250us"),
            ("5ms", 5_000, "5ms"),
            ("2.5ms", 2_500, "2500us"),
            ("1.5s", 1_500_000, "1500ms"),
            ("33.554432s", 33_554_432, "33554432us"),
            ("1m", 60_000_000, "1m"),
        ] {
            assert_eq!(parse_bucket(text), Ok(micros), "{text}");
            assert_eq!(print_bucket(micros), printed);
            assert_eq!(parse_bucket(printed), Ok(micros));
        }
        for (text, help) in [("5µs", "`5us`"), ("5", "units are us"), ("0.5us", ""), ("x", "such as `5ms`")]
        {
            let error = parse_bucket(text).expect_err(text);
            assert!(error.help.unwrap_or_default().contains(help), "{text}");
        }
    }
}
