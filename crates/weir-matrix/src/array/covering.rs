//! A covering array: few cases that together have every combination of `strength` values that exists, the same for the same seed.
//!
//! Case by case, the greediest of several candidates is taken: first the factors that exclude each other, then the free ones one by one.

use std::collections::HashSet;

use super::factors::{Case, FEATURES, Feature};
use super::possible::{self, Base};

/// Candidates for each case.
const CANDIDATES: usize = 12;

/// Values of some factors: factor and value, ordered by factor, the rest unused.
type Tuple = [(u8, u8); 3];

/// Where the features begin among the factors.
const FIRST_FEATURE: usize = 5;
/// The feature that excludes others.
const TLS: usize = FIRST_FEATURE + Feature::Tls as usize;

/// What an array has.
pub(crate) struct Coverage {
    pub(crate) cases: Vec<Case>,
    /// How many combinations exist, and how many the cases have.
    pub(crate) existing: usize,
    pub(crate) covered: usize,
    /// A line for each pair of factors: how many pairs of their values exist, and how many are covered.
    pub(crate) by_factors: Vec<String>,
}

/// The cases that have all pairs (`strength` 2) or triples (3).
pub(crate) fn cover(strength: usize, seed: u64) -> Coverage {
    let bases = possible::all();
    let existing = existing(&bases, strength);
    let mut open = existing.clone();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cases = super::former::cases();
    for tuple in cases.iter().flat_map(|case| tuples(&case.values(), strength)) {
        open.remove(&tuple);
    }
    while !open.is_empty() {
        let candidates = (0..CANDIDATES).map(|_| candidate(&bases, &open, strength, &mut random));
        let scored = candidates.map(|case| (gain(&case, &open, strength), case));
        let Some((_, case)) = scored.max_by_key(|(gain, _)| *gain) else { break };
        for tuple in tuples(&case.values(), strength) {
            open.remove(&tuple);
        }
        cases.push(case);
    }
    let covered = existing.len() - open.len();
    let by_factors = by_factors(&existing, &open);
    Coverage { cases, existing: existing.len(), covered, by_factors }
}

/// All combinations of `strength` values that exist in any case.
fn existing(bases: &[Base], strength: usize) -> HashSet<Tuple> {
    let mut existing = HashSet::new();
    let free: Vec<usize> =
        (FIRST_FEATURE..FIRST_FEATURE + FEATURES).filter(|factor| *factor != TLS).collect();
    let mut seen = HashSet::new();
    for base in bases {
        let bound = bound_values(base);
        // With `count` values of the bound factors, the rest are of free ones, all of whose values exist.
        for count in 0..=strength.min(bound.len()) {
            for chosen in subsets(&bound, count) {
                if seen.insert(chosen.clone()) {
                    extend(&chosen, &free, strength, &mut existing);
                }
            }
        }
    }
    existing
}

fn bound_values(base: &Base) -> Vec<(u8, u8)> {
    vec![
        (0, base.client as u8),
        (1, base.server as u8),
        (2, base.method as u8),
        (3, base.body as u8),
        (4, base.event as u8),
        (TLS as u8, u8::from(base.has_tls)),
    ]
}

fn subsets(values: &[(u8, u8)], count: usize) -> Vec<Vec<(u8, u8)>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, value) in values.iter().enumerate() {
        for mut rest in subsets(&values[index + 1..], count - 1) {
            rest.insert(0, *value);
            all.push(rest);
        }
    }
    all
}

fn extend(chosen: &[(u8, u8)], free: &[usize], strength: usize, existing: &mut HashSet<Tuple>) {
    if chosen.len() == strength {
        let mut sorted = chosen.to_vec();
        sorted.sort_unstable();
        existing.insert(packed(&sorted));
        return;
    }
    for (index, factor) in free.iter().enumerate() {
        for value in 0..2 {
            let with = [chosen, &[(*factor as u8, value)]].concat();
            extend(&with, &free[index + 1..], strength, existing);
        }
    }
}

fn packed(values: &[(u8, u8)]) -> Tuple {
    let mut tuple = [(u8::MAX, 0); 3];
    tuple[..values.len()].copy_from_slice(values);
    tuple
}

/// All combinations of `strength` values of one case.
fn tuples(values: &[usize], strength: usize) -> Vec<Tuple> {
    let all: Vec<(u8, u8)> =
        values.iter().enumerate().map(|(factor, value)| (factor as u8, *value as u8)).collect();
    subsets(&all, strength).iter().map(|subset| packed(subset)).collect()
}

fn gain(case: &Case, open: &HashSet<Tuple>, strength: usize) -> usize {
    tuples(&case.values(), strength).iter().filter(|tuple| open.contains(*tuple)).count()
}

/// A case around one combination that is not covered yet.
fn candidate(bases: &[Base], open: &HashSet<Tuple>, strength: usize, random: &mut fastrand::Rng) -> Case {
    // A `HashSet` has no order that is the same in every run: a hash of our own decides instead.
    let salt = random.u64(..);
    let wanted = open.iter().min_by_key(|tuple| (mixed(**tuple, salt), **tuple));
    let wanted = wanted.copied().unwrap_or([(u8::MAX, 0); 3]);
    let agrees = |base: &&Base| {
        let bound = bound_values(base);
        wanted.iter().all(|(factor, value)| bound.iter().all(|(other, its)| other != factor || its == value))
    };
    let scored =
        bases.iter().filter(agrees).map(|base| (base_gain(base, open, strength), random.u32(..), base));
    let (_, _, base) = scored.max_by_key(|(gain, drawn, _)| (*gain, *drawn)).expect("what is open exists");
    let mut case = Case {
        client: base.client,
        server: base.server,
        method: base.method,
        body: base.body,
        event: base.event,
        features: u32::from(base.has_tls) << Feature::Tls as u32,
    };
    let mut fixed = vec![0, 1, 2, 3, 4, TLS];
    for (factor, value) in
        wanted.iter().filter(|(factor, _)| usize::from(*factor) >= FIRST_FEATURE && *factor != u8::MAX)
    {
        set(&mut case, usize::from(*factor), *value == 1);
        fixed.push(usize::from(*factor));
    }
    let mut order: Vec<usize> = (FIRST_FEATURE..FIRST_FEATURE + FEATURES).collect();
    random.shuffle(&mut order);
    for factor in order {
        if !fixed.contains(&factor) {
            let gains = [false, true].map(|on| {
                set(&mut case, factor, on);
                partial_gain(&case, factor, &fixed, open, strength)
            });
            set(&mut case, factor, gains[1] > gains[0] || (gains[1] == gains[0] && random.bool()));
            fixed.push(factor);
        }
    }
    case
}

fn set(case: &mut Case, factor: usize, on: bool) {
    let bit = 1 << (factor - FIRST_FEATURE);
    case.features = if on { case.features | bit } else { case.features & !bit };
}

fn base_gain(base: &Base, open: &HashSet<Tuple>, strength: usize) -> usize {
    let bound = bound_values(base);
    subsets(&bound, strength).iter().filter(|subset| open.contains(&packed(subset))).count()
}

/// How many open combinations of the value of `factor` with those of `fixed` a case has.
fn partial_gain(
    case: &Case,
    factor: usize,
    fixed: &[usize],
    open: &HashSet<Tuple>,
    strength: usize,
) -> usize {
    let values = case.values();
    let of = |factor: usize| (factor as u8, values[factor] as u8);
    let others: Vec<(u8, u8)> = fixed.iter().map(|factor| of(*factor)).collect();
    let with = |mut subset: Vec<(u8, u8)>| {
        subset.push(of(factor));
        subset.sort_unstable();
        packed(&subset)
    };
    subsets(&others, strength - 1).into_iter().filter(|subset| open.contains(&with(subset.clone()))).count()
}

/// A number that depends on the tuple and on what was drawn, and not on the order of a table (FNV-1a).
fn mixed(tuple: Tuple, salt: u64) -> u64 {
    let bytes =
        salt.to_le_bytes().into_iter().chain(tuple.into_iter().flat_map(|(factor, value)| [factor, value]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn by_factors(existing: &HashSet<Tuple>, open: &HashSet<Tuple>) -> Vec<String> {
    let names = ["client", "server", "method", "body", "event"];
    let name = |factor: u8| names.get(usize::from(factor)).copied().unwrap_or("features");
    let mut lines: std::collections::BTreeMap<Vec<&str>, (usize, usize)> = std::collections::BTreeMap::new();
    for tuple in existing {
        let mut key: Vec<&str> =
            tuple.iter().filter(|(factor, _)| *factor != u8::MAX).map(|(factor, _)| name(*factor)).collect();
        key.sort_unstable();
        let (all, covered) = lines.entry(key).or_default();
        *all += 1;
        *covered += usize::from(!open.contains(tuple));
    }
    lines.iter().map(|(key, (all, covered))| format!("{}: {covered} of {all}", key.join(" x "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::factors::{describe, levels};

    fn described(tuple: &Tuple) -> String {
        let used = tuple.iter().filter(|(factor, _)| *factor != u8::MAX);
        let parts: Vec<String> =
            used.map(|(factor, value)| describe(usize::from(*factor), usize::from(*value))).collect();
        parts.join(" with ")
    }

    #[test]
    fn every_pair_that_exists_is_covered_by_few_cases() {
        let coverage = cover(2, 1);
        assert_eq!(coverage.covered, coverage.existing);
        assert!((78..160).contains(&coverage.cases.len()), "{}", coverage.cases.len());
        let mut open = existing(&possible::all(), 2);
        for case in &coverage.cases {
            for tuple in tuples(&case.values(), 2) {
                open.remove(&tuple);
            }
        }
        let left: Vec<String> = open.iter().map(described).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_cases() {
        let (first, second, other) = (cover(2, 7).cases, cover(2, 7).cases, cover(2, 8).cases);
        assert_eq!(first, second);
        assert_ne!(first, other);
    }

    #[test]
    fn only_values_of_the_factors_are_in_tuples() {
        let levels = levels();
        for tuple in existing(&possible::all(), 2) {
            for (factor, value) in &tuple[..2] {
                assert!(usize::from(*value) < levels[usize::from(*factor)], "{tuple:?}");
            }
        }
    }

    #[test]
    fn a_case_is_found_by_its_name() {
        for case in cover(2, 1).cases {
            assert_eq!(Case::named(&case.to_string()), Some(case));
        }
        assert_eq!(Case::named("h1/h9/GET/none/none/plain"), None);
    }
}
