//! Statistics of a few values: median and spread, the interval of a median or of a ratio of medians by bootstrap.
//!
//! Pure; the bootstrap draws from a fixed seed, so that the same measurements always give the same report.

use serde::{Deserialize, Serialize};

/// Median and extremes of some values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle value; of an even number the mean of the two in the middle.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// How many.
    pub count: usize,
}

/// An estimate and where the true value lies with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Resamples of a bootstrap; more change the third digit of the interval at most.
const RESAMPLES: usize = 10_000;

/// The median; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    Some(if sorted.len() % 2 == 1 { sorted[middle] } else { sorted[middle - 1].midpoint(sorted[middle]) })
}

/// Median and extremes; `None` of nothing.
pub fn spread(values: &[f64]) -> Option<Spread> {
    Some(Spread {
        median: median(values)?,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        count: values.len(),
    })
}

/// The median with its 95 % interval by percentile bootstrap (Efron 1979); `None` of nothing.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let middle = median(values)?;
    Some(bootstrap(middle, |random| median_of_drawn(values, random).unwrap_or(middle)))
}

/// The ratio of the medians of values that do not belong together in pairs, with its interval in the same way.
pub fn ratio(values: &[f64], base: &[f64]) -> Option<Estimate> {
    let of = |values: Option<f64>, base: Option<f64>| Some(values? / base.filter(|base| *base != 0.0)?);
    let middle = of(median(values), median(base))?;
    let drawn = |random: &mut fastrand::Rng| {
        let values = median_of_drawn(values, random);
        of(values, median_of_drawn(base, random)).unwrap_or(middle)
    };
    Some(bootstrap(middle, drawn))
}

/// The interval of a figure from many draws of it.
fn bootstrap(middle: f64, draw: impl Fn(&mut fastrand::Rng) -> f64) -> Estimate {
    let mut random = fastrand::Rng::with_seed(0x5765_6972);
    let mut drawn: Vec<f64> = (0..RESAMPLES).map(|_| draw(&mut random)).collect();
    drawn.sort_by(f64::total_cmp);
    Estimate { median: middle, low: drawn[RESAMPLES * 25 / 1000], high: drawn[RESAMPLES * 975 / 1000 - 1] }
}

/// The median of as many values, drawn at random with replacement.
fn median_of_drawn(values: &[f64], random: &mut fastrand::Rng) -> Option<f64> {
    let drawn: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
    median(&drawn)
}

#[cfg(test)]
mod tests {
    use super::{estimate, median, ratio, spread};
    use proptest::prelude::*;

    #[test]
    fn medians_of_odd_and_even_numbers() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[5.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        let spread = spread(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.min, spread.max, spread.count), (1.0, 4.0, 4));
    }

    #[test]
    fn the_interval_is_that_of_the_binomial_distribution() {
        // Of 1..=9 the resampled median is at most k when at least 5 of 9 draws are, so its distribution is a tail of
        // Binomial(9, k/9): P(median <= 2) = 0.031 and P(median <= 1) = 0.0014, hence 2.5 % lies at 2; 97.5 % at 8.
        let values: Vec<f64> = (1..=9).map(f64::from).collect();
        let estimate = estimate(&values).unwrap();
        assert_eq!((estimate.median, estimate.low, estimate.high), (5.0, 2.0, 8.0));
    }

    #[test]
    fn equal_values_have_no_interval() {
        let estimate = estimate(&[0.8; 5]).unwrap();
        assert_eq!((estimate.low, estimate.median, estimate.high), (0.8, 0.8, 0.8));
        assert_eq!(super::estimate(&[]), None);
    }

    #[test]
    fn ratios_of_what_is_no_pair() {
        let estimate = ratio(&[8.0, 9.0, 10.0], &[18.0, 20.0]).unwrap();
        assert_eq!((estimate.low, estimate.high), (8.0 / 20.0, 10.0 / 18.0));
        assert!((estimate.median - 9.0 / 19.0).abs() < 1e-12);
        assert_eq!(ratio(&[1.0], &[0.0]), None);
        assert_eq!(ratio(&[], &[1.0]), None);
    }

    proptest! {
        #[test]
        fn the_median_lies_in_its_interval_and_the_interval_in_the_range(values in prop::collection::vec(0.1f64..10.0, 1..12)) {
            let (estimate, spread) = (estimate(&values).unwrap(), spread(&values).unwrap());
            prop_assert!(estimate.low <= estimate.median && estimate.median <= estimate.high);
            prop_assert!(spread.min <= estimate.low && estimate.high <= spread.max);
        }
    }
}
