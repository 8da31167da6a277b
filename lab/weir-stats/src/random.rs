//! Random numbers by coordinates: the work of a request does not depend on which requests were served before it.
//!
//! Every stream is named by its purpose and follows from the seed alone. So two variants of one simulation see the same
//! arrivals and the same work (common random numbers), and any difference between them is caused by the variant.

/// The purpose of a stream: two purposes never share numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Purpose {
    /// When the requests of a class begin.
    Arrival = 1,
    /// How much work a request is.
    Demand,
    /// How long a client thinks before a request.
    Think,
    /// Which client a request is of, and which balancer it meets.
    Origin,
    /// What the balancer draws for a request.
    Pick,
    /// With which server a balancer begins, and on which beat it probes.
    Balancer,
    /// The jitter of probes.
    Probe,
    /// How long the origin of a measurement works on a request, and whether it fails.
    Service,
    /// When a balancer hears of a change of its servers.
    Discovery,
    /// Which servers a balancer knows.
    Subset,
}

/// A stream of random words (SplitMix64, Steele, Lea, Flood 2014).
#[derive(Debug, Clone, Copy)]
pub struct RandomStream(u64);

impl RandomStream {
    /// The stream for `purpose` at `coordinates`: the same for the same seed, unrelated to all others.
    pub fn new(seed: u64, purpose: Purpose, coordinates: [u64; 2]) -> Self {
        let purposed = mix(seed.wrapping_add((purpose as u64).wrapping_mul(GOLDEN)));
        let placed = coordinates
            .iter()
            .fold(purposed, |state, coordinate| mix(state ^ coordinate.wrapping_add(1).wrapping_mul(GOLDEN)));
        Self(placed)
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// A number above 0 and at most 1.
    pub fn unit(&mut self) -> f64 {
        // 53 bits are what a float holds exactly.
        ((self.word() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// A number below `bound`, which is above 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }
}

/// 2^64 over the golden ratio, odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

const fn mix(word: u64) -> u64 {
    let word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ word >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn streams_are_told_apart_by_all_that_names_them() {
        let mut first = HashSet::new();
        for seed in 0..4 {
            for purpose in [Purpose::Arrival, Purpose::Demand, Purpose::Pick] {
                for a in 0..20 {
                    for b in 0..20 {
                        assert!(first.insert(RandomStream::new(seed, purpose, [a, b]).word()));
                    }
                }
            }
        }
        let again = || RandomStream::new(7, Purpose::Demand, [3, 4]);
        assert_eq!(again().word(), again().word());
    }

    #[test]
    fn units_are_uniform() {
        let mut random = RandomStream::new(1, Purpose::Demand, [0, 0]);
        let mut bins = [0_u32; 10];
        for _ in 0..100_000 {
            let unit = random.unit();
            assert!(unit > 0.0 && unit <= 1.0);
            bins[((unit * 10.0) as usize).min(9)] += 1;
        }
        // 10 000 each; six standard deviations are 570.
        assert!(bins.iter().all(|bin| bin.abs_diff(10_000) < 570), "{bins:?}");
    }
}
