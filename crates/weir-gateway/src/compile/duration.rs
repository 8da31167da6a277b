//! Durations of the Gateway API (GEP-2257): `1h30m`, `10s`, `500ms`.

use std::time::Duration;

use crate::refusal::{Refusal, excerpt};

/// A time limit; `0s` is none.
pub(super) fn limit(field: &str, text: Option<&str>) -> Result<Option<Option<Duration>>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let duration = parse(text).ok_or_else(|| {
        Refusal::unsupported(format!("{field}: `{}` is not a duration such as `10s`", excerpt(text)))
    })?;
    Ok(Some(Some(duration).filter(|duration| !duration.is_zero())))
}

fn parse(text: &str) -> Option<Duration> {
    let (mut rest, mut total) = (text, Duration::ZERO);
    if rest.is_empty() || rest.len() > 32 {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| (1..=5).contains(digits))?;
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, millis) = [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))?;
        total = total.checked_add(Duration::from_millis(number.checked_mul(millis)?))?;
        rest = &rest[unit.len()..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_sums_of_units() {
        for (text, millis) in
            [("10s", 10_000), ("1h30m", 5_400_000), ("500ms", 500), ("1m1ms", 60_001), ("0s", 0)]
        {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "10", "s", "-1s", "1.5s", "1d", "123456s", "1s "] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(limit("timeouts.request", Some("0s")), Ok(Some(None)));
    }
}
