//! Sizes and times of nginx, in the words of Weir.

/// The bytes of `10m`, `8k`, `1g` or `4096`.
pub(super) fn bytes(text: &str) -> Option<u64> {
    let (digits, unit) = split_unit(text);
    let factor: u64 = match unit {
        "" => 1,
        "k" | "K" => 1 << 10,
        "m" | "M" => 1 << 20,
        "g" | "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// A size of Weir of so many bytes.
pub(super) fn size(bytes: u64) -> String {
    let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let fits = units.into_iter().find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor));
    match fits {
        Some((unit, factor)) => format!("{}{unit}", bytes / factor),
        None => format!("{bytes}B"),
    }
}

/// The milliseconds of `1h 30m`, `300ms` or `60`.
pub(super) fn millis(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest[..end].parse().ok()?;
        let behind = &rest[end..];
        let unit_end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let factor: u64 = match &behind[..unit_end] {
            "ms" => 1,
            "" | "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(factor)?)?;
        rest = behind[unit_end..].trim_start();
    }
    Some(total)
}

/// A duration of Weir: in the unit of the text where it has one, and no longer than Weir's longest.
pub(super) fn duration(text: &str) -> Option<String> {
    let millis = millis(text)?;
    if millis > 366 * 86_400_000 {
        return Some("366d".to_owned());
    }
    let (digits, unit) = split_unit(text);
    let is_one = digits.parse::<u64>().is_ok();
    Some(match unit {
        "" if is_one => format!("{digits}s"),
        "ms" | "s" | "m" | "h" | "d" if is_one => format!("{digits}{unit}"),
        _ => duration_of(millis),
    })
}

/// A duration of Weir of so many milliseconds.
pub(super) fn duration_of(millis: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];
    let mut rest = millis;
    let mut text = String::new();
    for (unit, factor) in units {
        if rest >= factor {
            text.push_str(&format!("{}{unit}", rest / factor));
            rest %= factor;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times() {
        assert_eq!(bytes("10m").map(size).as_deref(), Some("10MiB"));
        assert_eq!(bytes("1500").map(size).as_deref(), Some("1500B"));
        assert_eq!(bytes("10x"), None);
        assert_eq!(duration("60").as_deref(), Some("60s"));
        assert_eq!(duration("1h 30m").as_deref(), Some("1h30m"));
        assert_eq!(duration("2w").as_deref(), Some("14d"));
        assert_eq!(duration("1d12h").as_deref(), Some("1d12h"));
        assert_eq!(duration("0").as_deref(), Some("0s"));
        assert_eq!(duration("soon"), None);
    }
}
