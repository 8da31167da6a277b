//! How long the origin works on a request, as a URL says it: `/delay/20`, `/delay/lognormal-20-0.5`.
//!
//! Times are milliseconds, fractions too. The distributions are those of the simulator, and so is their randomness: the same seed
//! gives the same draws, in the order in which the requests come.

use weir_stats::distribution::Distribution;

/// Nanoseconds of a millisecond.
const MS: f64 = 1_000_000.0;

/// Reads a segment. What is longer than `max_ms` is cut to it; `None` when it says nothing.
///
/// | segment | |
/// |---|---|
/// | `20` | always 20 ms |
/// | `uniform-10-30` | anything from 10 to 30 |
/// | `exponential-20` | mean 20 |
/// | `lognormal-20-0.5` | median 20, sigma of the logarithm 0.5 |
/// | `pareto-5-1.5` | least 5, tail index 1.5 |
/// | `bimodal-5-200-1` | 5, and in 1 % of the requests 200 |
pub(super) fn read(segment: &[u8], max_ms: u64) -> Option<Distribution> {
    let text = std::str::from_utf8(segment).ok()?;
    let mut parts = text.split('-');
    let first = parts.next()?;
    let max_ns = max_ms as f64 * MS;
    let ns = |number: f64| (number * MS).min(max_ns) as u64;
    if let Some(constant) = number(first) {
        return parts.next().is_none().then(|| Distribution::Constant(ns(constant)));
    }
    let parameters: Vec<f64> = parts.map(number).collect::<Option<_>>()?;
    match (first, parameters.as_slice()) {
        ("uniform", [min, max]) if min <= max => Some(Distribution::Uniform { min: ns(*min), max: ns(*max) }),
        ("exponential", [mean]) => Some(Distribution::Exponential { mean: ns(*mean) }),
        ("lognormal", [median, sigma]) => {
            Some(Distribution::LogNormal { median: ns(*median), sigma: *sigma })
        }
        ("pareto", [min, shape]) if *shape > 0.0 => {
            Some(Distribution::Pareto { min: ns(*min), shape: *shape })
        }
        ("bimodal", [fast, slow, percent]) if *percent <= 100.0 => {
            Some(Distribution::Bimodal { fast: ns(*fast), slow: ns(*slow), slow_share: percent / 100.0 })
        }
        _ => None,
    }
}

/// Whether a segment says something.
pub fn is_known(segment: &str) -> bool {
    read(segment.as_bytes(), u64::MAX).is_some()
}

/// A number of digits, at most with a fraction.
fn number(text: &str) -> Option<f64> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::read;
    use weir_stats::distribution::Distribution as D;

    #[test]
    fn segments_name_distributions() {
        for (segment, expected) in [
            ("20", D::Constant(20_000_000)),
            ("0.25", D::Constant(250_000)),
            ("9999", D::Constant(1_000_000_000)),
            ("uniform-10-30", D::Uniform { min: 10_000_000, max: 30_000_000 }),
            ("exponential-0.5", D::Exponential { mean: 500_000 }),
            ("lognormal-20-0.5", D::LogNormal { median: 20_000_000, sigma: 0.5 }),
            ("pareto-5-1.5", D::Pareto { min: 5_000_000, shape: 1.5 }),
            ("bimodal-5-200-1", D::Bimodal { fast: 5_000_000, slow: 200_000_000, slow_share: 0.01 }),
        ] {
            assert_eq!(read(segment.as_bytes(), 1000), Some(expected), "{segment}");
        }
    }

    #[test]
    fn what_is_no_distribution_says_nothing() {
        for segment in [
            "",
            "-",
            "x",
            "20-30",
            "1e3",
            "inf",
            "uniform-30-10",
            "uniform-1",
            "pareto-1-0",
            "bimodal-1-2-101",
            "exponential--1",
        ] {
            assert_eq!(read(segment.as_bytes(), 1000), None, "{segment}");
        }
    }
}
