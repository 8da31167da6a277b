//! A table of verdicts, each for some time: bounded, and forgets the oldest first.

use std::collections::{HashMap, VecDeque};

use super::CredentialDigest;
use crate::net::clock::Instant;

/// Verdicts by the digest of what they are about.
#[derive(Debug)]
pub(crate) struct Verdicts<T> {
    known: HashMap<CredentialDigest, Verdict<T>>,
    /// Every digest of `known` once, the oldest first.
    order: VecDeque<CredentialDigest>,
    /// What all of them weigh, and the most they may.
    weight: usize,
    weight_max: usize,
}

#[derive(Debug)]
struct Verdict<T> {
    value: T,
    until: Instant,
    weight: usize,
}

impl<T> Verdicts<T> {
    /// An empty table for so much.
    pub(crate) fn new(weight_max: usize) -> Self {
        Self { known: HashMap::new(), order: VecDeque::new(), weight: 0, weight_max }
    }

    /// What was found before, and still holds.
    pub(crate) fn get(&self, digest: CredentialDigest, now: Instant) -> Option<&T> {
        self.known.get(&digest).filter(|verdict| now < verdict.until).map(|verdict| &verdict.value)
    }

    /// Remembers a verdict, which weighs so much, for some time; one that does not fit is not remembered.
    pub(crate) fn insert(&mut self, digest: CredentialDigest, value: T, until: Instant, weight: usize) {
        if weight > self.weight_max {
            return;
        }
        match self.known.insert(digest, Verdict { value, until, weight }) {
            Some(before) => self.weight -= before.weight,
            None => self.order.push_back(digest),
        }
        self.weight += weight;
        while self.weight > self.weight_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.weight -= self.known.remove(&oldest).map_or(0, |verdict| verdict.weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::state::routes::access::DigestKey;

    #[test]
    fn verdicts_end_and_the_oldest_make_room() {
        let key = DigestKey::default();
        let digest = |number: u8| key.digest(&[&[number]]);
        let at = |seconds| Instant::test(Duration::from_secs(seconds));
        let mut verdicts = Verdicts::new(3);
        for number in 0..3 {
            verdicts.insert(digest(number), number, at(10 + u64::from(number)), 1);
        }
        assert_eq!((verdicts.get(digest(0), at(9)), verdicts.get(digest(0), at(10))), (Some(&0), None));
        verdicts.insert(digest(1), 7, at(20), 1);
        verdicts.insert(digest(3), 3, at(20), 1);
        let known: Vec<_> = (0..4).map(|number| verdicts.get(digest(number), at(11)).copied()).collect();
        assert_eq!(known, [None, Some(7), Some(2), Some(3)]);
        verdicts.insert(digest(4), 4, at(20), 3);
        let known: Vec<_> = (0..5).map(|number| verdicts.get(digest(number), at(11)).copied()).collect();
        assert_eq!(known, [None, None, None, None, Some(4)]);
        verdicts.insert(digest(5), 5, at(20), 4);
        assert_eq!(verdicts.get(digest(5), at(11)), None, "it is too heavy");
        assert_eq!((verdicts.known.len(), verdicts.order.len(), verdicts.weight), (1, 1, 3));
    }
}
