//! The claims of the lab about itself, and how a claim is compared with figures. Pure.

use serde::{Deserialize, Serialize};
use weir_stats::estimate::{self, Estimate};
use weir_stats::runs::{self, Round};

use crate::target::SLOWER;

/// A claim, and the result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProofClaim {
    /// The claim.
    pub claim: String,
    /// The result, in figures.
    pub found: String,
    /// Whether it holds; `None` when it could not be judged.
    pub holds: Option<bool>,
    /// Every figure behind it, by name, in the order of the rounds.
    pub figures: Vec<(String, Vec<f64>)>,
}

/// Repeats, in percent, in which the same must be found to be the same.
const SAME_MIN_PERCENT: usize = 90;

/// The range in which a target slowed by 20 % must be found slower.
const SLOWDOWN: (f64, f64) = (1.15, 1.25);

/// How far two clients may be apart in throughput and in P99.
const APART_MAX: (f64, f64) = (0.05, 0.10);

/// One figure of the same scenario, measured in two runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RepeatedFigure {
    /// Round by round in the first run.
    pub(super) first: Vec<Round>,
    /// In the second.
    pub(super) second: Vec<Round>,
}

impl RepeatedFigure {
    /// Whether `weir-lab compare` would call the difference noise.
    fn is_same(&self) -> bool {
        self.ratio().is_some_and(|ratio| ratio.low <= 1.0 && ratio.high >= 1.0)
    }

    /// The second to the first; `None` if they were not measured alike.
    pub(super) fn ratio(&self) -> Option<Estimate> {
        let (first, second) = runs::alike(&self.first, &self.second)?;
        runs::ratio_of_runs(&second, &first)
    }
}

/// The same scenario twice differs by nothing but noise.
pub(super) fn repeats(figure: &str, pairs: &[RepeatedFigure]) -> ProofClaim {
    let same = pairs.iter().filter(|twice| twice.is_same()).count();
    let ratios: Vec<f64> = pairs.iter().filter_map(RepeatedFigure::ratio).map(|ratio| ratio.median).collect();
    let range = estimate::spread(&ratios).map_or_else(String::new, |it| {
        format!("; ratios of the medians from {:.3} to {:.3}", it.min, it.max)
    });
    let runs = || pairs.iter().flat_map(|twice| [&twice.first, &twice.second]).enumerate();
    let values = runs().map(|(run, rounds)| (name(run, ""), rounds.iter().map(|it| it.value).collect()));
    let distances = runs().map(|(run, rounds)| {
        (name(run, ": distance of the CPUs, ns"), rounds.iter().filter_map(|it| it.distance).collect())
    });
    ProofClaim {
        claim: format!(
            "{figure}: the same scenario twice, and the interval of the ratio has 1 in it in at least 9 of 10 repeats"
        ),
        found: format!("in {same} of {} repeats{range}", pairs.len()),
        holds: (!pairs.is_empty()).then_some(same * 100 >= SAME_MIN_PERCENT * pairs.len()),
        figures: values.chain(distances).collect(),
    }
}

/// The name of the figures of a run; two runs are a repeat.
fn name(run: usize, of: &str) -> String {
    format!("repeat {}, run {}{of}", run / 2 + 1, run % 2 + 1)
}

/// A target that is slower by a known share is found to be.
pub(super) fn slowdown(plain: &[f64], slower: &[f64]) -> ProofClaim {
    let ratio = within_rounds(slower, plain);
    ProofClaim {
        claim: format!("CPU per request: a target slowed by {SLOWER} % is found slower by 15 to 25 %"),
        found: ratio.map_or_else(nothing, |ratio| format!("slower by {}", percent(ratio))),
        holds: ratio.map(|ratio| (SLOWDOWN.0..=SLOWDOWN.1).contains(&ratio.median)),
        figures: vec![("relay".to_owned(), plain.to_vec()), ("relay/slower".to_owned(), slower.to_vec())],
    }
}

/// The measurements of one target by one client, round by round.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ClientFigures {
    /// Requests per second.
    pub(super) rates: Vec<f64>,
    /// P99, µs.
    pub(super) p99s: Vec<f64>,
}

/// The lab's own driver and another client see the same target alike.
pub(super) fn agreement(load: &str, other: &str, own: &ClientFigures, theirs: &ClientFigures) -> ProofClaim {
    let ratios = within_rounds(&own.rates, &theirs.rates).zip(within_rounds(&own.p99s, &theirs.p99s));
    let is_near = |ratio: Estimate, apart: f64| (ratio.median - 1.0).abs() <= apart;
    ProofClaim {
        claim: format!(
            "{load}: the driver and {other} find the same throughput of a target within 5 %, and within 10 % the same P99 of one that takes \
             its time"
        ),
        found: ratios.map_or_else(nothing, |(rate, p99)| {
            format!("the driver's throughput differs by {}, its P99 by {}", percent(rate), percent(p99))
        }),
        holds: ratios.map(|(rate, p99)| is_near(rate, APART_MAX.0) && is_near(p99, APART_MAX.1)),
        figures: vec![
            ("driver, req/s".to_owned(), own.rates.clone()),
            (format!("{other}, req/s"), theirs.rates.clone()),
            ("driver, P99 µs".to_owned(), own.p99s.clone()),
            (format!("{other}, P99 µs"), theirs.p99s.clone()),
        ],
    }
}

/// A claim that could not be tested.
pub(super) fn skipped(claim: &str, why: &str) -> ProofClaim {
    ProofClaim { claim: claim.to_owned(), found: format!("skipped: {why}"), holds: None, figures: Vec::new() }
}

fn nothing() -> String {
    "nothing that counts was measured".to_owned()
}

/// The ratio within each round, and its interval.
fn within_rounds(values: &[f64], base: &[f64]) -> Option<Estimate> {
    let ratios: Vec<f64> =
        values.iter().zip(base).filter(|(_, base)| **base > 0.0).map(|(value, base)| value / base).collect();
    estimate::estimate(&ratios)
}

/// A ratio as a difference in percent, with its interval.
fn percent(ratio: Estimate) -> String {
    let of = |ratio: f64| 100.0 * (ratio - 1.0);
    let Estimate { median, low, high } = ratio;
    format!("{:.1} % (95 % interval {:.1} to {:.1})", of(median), of(low), of(high))
}

#[cfg(test)]
mod tests {
    use super::{ClientFigures, ProofClaim, RepeatedFigure, Round, agreement, repeats, slowdown};
    use weir_stats::distribution::Distribution;
    use weir_stats::random::{Purpose, RandomStream};

    /// Rounds around `middle` with the skewed noise of a machine that is sometimes late: sigma 3 %.
    fn rounds(random: &mut RandomStream, middle: f64, count: usize) -> Vec<f64> {
        let noise = Distribution::LogNormal { median: 1_000_000, sigma: 0.03 };
        (0..count).map(|_| middle * noise.draw(random) as f64 / 1e6).collect()
    }

    fn repeated(seed: u64, second: f64) -> ProofClaim {
        let mut random = RandomStream::new(seed, Purpose::Demand, [0, 0]);
        let mut of = |middle| {
            let values = rounds(&mut random, middle, 5).into_iter();
            values.map(|value| Round { value, distance: Some(50.0) }).collect()
        };
        let pairs: Vec<RepeatedFigure> =
            (0..10).map(|_| RepeatedFigure { first: of(20.0), second: of(second) }).collect();
        repeats("CPU per request", &pairs)
    }

    #[test]
    fn the_same_is_found_to_be_the_same_and_what_differs_is_not() {
        let held = (0..10).filter(|seed| repeated(*seed, 20.0).holds == Some(true)).count();
        assert!(held >= 9, "{held} of 10 times");
        let differing = repeated(1, 22.0);
        assert_eq!(differing.holds, Some(false), "{differing:?}");
        assert_eq!(differing.figures.len(), 40);
        assert_eq!(repeats("x", &[]).holds, None);
    }

    #[test]
    fn a_known_slowdown_is_found_and_another_one_is_distinguished_from_it() {
        let mut random = RandomStream::new(1, Purpose::Demand, [0, 0]);
        for (times, holds) in [(1.2, true), (1.0, false), (1.1, false), (1.35, false)] {
            let plain = rounds(&mut random, 30.0, 9);
            let claim = slowdown(&plain, &rounds(&mut random, 30.0 * times, 9));
            assert_eq!(claim.holds, Some(holds), "{times}: {claim:?}");
        }
        assert_eq!(slowdown(&[], &[]).holds, None);
        let claim = slowdown(&[10.0; 3], &[12.0; 3]);
        assert_eq!(claim.found, "slower by 20.0 % (95 % interval 20.0 to 20.0)");
    }

    #[test]
    fn clients_agree_within_their_bounds_and_in_both_figures() {
        let seen = |rate: f64, p99: f64| ClientFigures { rates: vec![rate; 3], p99s: vec![p99; 3] };
        let own = seen(1000.0, 500.0);
        for (theirs, holds) in [
            (seen(1049.0, 545.0), true),
            (seen(960.0, 460.0), true),
            (seen(1080.0, 500.0), false),
            (seen(1000.0, 400.0), false),
        ] {
            let claim = agreement("closed loop", "wrk", &own, &theirs);
            assert_eq!(claim.holds, Some(holds), "{claim:?}");
        }
        assert_eq!(agreement("closed loop", "wrk", &own, &ClientFigures::default()).holds, None);
    }
}
