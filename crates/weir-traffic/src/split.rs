//! Weighted split of a route's requests between upstreams: canary releases.

/// The largest weight of one part.
pub const SPLIT_WEIGHT_MAX: u32 = 1_000_000;

/// Parts with weights; which part a request goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WeightedSplit {
    /// Running sums of the weights; the last is the total.
    sums: Box<[u64]>,
}

/// Why weights do not make a split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SplitError {
    /// There is no part.
    #[error("a split needs at least one upstream")]
    Empty,
    /// All weights are 0.
    #[error("at least one weight of a split has to be above 0")]
    AllZero,
    /// A weight is above [`SPLIT_WEIGHT_MAX`].
    #[error("a weight of a split is at most {SPLIT_WEIGHT_MAX}")]
    TooLarge,
}

impl WeightedSplit {
    /// A split in proportion to `weights`, in any unit. A part of weight 0 gets nothing.
    ///
    /// # Errors
    /// When there is no part with a weight above 0, or a weight is too large.
    pub fn new(weights: &[u32]) -> Result<WeightedSplit, SplitError> {
        if weights.is_empty() {
            return Err(SplitError::Empty);
        }
        if weights.iter().any(|&weight| weight > SPLIT_WEIGHT_MAX) {
            return Err(SplitError::TooLarge);
        }
        let sums: Box<[u64]> = weights
            .iter()
            .scan(0, |sum, &weight| {
                *sum += u64::from(weight);
                Some(*sum)
            })
            .collect();
        if sums.last() == Some(&0) { Err(SplitError::AllZero) } else { Ok(WeightedSplit { sums }) }
    }

    /// The part that `word` falls into: fresh random bits, or the hash of a client for a split that each
    /// client always falls on the same side of. Exact in proportion to within one part in 2^43.
    ///
    /// Parts lie in the order given, so raising the weight of the first (from 5 of 100 to 10 of 100, the rest
    /// lowered) only adds clients to it.
    pub fn choose(&self, word: u64) -> usize {
        let total = self.sums[self.sums.len() - 1];
        let point = ((u128::from(word) * u128::from(total)) >> 64) as u64;
        self.sums.partition_point(|&sum| sum <= point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_checked() {
        assert_eq!(WeightedSplit::new(&[]), Err(SplitError::Empty));
        assert_eq!(WeightedSplit::new(&[0, 0]), Err(SplitError::AllZero));
        assert_eq!(WeightedSplit::new(&[SPLIT_WEIGHT_MAX + 1]), Err(SplitError::TooLarge));
    }

    #[test]
    fn shares_are_exact() {
        // Equally spaced words: every part gets its share to within one word.
        const WORDS: u64 = 10_000;
        for weights in [&[1][..], &[95, 5], &[1, 1, 1], &[0, 3, 0, 1, 0], &[1, SPLIT_WEIGHT_MAX]] {
            let split = WeightedSplit::new(weights).unwrap();
            let mut counts = vec![0_u64; weights.len()];
            for step in 0..WORDS {
                counts[split.choose(step * (u64::MAX / WORDS))] += 1;
            }
            let total: u64 = weights.iter().map(|&weight| u64::from(weight)).sum();
            for (count, &weight) in counts.iter().zip(weights) {
                let expected = WORDS * u64::from(weight) / total;
                assert!(count.abs_diff(expected) <= 1, "{weights:?}: {counts:?}");
                assert!(weight > 0 || *count == 0, "{weights:?}: {counts:?}");
            }
        }
        let last = WeightedSplit::new(&[1, 1, 0]).unwrap();
        assert_eq!((last.choose(0), last.choose(u64::MAX)), (0, 1));
    }

    #[test]
    fn a_growing_first_part_keeps_its_clients() {
        let small = WeightedSplit::new(&[5, 95]).unwrap();
        let large = WeightedSplit::new(&[10, 90]).unwrap();
        for step in 0..1_000 {
            let word = step * (u64::MAX / 1_000);
            assert!(small.choose(word) != 0 || large.choose(word) == 0, "{word}");
        }
    }
}
