//! Verdicts as tables and against a simple model; schedules by where their probes fall.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::hash::mix;
use crate::server::Health;

/// The verdict after each outcome; `+` passed, `-` failed. Upper case marks a change.
fn verdicts(thresholds: Thresholds, outcomes: &str) -> String {
    let mut verdict = HealthState::new(thresholds);
    let mut letters = String::new();
    for (at, outcome) in outcomes.chars().enumerate() {
        let failure = (outcome == '-').then_some(());
        let change = verdict.record(PastOutcome { at_ms: at as u64, failure });
        let letter = if verdict.health() == Health::Up { 'u' } else { 'd' };
        letters.push(if change.is_some() { letter.to_ascii_uppercase() } else { letter });
        assert!(change.is_none_or(|change| change.health == verdict.health()));
        assert!(!(change.is_some() && verdict.is_changing()));
    }
    letters
}

#[test]
fn a_verdict_takes_several_outcomes_in_a_row() {
    let thresholds = Thresholds { rise: 2, fall: 3 };
    for (outcomes, letters) in [
        ("", ""),
        ("+--+--+---", "uuuuuuuuuD"),
        ("+---+-+-++-", "uuuDdddddUu"),
        ("+---++---++", "uuuDdUuuDdU"),
        // The first probe decides alone, later ones do not.
        ("-", "D"),
        ("-++", "DdU"),
        ("-++--+", "DdUuuu"),
        ("+-", "uu"),
    ] {
        assert_eq!(verdicts(thresholds, outcomes), letters, "{outcomes}");
    }
    assert_eq!(verdicts(Thresholds { rise: 1, fall: 1 }, "+-+-"), "uDUD");
    assert_eq!(verdicts(Thresholds { rise: 0, fall: 0 }, "+-+-"), "uDUD", "0 counts as 1");
}

#[test]
fn a_change_says_how_many_outcomes_led_to_it() {
    let mut verdict = HealthState::new(Thresholds { rise: 2, fall: 3 });
    let mut record = |failure: Option<&'static str>| verdict.record(PastOutcome { at_ms: 0, failure });
    assert_eq!(record(Some("refused")), Some(HealthChange { health: Health::Down, outcomes: 1 }));
    assert_eq!(record(None), None);
    assert_eq!(record(None), Some(HealthChange { health: Health::Up, outcomes: 2 }));
    assert_eq!((record(Some("reset")), record(Some("reset"))), (None, None));
    assert_eq!(record(Some("closed")), Some(HealthChange { health: Health::Down, outcomes: 3 }));
    let causes: Vec<_> = verdict.history().iter().filter_map(|outcome| outcome.failure).collect();
    assert_eq!(causes, ["refused", "reset", "reset", "closed"]);
}

proptest! {
    /// Against a model that evaluates the whole past each time.
    #[test]
    fn the_verdict_is_that_of_the_model(
        rise in 1_u32..5, fall in 1_u32..5, outcomes in prop::collection::vec(any::<bool>(), 0..60),
    ) {
        let mut verdict = HealthState::new(Thresholds { rise, fall });
        let mut model = Health::Up;
        // Outcomes since the last change, and the first of all.
        let mut since = Vec::new();
        for (at, passed) in outcomes.iter().copied().enumerate() {
            since.push(passed);
            let (against, needed) = match model {
                Health::Up => (false, if at == 0 { 1 } else { fall }),
                Health::Down => (true, rise),
            };
            let run = since.iter().rev().take_while(|outcome| **outcome == against).count();
            let changes = run >= needed as usize;
            let change = verdict.record(PastOutcome { at_ms: at as u64, failure: (!passed).then_some(at) });
            prop_assert_eq!(change.is_some(), changes);
            prop_assert_eq!(verdict.is_changing(), !changes && run > 0);
            if changes {
                model = if against { Health::Up } else { Health::Down };
                prop_assert_eq!(change.map(|change| change.outcomes as usize), Some(run));
                since.clear();
            }
            prop_assert_eq!(verdict.health(), model);
        }
        let kept: Vec<u64> = verdict.history().iter().map(|outcome| outcome.at_ms).collect();
        let expected: Vec<u64> = (0..outcomes.len() as u64).collect();
        prop_assert_eq!(&kept[..], &expected[expected.len().saturating_sub(HISTORY_MAX)..]);
    }
}

const SECOND: ProbeTiming = ProbeTiming {
    interval: Duration::from_millis(1000),
    fast_interval: Duration::from_millis(250),
    jitter_percent: 10,
};

/// Servers whose probes are made at once and take no time except that of a failure, and when each began.
struct ProbedServers {
    servers: Vec<(ProbeSchedule, HealthState<()>, u64)>,
    random: u64,
}

impl ProbedServers {
    fn new(pace: &ProbeTiming, servers: u32, seed: u64) -> ProbedServers {
        let mut crowd = ProbedServers { servers: Vec::new(), random: seed };
        for turn in 0..servers {
            let schedule = ProbeSchedule::new(pace, turn, seed);
            let due_ms = schedule.first(0, crowd.random());
            crowd.servers.push((schedule, HealthState::new(Thresholds { rise: 2, fall: 3 }), due_ms));
        }
        crowd
    }

    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(1);
        mix(self.random)
    }

    /// How many probes begin in each 10 ms until `end_ms`; `fails` says whether one that begins then does, and
    /// how long it takes.
    fn bins(&mut self, end_ms: u64, fails: impl Fn(u64) -> Option<u64>) -> Vec<u32> {
        let mut bins = vec![0; (end_ms / 10) as usize];
        for index in 0..self.servers.len() {
            loop {
                let (schedule, _, began_ms) = self.servers[index];
                if began_ms >= end_ms {
                    break;
                }
                bins[(began_ms / 10) as usize] += 1;
                let took_ms = fails(began_ms);
                let now_ms = began_ms + took_ms.unwrap_or(1);
                let random = self.random();
                let (_, verdict, due_ms) = &mut self.servers[index];
                verdict.record(PastOutcome { at_ms: now_ms, failure: took_ms.map(|_| ()) });
                *due_ms = schedule.next(began_ms, now_ms, verdict.is_changing(), random);
                assert!(*due_ms > began_ms && *due_ms >= now_ms);
            }
        }
        bins
    }
}

/// In every second, the fullest 10 ms hold less than three times the mean of that second.
fn assert_spread(bins: &[u32], from_second: usize) {
    for (second, bins) in bins.chunks_exact(100).enumerate().skip(from_second) {
        let mean = f64::from(bins.iter().sum::<u32>()) / 100.0;
        let max = bins.iter().max().copied().unwrap_or(0);
        assert!(f64::from(max) < 3.0 * mean, "second {second}: {max} of {mean} on average");
    }
}

#[test]
fn a_thousand_servers_make_no_burst() {
    for seed in 0..5 {
        for jitter_percent in [0, 10, 50] {
            let mut crowd = ProbedServers::new(&ProbeTiming { jitter_percent, ..SECOND }, 1000, seed);
            let bins = crowd.bins(60_000, |_| None);
            assert_spread(&bins, 0);
            let whole = bins[..100].iter().sum::<u32>();
            assert!((700..=1000).contains(&whole), "{whole} servers are probed in the first second");
        }
    }
}

/// All of them refuse, hang, and come back at the same moments.
#[test]
fn changes_of_all_servers_at_once_make_no_burst() {
    for took_ms in [1, 500, 900] {
        let mut crowd = ProbedServers::new(&SECOND, 1000, 7);
        let bins = crowd.bins(60_000, |at_ms| (10_000..30_000).contains(&at_ms).then_some(took_ms));
        assert_spread(&bins, 0);
        assert!(crowd.servers.iter().all(|(_, verdict, _)| verdict.health() == Health::Up));
        let busiest = bins.chunks_exact(100).map(|bins| bins.iter().sum::<u32>()).max();
        assert!(took_ms > 1 || busiest > Some(1500), "probes follow each other sooner while servers change");
        let last = &bins[5000..];
        assert!(last.iter().sum::<u32>() <= 10_100, "afterwards each is back at its pace");
    }
}

/// Servers of several upstreams, each with an interval of its own.
#[test]
fn several_intervals_make_no_burst() {
    let mut bins = vec![0; 6000];
    for (pace_ms, turns) in [(1000, 0..300_u32), (1500, 300..600), (2000, 600..1000)] {
        for turn in turns {
            let pace = ProbeTiming { interval: Duration::from_millis(pace_ms), ..SECOND };
            let schedule = ProbeSchedule::new(&pace, turn, 3);
            let mut due_ms = schedule.first(0, mix(u64::from(turn)));
            while due_ms < 60_000 {
                bins[(due_ms / 10) as usize] += 1;
                due_ms = schedule.next(due_ms, due_ms + 1, false, mix(due_ms + u64::from(turn)));
            }
        }
    }
    assert_spread(&bins, 2);
}

#[test]
fn a_hung_server_is_found_out_in_time() {
    let (timeout_ms, fall) = (500, 2);
    for hung_ms in (5000..6000).step_by(7) {
        let schedule = ProbeSchedule::new(&SECOND, 3, hung_ms);
        let mut verdict = HealthState::new(Thresholds { rise: 2, fall });
        let mut due_ms = schedule.first(0, 0);
        let found_ms = (0_u64..)
            .find_map(|random| {
                let failure = (due_ms >= hung_ms).then_some(());
                let now_ms = due_ms + if failure.is_some() { timeout_ms } else { 1 };
                let change = verdict.record(PastOutcome { at_ms: now_ms, failure });
                // Every second jitter is the largest there is.
                let jitter = if random % 2 == 0 { u64::MAX } else { 0 };
                due_ms = schedule.next(due_ms, now_ms, verdict.is_changing(), jitter);
                change.map(|_| now_ms)
            })
            .expect("it fails for ever");
        assert!(found_ms - hung_ms < 2200, "{} ms", found_ms - hung_ms);
    }
}

proptest! {
    /// However many servers there are, and whatever comes before them, no two beats come close and no gap is wide.
    #[test]
    fn beats_are_spread_evenly(servers in 2_u32..200, before in 0_u32..10_000, seed in any::<u64>()) {
        let pace = ProbeTiming { interval: Duration::from_secs(1_000_000), ..SECOND };
        let mut beats: Vec<u64> = (before..before + servers)
            .map(|turn| ProbeSchedule::new(&ProbeTiming { jitter_percent: 0, ..pace }, turn, seed).first(0, 0))
            .collect();
        beats.sort_unstable();
        let round = beats[0] + 1_000_000_000;
        let gaps = beats.windows(2).map(|pair| pair[1] - pair[0]).chain([round - beats[beats.len() - 1]]);
        let mean = 1e9 / f64::from(servers);
        for gap in gaps {
            let share = gap as f64 / mean;
            prop_assert!((0.38..2.1).contains(&share), "{share} of the mean");
        }
    }

    /// On a steady server, one probe falls on each beat, late by at most the jitter.
    #[test]
    fn jitter_does_not_add_up(
        interval_ms in 1_u64..100_000, jitter_percent in 0_u32..100, turn in any::<u32>(), seed in any::<u64>(),
    ) {
        let pace = ProbeTiming { interval: Duration::from_millis(interval_ms), jitter_percent, ..SECOND };
        let schedule = ProbeSchedule::new(&pace, turn, seed);
        let offset_ms = ProbeSchedule::new(&ProbeTiming { jitter_percent: 0, ..pace }, turn, seed).first(0, 0);
        prop_assert!(offset_ms < interval_ms);
        let mut due_ms = schedule.first(0, mix(seed));
        for beat in 0_u64..50 {
            let late_ms = due_ms.checked_sub(offset_ms + beat * interval_ms);
            let late_max = interval_ms * u64::from(jitter_percent.min(50)) / 100;
            prop_assert!(late_ms.is_some_and(|late| late <= late_max), "beat {beat}: {late_ms:?}");
            due_ms = schedule.next(due_ms, due_ms, false, mix(seed ^ beat));
        }
    }

    /// A probe that lasts is not followed by one for each beat that it covered.
    #[test]
    fn long_probes_leave_out_beats(took_ms in 0_u64..100_000, is_changing in any::<bool>(), random in any::<u64>()) {
        let schedule = ProbeSchedule::new(&SECOND, 1, 1);
        let began_ms = schedule.first(0, random);
        let next_ms = schedule.next(began_ms, began_ms + took_ms, is_changing, random);
        prop_assert!(next_ms >= began_ms + took_ms && next_ms > began_ms);
        prop_assert!(next_ms <= began_ms + took_ms.max(1) + 1100);
    }
}
