//! Clients with session affinity to servers, of which one is removed and returned: which clients stay, which move, and which
//! move without need.
//!
//! The servers' journals show which server a client came to. The time right after a server goes or comes is left out: a target
//! needs a while to notice.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use super::outage::{TIMEOUT, kill_and_return};
use super::traced::{self, TracedLoad};
use crate::load::LoadPattern;
use crate::measure::metric::Metric;
use crate::origin::journal::JournalEntry;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::scenario::Rounds;
use crate::scenario::work::PersistenceWork;
use crate::topology::target::LabTarget;

/// The stretches of time that are compared, in nanoseconds of `clock::uptime_ns`.
#[derive(Debug, Clone)]
struct PersistencePhases {
    /// All servers are there.
    before: Range<u64>,
    /// One is missing.
    without: Range<u64>,
    /// It is there again.
    again: Range<u64>,
}

/// Measures `target` once.
pub(super) fn measure(
    bench: &Bench<'_>,
    work: &PersistenceWork,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    let mut testbed = bench.set_up_with_servers(target, work.clients)?;
    let arrival = LoadPattern::Rate((work.clients * work.requests) as f64 / rounds.window.as_secs_f64());
    let load =
        TracedLoad { clients: work.clients, service: Duration::ZERO, body_len: 0, arrival, timeout: TIMEOUT };
    let plan = load.plan(&testbed, rounds);
    let (gone, back) = (Cell::new(0), Cell::new(0));
    let mut steps = kill_and_return(bench, work.after, work.length, &gone, &back);
    let (mut measurement, outcome) = traced::drive(bench, &mut testbed, &plan, &mut steps)?;
    let answered = outcome.trace.iter().filter(|event| event.is_answered).count();
    let share = answered as f64 / outcome.trace.len().max(1) as f64;
    measurement.values.insert(Metric::Availability, 100.0 * share);
    let settle = work.settle.as_nanos() as u64;
    let phases = PersistencePhases {
        before: outcome.started_ns..gone.get(),
        without: gone.get() + settle..back.get(),
        again: back.get() + settle..u64::MAX,
    };
    let journals = testbed.journals()?;
    measurement.note_shares(&journals);
    measurement.values.extend(figures(work.clients, &journals, &phases));
    Ok(measurement)
}

/// The servers that each client came to in `phase`.
fn homes(journals: &[Vec<JournalEntry>], phase: &Range<u64>) -> BTreeMap<usize, BTreeSet<usize>> {
    let mut homes: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (server, journal) in journals.iter().enumerate() {
        for client in
            journal.iter().filter(|visit| phase.contains(&visit.got)).filter_map(JournalEntry::client)
        {
            homes.entry(client).or_default().insert(server);
        }
    }
    homes
}

/// The figures of a run; the last of the servers was the one removed.
fn figures(
    clients: usize,
    journals: &[Vec<JournalEntry>],
    phases: &PersistencePhases,
) -> BTreeMap<Metric, f64> {
    let [before, without, again] =
        [&phases.before, &phases.without, &phases.again].map(|phase| homes(journals, phase));
    let removed = journals.len().saturating_sub(1);
    let (mut kept, mut others, mut moved, mut needless) = (0_u32, 0_u32, 0_u32, 0_u32);
    for client in 0..clients {
        let Some(home) = before.get(&client) else { continue };
        kept += u32::from(home.len() == 1);
        if !home.contains(&removed) {
            others += 1;
            moved += u32::from(without.get(&client).is_some_and(|now| now != home));
        }
        needless +=
            u32::from(again.get(&client).is_some_and(|now| now != home && Some(now) != without.get(&client)));
    }
    let percent = |number: u32, of: f64| 100.0 * f64::from(number) / of.max(1.0);
    BTreeMap::from([
        (Metric::Kept, percent(kept, clients as f64)),
        (Metric::MovedOnRemoval, percent(moved, f64::from(others))),
        (Metric::MovedOnReturn, percent(needless, clients as f64)),
    ])
}

#[cfg(test)]
mod tests {
    use super::{JournalEntry, PersistencePhases, figures};
    use crate::measure::metric::Metric;

    const PHASES: PersistencePhases =
        PersistencePhases { before: 0..100, without: 110..200, again: 210..300 };

    /// Journals of three servers, when each of ten clients comes to the one that `server` says, by time.
    fn journals(server: impl Fn(usize, u64) -> usize) -> Vec<Vec<JournalEntry>> {
        let mut journals = vec![Vec::new(); 3];
        for got in (0..300).step_by(10) {
            for client in 0..10 {
                let target = format!("/delay/0/client/{client}");
                journals[server(client, got)].push(JournalEntry { got, began: None, done: None, target });
            }
        }
        journals
    }

    fn found(server: impl Fn(usize, u64) -> usize) -> [f64; 3] {
        let figures = figures(10, &journals(server), &PHASES);
        [Metric::Kept, Metric::MovedOnRemoval, Metric::MovedOnReturn].map(|metric| figures[&metric])
    }

    #[test]
    fn only_the_clients_of_the_server_that_went_should_move() {
        // Clients 2, 5 and 8 belong to the last server; they go to the first one and return.
        let ideal = |client, at| {
            if client % 3 == 2 && (100..200).contains(&at) { 0 } else { client % 3 }
        };
        assert_eq!(found(ideal), [100.0, 0.0, 0.0]);
        // They may as well stay where they are.
        let loyal = |client, at| if client % 3 == 2 && at >= 100 { 0 } else { client % 3 };
        assert_eq!(found(loyal), [100.0, 0.0, 0.0]);
        // While the target has not noticed, nothing counts.
        let unsettled = |client, at| if (100..110).contains(&at) { 1 } else { ideal(client, at) };
        assert_eq!(found(unsettled), [100.0, 0.0, 0.0]);
    }

    #[test]
    fn clients_that_move_without_need_are_counted() {
        // By remainder: with one server less, all clients are distributed anew.
        let modulo = |client, at| if (100..200).contains(&at) { client % 2 } else { client % 3 };
        let [kept, moved, back] = found(modulo);
        assert_eq!((kept, back), (100.0, 0.0));
        // Of clients 0 1 3 4 6 7 9, all but 0, 1, 6 and 7 change.
        assert!((moved - 300.0 / 7.0).abs() < 0.01, "{moved}");
        // One client that was another server's goes to the returned one.
        let greedy = |client, at| if client == 0 && at >= 200 { 2 } else { client % 3 };
        assert_eq!(found(greedy)[2], 10.0);
        // Round robin: no client has a server of its own.
        let in_turn = |client, at: u64| (client + at as usize / 10) % 3;
        assert_eq!(found(in_turn)[0], 0.0);
    }
}
