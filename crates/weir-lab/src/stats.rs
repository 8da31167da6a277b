//! Statistics of a few rounds: median and spread, the interval of a median by bootstrap, the slope of a line, one run against another.
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

/// What a figure may differ by from one run to the next of the same, 95 times of 100, as a share of it: a machine changes over
/// minutes, and the rounds of one run, seconds after each other, do not show by how much. The decision
/// `0041-run-to-run-variance` tells how it was found.
const BETWEEN_RUNS: f64 = 0.01;

/// A figure of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Round {
    /// What was measured.
    pub value: f64,
    /// How far apart the CPUs were meanwhile (`measure::distance`), if that is known.
    pub distance: Option<f64>,
}

/// Beyond so many times the least distance, CPUs are far apart: neighbours are within a tenth of each other, others eight times as far.
const FAR: f64 = 2.0;

/// Rounds of either run without which two runs are not compared.
const ALIKE_MIN: usize = 3;

/// Distances of CPUs that were near each other, and of others; `None` unless there are both.
pub fn near_and_far(distances: &[f64]) -> Option<(Spread, Spread)> {
    let far_from = far_from(distances.iter().copied());
    let (far, near): (Vec<f64>, Vec<f64>) = distances.iter().partition(|distance| **distance > far_from);
    spread(&near).zip(spread(&far))
}

/// The distance beyond which CPUs are far apart, by all that were seen.
fn far_from(distances: impl Iterator<Item = f64>) -> f64 {
    FAR * distances.fold(f64::INFINITY, f64::min)
}

/// The figures of two runs that were measured alike, on CPUs near each other or on CPUs far apart, of whichever there are more; `None`
/// when one run has nearly all of the one and the other of the other.
pub fn alike(one: &[Round], other: &[Round]) -> Option<(Vec<f64>, Vec<f64>)> {
    let far_from = far_from(one.iter().chain(other).filter_map(|round| round.distance));
    let is_far = |round: &Round| round.distance.is_some_and(|distance| distance > far_from);
    let of = |rounds: &[Round], far: bool| -> Vec<f64> {
        rounds.iter().filter(|round| is_far(round) == far).map(|round| round.value).collect()
    };
    let [near, far] = [false, true].map(|far| (of(one, far), of(other, far)));
    let fewer = |(one, other): &(Vec<f64>, Vec<f64>)| one.len().min(other.len());
    let more = if fewer(&far) > fewer(&near) { far } else { near };
    // Runs of few rounds have no more than they have.
    let least = ALIKE_MIN.min(one.len()).min(other.len());
    (fewer(&more) >= least).then_some(more)
}

/// The ratio of the medians of two runs, with an interval for both the noise within them and what changed between them; `None` of
/// nothing and relative to 0.
pub fn ratio_of_runs(values: &[f64], base: &[f64]) -> Option<Estimate> {
    let Estimate { median, low, high } = ratio(values, base)?;
    let reach = |end: f64| (end - median).hypot(BETWEEN_RUNS * median);
    Some(Estimate { median, low: median - reach(low), high: median + reach(high) })
}

/// The ratio of the medians of values that do not belong together in pairs, with its interval in the same way.
fn ratio(values: &[f64], base: &[f64]) -> Option<Estimate> {
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

/// Slope of the line through `points` with the least squared error; `None` when there are not two different abscissas.
pub fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

/// Points are put together to so many at most before the interval of a slope is found: what lies close together is alike, and would
/// count as if it were not.
const BLOCKS: usize = 12;

/// 97.5 % of Student's distribution for 2 to 10 degrees of freedom.
const STUDENT: [f64; 9] = [4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// Slope of the line through `points`, which follow each other in time, with its 95 % interval by the scatter of the means of
/// blocks around it; `None` of fewer than four points.
pub fn trend(points: &[(f64, f64)]) -> Option<Estimate> {
    let blocks = points.len().min(BLOCKS);
    if blocks < 4 {
        return None;
    }
    let mean = |points: &[(f64, f64)]| {
        let count = points.len() as f64;
        let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
        (x / count, y / count)
    };
    let bound = |block: usize| block * points.len() / blocks;
    let means: Vec<(f64, f64)> =
        (0..blocks).map(|block| mean(&points[bound(block)..bound(block + 1)])).collect();
    let slope = slope(&means)?;
    let (mean_x, mean_y) = mean(&means);
    let off = |(x, y): &(f64, f64)| (y - mean_y - slope * (x - mean_x)).powi(2);
    let scatter = means.iter().map(off).sum::<f64>() / (blocks - 2) as f64;
    let spread: f64 = means.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let reach = STUDENT[blocks - 4] * (scatter / spread).sqrt();
    Some(Estimate { median: slope, low: slope - reach, high: slope + reach })
}

#[cfg(test)]
mod tests {
    use super::{Round, alike, estimate, median, ratio, ratio_of_runs, slope, spread, trend};
    use crate::simulate::chance::{Chance, Purpose};
    use crate::simulate::distribution::Distribution;
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

    /// Noise around a line, its neighbours alike: each is half of the one before it.
    fn noisy(slope: f64, seed: u64) -> Vec<(f64, f64)> {
        let mut chance = Chance::new(seed, Purpose::Service, [0, 0]);
        let mut noise = 0.0;
        (0..120)
            .map(|x| {
                noise = 0.5 * noise + chance.below(1000) as f64 - 499.5;
                (f64::from(x), slope * f64::from(x) + noise)
            })
            .collect()
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        assert_eq!(trend(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]), None);
        let flat = |seed: &u64| trend(&noisy(0.0, *seed)).is_some_and(|it| it.low <= 0.0 && it.high >= 0.0);
        let flat = (0..400).filter(flat).count();
        // 95 %, and a little less since blocks are not quite independent.
        assert!((360..=395).contains(&flat), "{flat} of 400");
        let steep = (0..400).filter(|seed| trend(&noisy(20.0, *seed)).is_some_and(|it| it.low > 0.0)).count();
        assert!(steep >= 396, "{steep} of 400");
        let line: Vec<(f64, f64)> = (0..9).map(|x| (f64::from(x), 3.0 * f64::from(x))).collect();
        let exact = trend(&line).unwrap();
        assert!((exact.median - 3.0).abs() < 1e-9 && (exact.high - exact.low).abs() < 1e-6, "{exact:?}");
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

    #[test]
    fn slopes_of_known_lines() {
        let exact = slope(&[(1000.0, 5.0e6), (2000.0, 7.0e6), (8000.0, 19.0e6)]).unwrap();
        assert!((exact - 2000.0).abs() < 1e-6, "{exact}");
        // Anscombe's first quartet: y = 3.00 + 0.500 x.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        let points: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        assert!((slope(&points).unwrap() - 0.500).abs() < 0.001);
        assert_eq!(slope(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(slope(&[]), None);
    }

    /// How many of 120 runs of `rounds` rounds, with skewed noise of `sigma`, satisfy `holds`.
    fn of_many(rounds: usize, sigma: f64, holds: impl Fn(&[f64], &[f64]) -> bool) -> usize {
        let mut chance = Chance::new(7, Purpose::Demand, [rounds as u64, 0]);
        let noise = Distribution::LogNormal { median: 1_000_000, sigma };
        let mut run = || -> Vec<f64> { (0..rounds).map(|_| noise.draw(&mut chance) as f64 / 1e6).collect() };
        (0..120).filter(|_| holds(&run(), &run())).count()
    }

    #[test]
    fn the_interval_of_a_median_has_the_true_one_in_it_about_as_often_as_it_says() {
        // With so few rounds an interval of order statistics cannot be exact: for 5 the whole range covers 93.75 %.
        for (rounds, least) in [(5, 105), (9, 108)] {
            let covered = of_many(rounds, 0.05, |run, _| {
                estimate(run).is_some_and(|it| it.low <= 1.0 && it.high >= 1.0)
            });
            assert!((least..120).contains(&covered), "{covered} of 120 with {rounds} rounds");
        }
    }

    #[test]
    fn two_runs_of_the_same_are_told_apart_seldom_and_those_of_others_often() {
        let differ = |one: &[f64], two: &[f64]| {
            ratio_of_runs(two, one).is_some_and(|it| it.low > 1.0 || it.high < 1.0)
        };
        let falsely = of_many(5, 0.05, differ);
        assert!(falsely <= 10, "{falsely} of 120, where 6 are what 95 % stands for");
        let slower = |one: &[f64], two: &[f64]| {
            let two: Vec<f64> = two.iter().map(|value| value * 1.2).collect();
            differ(one, &two)
        };
        let found = of_many(5, 0.05, slower);
        assert!(found >= 108, "{found} of 120 slowed by 20 % were found");
    }

    #[test]
    fn only_rounds_on_cpus_that_are_as_far_apart_are_compared() {
        let rounds = |all: &[(f64, f64)]| -> Vec<Round> {
            all.iter().map(|(value, distance)| Round { value: *value, distance: Some(*distance) }).collect()
        };
        let near = rounds(&[(35.0, 50.0), (35.1, 51.0), (35.2, 55.0), (39.5, 400.0)]);
        let mixed = rounds(&[(39.0, 410.0), (35.3, 50.0), (35.4, 49.0), (39.1, 390.0), (35.0, 56.0)]);
        let far = rounds(&[(39.2, 400.0), (39.3, 420.0), (39.4, 390.0), (35.0, 52.0)]);
        assert_eq!(alike(&near, &mixed), Some((vec![35.0, 35.1, 35.2], vec![35.3, 35.4, 35.0])));
        assert_eq!(alike(&far, &far).map(|(one, _)| one), Some(vec![39.2, 39.3, 39.4]));
        assert_eq!(alike(&near, &far), None);
        // Of two single rounds, and of runs that did not look.
        assert_eq!(alike(&near[..1], &near[1..2]), Some((vec![35.0], vec![35.1])));
        assert_eq!(alike(&near[..1], &far[..1]), None);
        let unknown = |value| Round { value, distance: None };
        assert_eq!(alike(&[unknown(1.0); 3], &[unknown(2.0); 3]), Some((vec![1.0; 3], vec![2.0; 3])));
    }

    #[test]
    fn what_changes_between_runs_widens_the_interval_of_their_ratio_and_nothing_else() {
        // No noise within the runs: what remains is what the machine may have changed by.
        let same = ratio_of_runs(&[20.1; 5], &[20.0; 5]).unwrap();
        assert!(same.low < 1.0 && same.high > 1.0, "{same:?}");
        let slower = ratio_of_runs(&[20.3; 5], &[20.0; 5]).unwrap();
        assert!(slower.low > 1.0, "{slower:?}");
        // Beside much noise it does not count.
        let (within, all) =
            (ratio(&[8.0, 9.0, 10.0], &[18.0, 20.0]), ratio_of_runs(&[8.0, 9.0, 10.0], &[18.0, 20.0]));
        let (within, all) = (within.unwrap(), all.unwrap());
        assert!(
            all.low < within.low && all.high > within.high && within.low - all.low < 0.001,
            "{within:?} {all:?}"
        );
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
