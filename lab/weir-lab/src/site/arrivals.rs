//! When requests are due: a rate that stays, rises in a line or in steps, or peaks; evenly spaced, or by chance as independent users
//! are (a Poisson process); or as a log has them.

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;

use crate::length;

/// How the requests of a rate are spaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum RequestSpacing {
    /// At equal distances.
    #[default]
    Even,
    /// At random, as requests of many users that know nothing of each other.
    Poisson,
}

/// A rate for some time, from its beginning to its end; per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePhase {
    /// At first.
    pub from: f64,
    /// At the end.
    pub to: f64,
    /// How long; none: as long as the window.
    pub length: Option<Duration>,
}

impl RatePhase {
    /// As a table names it.
    pub fn name(&self) -> String {
        if self.from == self.to {
            format!("{}/s", self.from)
        } else {
            format!("{} to {}/s", self.from, self.to)
        }
    }
}

/// The rate of a load: one phase, or several after each other.
#[derive(Debug, Clone, PartialEq)]
pub struct RatePlan(pub Vec<RatePhase>);

impl FromStr for RatePlan {
    type Err = anyhow::Error;

    /// Reads `500`, or phases with commas: `100x10s,100..1000x30s,0x5s`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let phases = text.split(',').map(|phase| read_phase(phase.trim()));
        let phases = phases.collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(
            phases.len() == 1 || phases.iter().all(|phase| phase.length.is_some()),
            "`{text}`: of several phases each has its length: 100x10s,200x10s"
        );
        ensure!(
            phases.iter().any(|phase| phase.from + phase.to > 0.0),
            "`{text}`: a rate of 0 asks for nothing"
        );
        Ok(Self(phases))
    }
}

fn read_phase(text: &str) -> anyhow::Result<RatePhase> {
    let (rates, length) = match text.split_once('x') {
        Some((rates, length)) => {
            let length = length::read(length).map_err(anyhow::Error::msg);
            (
                rates,
                Some(length.with_context(|| format!("`{text}`: after the `x` comes how long, such as 10s"))?),
            )
        }
        None => (text, None),
    };
    let rate = |rate: &str| -> anyhow::Result<f64> {
        let rate: f64 = rate.parse().with_context(|| {
            format!("`{text}` is no rate: such as 500, 500x10s, or 100..1000x30s for one that rises")
        })?;
        if !(0.0..=RATE_MAX).contains(&rate) {
            bail!("`{text}`: a rate is between 0 and {RATE_MAX} requests per second");
        }
        Ok(rate)
    };
    Ok(match rates.split_once("..") {
        Some((from, to)) => RatePhase { from: rate(from)?, to: rate(to)?, length },
        None => RatePhase { from: rate(rates)?, to: rate(rates)?, length },
    })
}

/// More than any client of one machine sends.
const RATE_MAX: f64 = 10_000_000.0;

/// The times at which requests are due, one after the other: nanoseconds from the start, with the phase that each belongs to.
#[derive(Debug, Clone)]
pub struct DueTimes {
    kind: DueKind,
}

#[derive(Debug, Clone)]
enum DueKind {
    Never,
    Listed {
        due: Vec<u64>,
        next: usize,
    },
    Rates {
        phases: Vec<(f64, f64, f64)>,
        phase: usize,
        start: f64,
        level: f64,
        chance: Option<fastrand::Rng>,
    },
}

impl DueTimes {
    /// None: clients begin the next request when the last is answered.
    pub fn never() -> Self {
        Self { kind: DueKind::Never }
    }

    /// At these times, which rise.
    pub fn listed(due: Vec<u64>) -> Self {
        Self { kind: DueKind::Listed { due, next: 0 } }
    }

    /// As `phases` say, each with its length; random ones are the same for the same `seed`.
    pub fn of(phases: &[(RatePhase, Duration)], spacing: RequestSpacing, seed: u64) -> Self {
        let chance = (spacing == RequestSpacing::Poisson).then(|| fastrand::Rng::with_seed(seed));
        let phases =
            phases.iter().map(|(phase, length)| (phase.from, phase.to, length.as_secs_f64())).collect();
        let mut times = Self { kind: DueKind::Rates { phases, phase: 0, start: 0.0, level: 0.0, chance } };
        // Evenly spaced, the first is due at once.
        if spacing == RequestSpacing::Poisson {
            times.step();
        }
        times
    }

    fn step(&mut self) {
        if let DueKind::Rates { level, chance, .. } = &mut self.kind {
            // Where the rate is 1, the gaps of a Poisson process are exponential with mean 1.
            *level += chance.as_mut().map_or(1.0, |chance| -(1.0 - chance.f64()).ln());
        }
    }
}

impl Iterator for DueTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let due = match &mut self.kind {
            DueKind::Never => return None,
            DueKind::Listed { due, next } => {
                *next += 1;
                return due.get(*next - 1).copied();
            }
            // `level` counts the requests that are expected since the beginning of the phase.
            DueKind::Rates { phases, phase, start, level, .. } => loop {
                let (from, to, length) = *phases.get(*phase)?;
                let of_phase = (from + to) / 2.0 * length;
                // A sum of many ones is not off by more.
                if *level < of_phase - 1e-9 {
                    let slope = (to - from) / length;
                    let root = (from * from + 2.0 * slope * *level).max(0.0).sqrt();
                    let after = if *level > 0.0 { 2.0 * *level / (from + root) } else { 0.0 };
                    break *start + after.min(length);
                }
                *level = (*level - of_phase).max(0.0);
                *start += length;
                *phase += 1;
            },
        };
        self.step();
        Some((due * 1e9).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::{DueTimes, RatePhase, RatePlan, RequestSpacing};
    use std::time::Duration;

    fn due(plan: &str, spacing: RequestSpacing) -> Vec<u64> {
        let RatePlan(phases) = plan.parse().unwrap();
        let phases: Vec<(RatePhase, Duration)> =
            phases.into_iter().map(|phase| (phase, phase.length.unwrap_or(Duration::from_secs(1)))).collect();
        DueTimes::of(&phases, spacing, 7).collect()
    }

    #[test]
    fn a_constant_rate_is_evenly_spaced() {
        let times = due("4", RequestSpacing::Even);
        assert_eq!(times, [0, 250_000_000, 500_000_000, 750_000_000]);
    }

    #[test]
    fn steps_and_spikes_follow_each_other() {
        let times = due("10x1s,100x500ms,10x1s", RequestSpacing::Even);
        let in_phase = |from: u64, to: u64| {
            times.iter().filter(|due| (from * 1_000_000..to * 1_000_000).contains(*due)).count()
        };
        assert_eq!(
            [in_phase(0, 1000), in_phase(1000, 1500), in_phase(1500, 2500), times.len()],
            [10, 50, 10, 70]
        );
        // Nothing for a while is a phase, too.
        assert_eq!(due("1x1s,0x3s,1x1s", RequestSpacing::Even), [0, 4_000_000_000]);
    }

    #[test]
    fn a_ramp_rises_in_a_line_and_falls() {
        let times = due("0..100x10s", RequestSpacing::Even);
        assert_eq!(times.len(), 500);
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "they rise");
        let first_half = times.iter().filter(|due| **due < 5_000_000_000).count();
        // A quarter of the triangle.
        assert!((124..=126).contains(&first_half), "{first_half}");
        let falling = due("100..0x10s", RequestSpacing::Even);
        let first_half = falling.iter().filter(|due| **due < 5_000_000_000).count();
        assert!((374..=376).contains(&first_half), "{first_half}");
    }

    #[test]
    fn independent_users_come_at_random_with_the_same_mean() {
        let times = due("1000x20s", RequestSpacing::Poisson);
        assert!((19_500..20_500).contains(&times.len()), "{}", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // The standard deviation of exponential gaps is their mean.
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.05, "{}", variance.sqrt() / mean);
        assert_eq!(times, due("1000x20s", RequestSpacing::Poisson), "the same seed, the same times");
    }

    #[test]
    fn what_is_no_rate_is_named() {
        for (text, why) in [
            ("", "no rate"),
            ("fast", "no rate"),
            ("-1", "between 0"),
            ("100x", "how long"),
            ("100,200x1s", "each has its length"),
            ("0", "asks for nothing"),
            ("inf", "between 0"),
        ] {
            let error = format!("{:#}", text.parse::<RatePlan>().unwrap_err());
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
