//! The everyday load with a given number of clients: one rung of a ladder.
//!
//! Failed requests are a figure here: how many clients a target can take is the question. Numbers for which a process has too
//! few descriptors give way to the most that fit, and the run says so.

use super::{steady, window};
use crate::load::LoadPlan;
use crate::measure::memory;
use crate::measure::metric::Metric;
use crate::origin::PAGE_LEN;
use crate::placement;
use crate::results::measurement::Measurement;
use crate::run::bench::Bench;
use crate::run::window_mark::{note_cost, note_limit};
use crate::scenario::{Rounds, Scenario, SteadyWork};
use crate::target::ConnectionRoom;
use crate::topology::target::LabTarget;

/// Descriptors that a target needs for other things: the reserve of nginx, files, listeners.
const RESERVE: u64 = 1200;

/// Measures `target` once, with this many clients.
pub(super) fn measure(
    bench: &Bench<'_>,
    clients: usize,
    rounds: &Rounds,
    target: LabTarget,
) -> anyhow::Result<Measurement> {
    // In a closed loop, all of them may have a request at the server at once.
    let room = ConnectionRoom { clients: clients as u64, servers: clients as u64 };
    let mut testbed = bench.set_up_with(target, room)?;
    let plan = steady::plan(&testbed, &SteadyWork::of(clients), rounds, None);
    let plan = LoadPlan { faults_max: u64::MAX, ..plan };
    let driven = window::drive(bench, &mut testbed, &plan, &mut [])?;
    testbed.is_alive()?;
    let mut measurement = Measurement::default();
    note_cost(&mut measurement, &driven.before, &driven.after);
    if bench.placement.is_some() {
        note_limit(&mut measurement, &driven.before, &driven.after, None);
    }
    let outcome = driven.outcome;
    let per_second = outcome.exchanges as f64 / outcome.window.as_secs_f64();
    let failed = outcome.faults.total;
    let values = &mut measurement.values;
    values.insert(Metric::RequestsPerSecond, per_second);
    values.insert(Metric::BytesPerSecond, per_second * PAGE_LEN as f64);
    values.insert(Metric::Availability, availability(outcome.exchanges, failed));
    if let Some(child) = &testbed.target {
        values.insert(Metric::Rss, memory::of_tree(child.pid()).rss as f64);
    }
    measurement.note_latency(&outcome.latency);
    measurement.note_failed(outcome.faults);
    measurement.seconds = outcome.seconds;
    Ok(measurement)
}

/// Correct answers of all that were asked for, percent; none at all is none.
pub(super) fn availability(answered: u64, failed: u64) -> f64 {
    100.0 * answered as f64 / (answered + failed).max(1) as f64
}

/// Whether a target that did so is spared the larger numbers of clients.
pub(super) fn is_over(scenario: &Scenario, measurement: &Measurement) -> bool {
    let Some(max) = scenario.ladder.as_ref().and_then(|ladder| ladder.errors_max) else { return false };
    measurement.failure.is_some()
        || measurement.values.get(&Metric::Availability).is_some_and(|available| *available < 100.0 - max)
}

/// Puts the most that fit in the place of numbers of clients for which there are not enough descriptors; says so.
pub(crate) fn fit(scenario: &mut Scenario) -> Option<String> {
    fit_to(scenario, placement::descriptor_limit())
}

fn fit_to(scenario: &mut Scenario, descriptors: u64) -> Option<String> {
    let tunnels = scenario.idle.as_mut().filter(|idle| idle.tunnels.is_some());
    let clients = match (&mut scenario.ladder, tunnels) {
        (Some(ladder), _) => &mut ladder.clients,
        (None, Some(idle)) => &mut idle.clients,
        (None, None) => return None,
    };
    let wanted = clients.last().copied()?;
    let most = clients_max(descriptors);
    if wanted <= most {
        return None;
    }
    clients.retain(|clients| *clients < most);
    clients.push(most);
    Some(format!(
        "{wanted} clients were asked for. A process here may have {descriptors} descriptors, and each client takes two of a target's: \
         the largest number is {most}."
    ))
}

/// Clients, each with a server connection, that fit into this many descriptors of a target: whole hundreds, where there are any.
fn clients_max(descriptors: u64) -> usize {
    // nginx closes idle clients when fewer than a sixteenth of its connections are free, hence a fifteenth more.
    let most = (descriptors.saturating_sub(RESERVE) * 15 / 32).max(1);
    (if most >= 100 { most / 100 * 100 } else { most }) as usize
}

#[cfg(test)]
mod tests {
    use super::{availability, clients_max, fit_to, is_over};
    use crate::measure::metric::Metric;
    use crate::results::measurement::Measurement;
    use crate::scenario::catalogue;

    #[test]
    fn a_number_that_does_not_fit_is_replaced_by_the_largest_that_does() {
        assert_eq!((clients_max(20_000), clients_max(1_000_000), clients_max(1024)), (8800, 468_100, 1));
        let mut scenario = catalogue::find("ladder").unwrap();
        assert_eq!(fit_to(&mut scenario, 1_000_000), None);
        assert_eq!(scenario.ladder.as_ref().unwrap().clients.last(), Some(&10_000));
        let said = fit_to(&mut scenario, 20_000).unwrap();
        assert!(
            said.contains("10000 clients") && said.contains("20000 desc") && said.contains("8800"),
            "{said}"
        );
        assert_eq!(scenario.ladder.unwrap().clients, [100, 500, 1000, 2000, 5000, 8800]);
        let mut scenario = catalogue::find("websocket-capacity").unwrap();
        assert!(fit_to(&mut scenario, 20_000).is_some());
        assert_eq!(scenario.idle.unwrap().clients.last(), Some(&8800));
        assert_eq!(fit_to(&mut catalogue::find("l7-short").unwrap(), 1), None);
    }

    #[test]
    fn a_tenth_of_errors_is_the_end_of_doubling_and_of_nothing_else() {
        let [doubling, ladder] = ["stress-doubling", "ladder"].map(|name| catalogue::find(name).unwrap());
        for (answered, failed, over) in [(900, 100, false), (899, 101, true), (0, 0, true), (0, 9, true)] {
            let mut measurement = Measurement::default();
            measurement.values.insert(Metric::Availability, availability(answered, failed));
            assert_eq!(is_over(&doubling, &measurement), over, "{answered} {failed}");
            assert!(!is_over(&ladder, &measurement));
        }
        let died = Measurement { failure: Some("it died".to_owned()), ..Measurement::default() };
        assert!(is_over(&doubling, &died));
    }
}
