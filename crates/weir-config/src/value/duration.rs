//! Durations: `"250ms"`, `"1.5s"`, `"1m30s"`, `"24h"`. At least 1 ms, at most a year.

use std::time::Duration;

use super::{Scale, ValueError, parse_scaled};

const SCALE: Scale = Scale {
    name: "a duration",
    units: &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)],
    slips: &[
        ("sec", "s"),
        ("secs", "s"),
        ("second", "s"),
        ("seconds", "s"),
        ("min", "m"),
        ("mins", "m"),
        ("minute", "m"),
        ("minutes", "m"),
        ("hr", "h"),
        ("hour", "h"),
        ("hours", "h"),
        ("day", "d"),
        ("days", "d"),
        ("msec", "ms"),
        ("millis", "ms"),
        ("milliseconds", "ms"),
    ],
    example: "10s",
};

/// Longest duration: a clock value plus a year is a clock value everywhere.
pub(crate) const MILLISECONDS_MAX: u64 = 366 * 86_400_000;

/// Parses a duration: numbers with the units ms, s, m, h and d, one after the other from the largest unit down.
pub fn parse_duration(text: &str) -> Result<Duration, ValueError> {
    let mut total: u64 = 0;
    let mut unit_before = u64::MAX;
    for part in parts(text) {
        let milliseconds = parse_scaled(part, &SCALE).map_err(|error| whole_text(error, text, part))?;
        let unit = part.trim_start_matches(|c: char| !c.is_alphabetic());
        let worth = SCALE.units.iter().find(|(known, _)| *known == unit).map_or(0, |(_, worth)| *worth);
        if worth >= unit_before {
            let message = format!("`{text}`: `{part}` follows a unit that is not larger");
            return Err(
                ValueError::new(message).help("write the larger unit first and each once, such as `1m30s`")
            );
        }
        unit_before = worth;
        total = total.saturating_add(milliseconds);
    }
    if total > MILLISECONDS_MAX {
        return Err(ValueError::new(format!("`{text}` is longer than 366d")));
    }
    Ok(Duration::from_millis(total))
}

/// An error of one part, as an error of the whole text.
fn whole_text(mut error: ValueError, text: &str, part: &str) -> ValueError {
    let offset = part.as_ptr() as usize - text.as_ptr() as usize;
    if part.len() < text.len() {
        error.message = error.message.replacen(part, text, 1);
        error.range = Some(
            error.range.map_or(offset..offset + part.len(), |range| offset + range.start..offset + range.end),
        );
    }
    error
}

/// Splits `1m30s` into `1m` and `30s`: a part ends where a digit follows a letter. Without such a place it is the whole.
fn parts(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for index in 1..bytes.len() {
        if bytes[index].is_ascii_digit() && bytes[index - 1].is_ascii_alphabetic() {
            parts.push(&text[start..index]);
            start = index;
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Prints a duration as [`parse_duration`] reads it, in the largest unit that needs no fraction.
pub fn print_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let unit = SCALE
        .units
        .iter()
        .rev()
        .find(|(_, worth)| milliseconds > 0 && milliseconds.is_multiple_of(u128::from(*worth)));
    match unit {
        Some((unit, worth)) => format!("{}{unit}", milliseconds / u128::from(*worth)),
        None => "0s".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{prop_assert_eq, proptest};

    use super::*;

    #[test]
    fn durations_are_read() {
        let cases = [
            ("250ms", 250),
            ("1s", 1000),
            ("1.5s", 1500),
            ("0.001s", 1),
            ("2m", 120_000),
            ("1h30m", 5_400_000),
            ("1m30s500ms", 90_500),
            ("366d", MILLISECONDS_MAX),
            ("0s", 0),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn diagnostics_say_what_is_wrong() {
        let cases = [
            ("10 sec", "`10 sec`: unit `sec` is not known (write `10s`; units are ms, s, m, h, d)"),
            ("10 s", "`10 s`: there is a space between number and unit (write `10s`)"),
            ("10", "`10` has no unit (units are ms, s, m, h, d)"),
            ("10S", "`10S`: unit `S` is not known (write `10s`; units are ms, s, m, h, d)"),
            ("5y", "`5y`: unit `y` is not known (units are ms, s, m, h, d)"),
            ("", "`` is not a duration (write a number with its unit, such as `10s`)"),
            ("soon", "`soon` is not a duration (write a number with its unit, such as `10s`)"),
            ("-1s", "`-1s`: a duration cannot be negative (write a number with its unit, such as `10s`)"),
            ("0.5ms", "`0.5ms` is finer than the smallest unit"),
            ("1..5s", "`1..5s` does not begin with a number"),
            ("99999999999999999999s", "`99999999999999999999s` is too large"),
            ("367d", "`367d` is longer than 366d"),
            (
                "30s1m",
                "`30s1m`: `1m` follows a unit that is not larger (write the larger unit first and each once, such as `1m30s`)",
            ),
            ("1m30x", "`1m30x`: unit `x` is not known (units are ms, s, m, h, d)"),
        ];
        for (text, message) in cases {
            assert_eq!(
                parse_duration(text).map_err(|error| error.to_string()),
                Err(message.to_owned()),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_again(milliseconds in 0..MILLISECONDS_MAX) {
            let duration = Duration::from_millis(milliseconds);
            prop_assert_eq!(parse_duration(&print_duration(duration)), Ok(duration));
        }
    }
}
