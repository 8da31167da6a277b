//! Numbers as people read them. `status.js` has the same formats under the same names, for values that change while the page is open.

/// The text of a missing value.
pub(super) const NOTHING: &str = "–";

/// Thousands apart.
pub(super) fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // A narrow space that does not break.
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number by second: below ten with one digit after the point.
pub(super) fn rate(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { count(value.round() as u64) }
}

/// Bytes, in powers of 1024.
pub(super) fn bytes(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let (mut value, mut unit) = (value, 0);
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$}\u{a0}{}", units[unit])
}

/// A time that was measured, in microseconds.
pub(super) fn micros(value: Option<u64>) -> String {
    let Some(micros) = value else { return NOTHING.to_owned() };
    let (value, unit) = match micros {
        0..1_000 => return format!("{micros}\u{a0}µs"),
        1_000..999_950 => (micros as f64 / 1e3, "ms"),
        _ => (micros as f64 / 1e6, "s"),
    };
    let digits = usize::from(value < 99.95);
    format!("{value:.digits$}\u{a0}{unit}")
}

/// How long something has lasted: the largest unit that fits twice.
pub(super) fn lasting(millis: u64) -> String {
    let seconds = millis / 1000;
    for (unit, name) in [(86_400, "d"), (3_600, "h"), (60, "min")] {
        if seconds >= 2 * unit {
            return format!("{}\u{a0}{name}", seconds / unit);
        }
    }
    format!("{seconds}\u{a0}s")
}

/// A share, in percent.
pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.0}\u{a0}%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(
            [count(0), count(999), count(1_000), count(1_234_567)],
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        assert_eq!([rate(0.0), rate(9.94), rate(9.96), rate(1234.4)], ["0.0", "9.9", "10", "1\u{202f}234"]);
        let of = |value| bytes(value).replace('\u{a0}', " ");
        assert_eq!(
            [of(0.0), of(1023.0), of(1536.0), of(150.0 * 1024.0), of(3e12)],
            ["0 B", "1023 B", "1.5 KiB", "150 KiB", "2.7 TiB"]
        );
        let of = |value| micros(Some(value)).replace('\u{a0}', " ");
        assert_eq!(
            [of(850), of(1_234), of(123_456), of(999_960), of(12_345_678)],
            ["850 µs", "1.2 ms", "123 ms", "1.0 s", "12.3 s"]
        );
        assert_eq!(micros(None), NOTHING);
        let of = |value| lasting(value).replace('\u{a0}', " ");
        assert_eq!(
            [of(0), of(119_999), of(120_000), of(7_200_000), of(200_000_000)],
            ["0 s", "119 s", "2 min", "2 h", "2 d"]
        );
        assert_eq!([percent(Some(66.7)), percent(None)], ["67\u{a0}%", NOTHING]);
    }
}
