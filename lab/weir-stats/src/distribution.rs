//! How long something takes: the distributions of service and think times, here and in the origin of measurements.
//!
//! Times are nanoseconds. Every draw takes its randomness from the stream that it is given, and nothing else.

use crate::random::RandomStream;

/// Longest time that is drawn: heavy tails end here.
pub const DRAW_MAX_NS: u64 = 3_600_000_000_000;

/// A distribution of times, parameters in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Always the same.
    Constant(u64),
    /// Anything between two times, equally likely.
    Uniform {
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// Without memory.
    Exponential {
        /// The mean.
        mean: u64,
    },
    /// Skewed, as most measured service times are.
    LogNormal {
        /// Half of all draws are below.
        median: u64,
        /// The standard deviation of the logarithm.
        sigma: f64,
    },
    /// Heavy-tailed (type I).
    Pareto {
        /// The least.
        min: u64,
        /// The tail index: the smaller, the heavier. Up to 1 there is no mean.
        shape: f64,
    },
    /// Two kinds of work: most of it fast, some of it slow.
    Bimodal {
        /// What most of it takes.
        fast: u64,
        /// What the rest takes.
        slow: u64,
        /// How much is slow, 0 to 1.
        slow_share: f64,
    },
    /// One of these, equally likely: measured values.
    OneOf(Vec<u64>),
}

impl Distribution {
    /// One draw in nanoseconds.
    pub fn draw(&self, random: &mut RandomStream) -> u64 {
        let drawn = match *self {
            Self::Constant(time) => return time,
            Self::Uniform { min, max } => min + random.below(max - min + 1),
            Self::Exponential { mean } => (mean as f64 * -random.unit().ln()) as u64,
            Self::LogNormal { median, sigma } => (median as f64 * (sigma * normal(random)).exp()) as u64,
            Self::Pareto { min, shape } => (min as f64 * random.unit().powf(-1.0 / shape)) as u64,
            Self::Bimodal { fast, slow, slow_share } => {
                if random.unit() <= slow_share {
                    slow
                } else {
                    fast
                }
            }
            Self::OneOf(ref times) => times[random.below(times.len() as u64) as usize],
        };
        drawn.min(DRAW_MAX_NS)
    }
}

/// A draw from the standard normal distribution (Box and Muller 1958).
fn normal(random: &mut RandomStream) -> f64 {
    let radius = (-2.0 * random.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Purpose;

    const DRAWS: usize = 200_000;

    fn draws(distribution: &Distribution) -> Vec<f64> {
        let mut random = RandomStream::new(1, Purpose::Demand, [0, 0]);
        let mut draws: Vec<f64> = (0..DRAWS).map(|_| distribution.draw(&mut random) as f64).collect();
        draws.sort_by(f64::total_cmp);
        draws
    }

    /// Quantiles of 200 000 draws against those of the distribution, which lie within one percent.
    #[test]
    fn quantiles_are_those_of_the_formulas() {
        let e9 = 1_000_000_000.0_f64;
        type Quantile = fn(f64) -> f64;
        let cases: [(Distribution, Quantile); 4] = [
            (Distribution::Uniform { min: 1_000_000_000, max: 3_000_000_000 }, |p| 1.0 + 2.0 * p),
            (Distribution::Exponential { mean: 1_000_000_000 }, |p| -(1.0 - p).ln()),
            (Distribution::Pareto { min: 1_000_000_000, shape: 2.0 }, |p| (1.0 - p).powf(-0.5)),
            // The standard normal quantiles of 0.1, 0.5 and 0.9 are -1.28155, 0 and 1.28155.
            (Distribution::LogNormal { median: 1_000_000_000, sigma: 0.5 }, |p| {
                let normal: f64 = if p < 0.3 { -1.281_55 } else { f64::from(p > 0.7) * 1.281_55 };
                (0.5 * normal).exp()
            }),
        ];
        for (distribution, quantile) in cases {
            let draws = draws(&distribution);
            for p in [0.1, 0.5, 0.9] {
                let drawn = draws[(p * DRAWS as f64) as usize] / e9;
                let expected = quantile(p);
                let bound = if p < 0.3 { 0.03 } else { 0.012 };
                assert!(
                    (drawn / expected - 1.0).abs() < bound,
                    "{distribution:?} at {p}: {drawn}, {expected}"
                );
            }
        }
    }

    #[test]
    fn lists_and_constants_give_what_they_hold() {
        let of_three = draws(&Distribution::OneOf(vec![5, 1, 9]));
        let count = |value: f64| of_three.iter().filter(|draw| **draw == value).count();
        let counts = [1.0, 5.0, 9.0].map(count);
        assert_eq!(counts.iter().sum::<usize>(), DRAWS);
        assert!(counts.iter().all(|count| count.abs_diff(DRAWS / 3) < 1300), "{counts:?}");
        assert!(draws(&Distribution::Constant(7)).iter().all(|draw| *draw == 7.0));
    }

    #[test]
    fn a_share_of_the_work_is_slow() {
        let drawn = draws(&Distribution::Bimodal { fast: 1, slow: 9, slow_share: 0.05 });
        let slow = drawn.iter().filter(|draw| **draw == 9.0).count();
        // 10 000 expected; six standard deviations are 585.
        assert!(
            slow.abs_diff(DRAWS / 20) < 585 && drawn.iter().all(|draw| *draw == 1.0 || *draw == 9.0),
            "{slow}"
        );
    }

    #[test]
    fn heavy_tails_end() {
        let heavy = draws(&Distribution::Pareto { min: 1_000_000, shape: 0.05 });
        assert_eq!(heavy[DRAWS - 1], DRAW_MAX_NS as f64);
    }
}
