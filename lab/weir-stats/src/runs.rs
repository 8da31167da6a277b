//! One run of a scenario against another: which rounds can be compared, and how far chance carries between runs.
//!
//! A run is a few rounds, seconds after each other, on CPUs that the scheduler may have changed meanwhile.

use crate::estimate::{Estimate, Spread, ratio, spread};

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

#[cfg(test)]
mod tests {
    use super::{Round, alike, ratio_of_runs};
    use crate::distribution::Distribution;
    use crate::estimate::{estimate, ratio};
    use crate::random::{Purpose, RandomStream};

    /// How many of 120 runs of `rounds` rounds, with skewed noise of `sigma`, satisfy `holds`.
    fn of_many(rounds: usize, sigma: f64, holds: impl Fn(&[f64], &[f64]) -> bool) -> usize {
        let mut random = RandomStream::new(7, Purpose::Demand, [rounds as u64, 0]);
        let noise = Distribution::LogNormal { median: 1_000_000, sigma };
        let mut run = || -> Vec<f64> { (0..rounds).map(|_| noise.draw(&mut random) as f64 / 1e6).collect() };
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
        assert!(falsely <= 10, "{falsely} of 120, where 95 % allows about 6");
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
}
