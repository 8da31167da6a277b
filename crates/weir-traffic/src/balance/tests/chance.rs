//! Random and power of two: shares within the bounds of chance, whatever happens to the weights.

use super::*;

/// Whether `count` of `total` is within five standard deviations of its share: false once in two million
/// tries, and the seeds are fixed.
fn is_plausible(count: usize, total: usize, share: f64) -> bool {
    let due = total as f64 * share;
    (count as f64 - due).abs() <= 5.0 * (due * (1.0 - share)).sqrt()
}

#[test]
fn random_shares_follow_the_weights() {
    for weights in [&[1][..], &[1, 1], &[1, 2, 3, 4], &[256, 1], &[1, 1, 1, 1, 1, 1, 1, 1, 1, 100]] {
        let mut upstream = TestBalancer::new(&Policy::Random, weights);
        let counts = upstream.counts(20_000);
        let total: u32 = weights.iter().sum();
        for (count, &weight) in counts.iter().zip(weights) {
            let share = f64::from(weight) / f64::from(total);
            assert!(is_plausible(*count, 20_000, share), "{weights:?}: {counts:?}");
        }
    }
}

#[test]
fn random_shares_follow_changed_weights_and_absences() {
    let mut upstream = TestBalancer::new(&Policy::Random, &[1, 1, 1, 1]);
    // Upwards beyond the largest share known, then far below it.
    for weights in [[200, 100, 50, 50], [1, 1, 0, 2]] {
        for (id, &weight) in weights.iter().enumerate() {
            upstream.state(id).set_weight(weight);
        }
        upstream.counts(100);
        let counts = upstream.counts(20_000);
        let total: u32 = weights.iter().sum();
        for (count, &weight) in counts.iter().zip(&weights) {
            let share = f64::from(weight) / f64::from(total);
            assert!(is_plausible(*count, 20_000, share), "{weights:?}: {counts:?}");
        }
    }
    upstream.state(3).set_health(Health::Down);
    let counts = upstream.counts(20_000);
    assert!(is_plausible(counts[0], 20_000, 0.5) && counts[2] + counts[3] == 0, "{counts:?}");
}

#[test]
fn of_two_servers_the_less_loaded_is_taken() {
    let mut upstream = TestBalancer::new(&Policy::PowerOfTwo, &[1, 3]);
    for taken in 1..=400_u32 {
        upstream.take();
        let loads = [0, 1].map(|id| upstream.state(id).in_flight());
        assert!(loads[0].abs_diff(taken / 4) <= 1, "{loads:?}");
    }
}

#[test]
fn two_choices_are_far_more_even_than_one() {
    let spread = |policy| {
        let mut upstream = TestBalancer::new(&policy, &[1; 50]);
        for _ in 0..5_000 {
            upstream.take();
        }
        let loads = || (0..50).map(|id| upstream.state(id).in_flight());
        loads().max().unwrap() - loads().min().unwrap()
    };
    // The theory: log log n against the square root of the load.
    let (two, one) = (spread(Policy::PowerOfTwo), spread(Policy::Random));
    assert!(two <= 8 && one >= 25, "two choices: {two}, one: {one}");
}

#[test]
fn idle_servers_share_by_weight_with_two_choices() {
    let mut upstream = TestBalancer::new(&Policy::PowerOfTwo, &[1, 1, 2]);
    let counts = upstream.counts(20_000);
    // The first draw decides between idle servers.
    for (count, share) in counts.iter().zip([0.25, 0.25, 0.5]) {
        assert!(is_plausible(*count, 20_000, share), "{counts:?}");
    }
}
