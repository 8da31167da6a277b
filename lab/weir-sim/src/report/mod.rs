//! The results of a simulation: the same figures as a table for people and as data for programs, and plots.
//!
//! Everything is made from a [`Report`], which contains only values that follow from the seed: no date, no machine, no duration.

pub(super) mod files;
pub(super) mod plot;
pub(super) mod text;

use serde::Serialize;

use crate::failure::SimFailure;
use crate::model::{MILLISECOND, Model, SECOND};
use crate::tally::{RequestGroup, RequestTally, STRETCHES, TimeHistogram, TimeStretch};

/// The figures of one simulation.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) name: String,
    pub(super) question: String,
    pub(super) seed: u64,
    pub(super) length_s: f64,
    pub(super) warm_up_s: f64,
    pub(super) balancers: u32,
    pub(super) servers: usize,
    pub(super) variants: Vec<VariantFigures>,
}

/// The figures of one variant.
#[derive(Debug, Serialize)]
pub(super) struct VariantFigures {
    pub(super) name: String,
    pub(super) balance: &'static str,
    /// All requests.
    pub(super) total: RequestFigures,
    /// The requests of each class, the slow ones apart.
    pub(super) groups: Vec<GroupFigures>,
    pub(super) servers: WorkSpread,
    pub(super) fleet: FleetFigures,
    /// Requests whose work began after that of a later one of their class at the same balancer.
    pub(super) overtaken: u64,
    /// The most requests that one balancer had on one server at once.
    pub(super) in_flight_most: u32,
    /// Changes of health that the first balancer saw.
    pub(super) verdicts: Vec<VerdictFigures>,
    /// Share of answered requests that took longer than this many milliseconds.
    pub(super) slower_than: Vec<(f64, f64)>,
    pub(super) over_time: Vec<StretchFigures>,
}

/// Requests that are alike.
#[derive(Debug, Serialize)]
pub(super) struct GroupFigures {
    pub(super) clients: String,
    #[serde(flatten)]
    pub(super) figures: RequestFigures,
}

/// Counts and times of some requests.
#[derive(Debug, Serialize)]
pub(super) struct RequestFigures {
    pub(super) begun: u64,
    pub(super) answered: u64,
    pub(super) failed: u64,
    pub(super) failures: Vec<(&'static str, u64)>,
    pub(super) retries: u64,
    pub(super) per_second: f64,
    pub(super) in_time_per_second: f64,
    pub(super) response_ms: TimeFigures,
    /// In the queue of the balancer.
    pub(super) wait_ms: TimeFigures,
    /// In the line of the server.
    pub(super) line_ms: TimeFigures,
}

/// A distribution of times in milliseconds. Mean and maximum are exact, quantiles to a thousandth.
#[derive(Debug, Serialize)]
pub(super) struct TimeFigures {
    pub(super) mean: f64,
    pub(super) p50: f64,
    pub(super) p95: f64,
    pub(super) p99: f64,
    pub(super) max: f64,
}

/// How work was spread over the servers.
#[derive(Debug, Serialize)]
pub(super) struct WorkSpread {
    /// Mean number of requests that a server worked on.
    pub(super) working_mean: f64,
    pub(super) requests_min: u64,
    pub(super) requests_mean: f64,
    pub(super) requests_max: u64,
    /// The most requests that a server had at once.
    pub(super) most_at_once: usize,
}

/// What all balancers together do to the servers.
#[derive(Debug, Serialize)]
pub(super) struct FleetFigures {
    /// Attempts for each request: 1 without retries.
    pub(super) attempts_per_request: f64,
    /// The same in the worst hundredth of the length.
    pub(super) attempts_per_request_max: f64,
    /// Share of the attempts that found no idle connection.
    pub(super) connections_new_share: f64,
    pub(super) connections_new_per_second: f64,
    /// Pairs of a balancer and a server that are connected at the end.
    pub(super) connections_open: u64,
    /// The most balancers that are connected to one server at the end.
    pub(super) connections_per_server_max: u32,
    /// Ejections, those after a failed trial left out.
    pub(super) ejections: u64,
    /// Those of them that took servers to which nothing had happened.
    pub(super) ejections_wrong: u64,
    pub(super) trials_failed: u64,
    pub(super) probes_per_second: f64,
}

/// A change of health.
#[derive(Debug, Serialize)]
pub(super) struct VerdictFigures {
    pub(super) at_s: f64,
    pub(super) server: u32,
    pub(super) up: bool,
}

/// One hundredth of the length.
#[derive(Debug, Serialize)]
pub(super) struct StretchFigures {
    pub(super) from_s: f64,
    pub(super) answered_per_second: f64,
    pub(super) in_time_per_second: f64,
    pub(super) failed_per_second: f64,
    pub(super) p50_ms: Option<f64>,
    pub(super) p99_ms: Option<f64>,
    pub(super) attempts_per_request: Option<f64>,
    /// The most requests that one server had at once, in its slots and in its line.
    pub(super) server_load_max: usize,
    /// What 99 of 100 servers had at most when the stretch ended.
    pub(super) server_load_p99: usize,
}

impl Report {
    pub(super) fn new(name: &str, model: &Model, seed: u64, tallies: &[RequestTally]) -> Self {
        let variants = model.variants.iter().zip(tallies);
        let variants = variants.map(|(variant, tally)| VariantFigures {
            name: variant.name.clone(),
            balance: variant.upstream.balance.name(),
            total: RequestFigures::new(&tally.total(), tally.seconds()),
            groups: groups(model, tally),
            servers: WorkSpread::new(tally),
            fleet: FleetFigures::new(tally),
            overtaken: tally.overtaken,
            in_flight_most: tally.in_flight_most,
            verdicts: verdicts(tally),
            slower_than: slower_than(&tally.total().response),
            over_time: over_time(tally),
        });
        Self {
            name: name.to_owned(),
            question: model.question.clone(),
            seed,
            length_s: seconds(model.length),
            warm_up_s: seconds(model.warm_up),
            balancers: model.balancers,
            servers: model.servers_count(),
            variants: variants.collect(),
        }
    }
}

impl RequestFigures {
    fn new(group: &RequestGroup, seconds: f64) -> Self {
        let failures = SimFailure::ALL.map(|failure| (failure.code(), group.failures[failure as usize]));
        Self {
            begun: group.begun,
            answered: group.answered,
            failed: group.failures.iter().sum(),
            failures: failures.into_iter().filter(|(_, count)| *count > 0).collect(),
            retries: group.retries,
            per_second: group.ended as f64 / seconds,
            in_time_per_second: group.ended_in_time as f64 / seconds,
            response_ms: TimeFigures::new(&group.response),
            wait_ms: TimeFigures::new(&group.wait),
            line_ms: TimeFigures::new(&group.line),
        }
    }
}

impl TimeFigures {
    fn new(times: &TimeHistogram) -> Self {
        let max = millis(times.max);
        let quantile = |quantile: f64| match times.histogram.len() {
            0 => 0.0,
            // A bin of the histogram may reach beyond the largest time.
            _ => (times.histogram.value_at_quantile(quantile) as f64 / 1000.0).min(max),
        };
        Self {
            mean: times.mean() / MILLISECOND as f64,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
            max,
        }
    }
}

impl WorkSpread {
    fn new(tally: &RequestTally) -> Self {
        let count = tally.servers.len() as f64;
        let busy: u128 = tally.servers.iter().map(|server| server.busy).sum();
        let requests = || tally.servers.iter().map(|server| server.requests);
        Self {
            working_mean: busy as f64 / SECOND as f64 / tally.seconds() / count,
            requests_min: requests().min().unwrap_or(0),
            requests_mean: requests().sum::<u64>() as f64 / count,
            requests_max: requests().max().unwrap_or(0),
            most_at_once: tally.servers.iter().map(|server| server.most).max().unwrap_or(0),
        }
    }
}

impl FleetFigures {
    fn new(tally: &RequestTally) -> Self {
        let (fleet, seconds) = (tally.fleet, tally.seconds());
        let begun = tally.total().begun.max(1) as f64;
        let of_stretches = tally.stretches.iter().filter_map(attempts_per_request);
        Self {
            attempts_per_request: fleet.attempts as f64 / begun,
            attempts_per_request_max: of_stretches.fold(0.0, f64::max),
            connections_new_share: fleet.connections_new as f64 / fleet.attempts.max(1) as f64,
            connections_new_per_second: fleet.connections_new as f64 / seconds,
            connections_open: fleet.connections_open,
            connections_per_server_max: fleet.connections_most,
            ejections: fleet.ejections,
            ejections_wrong: fleet.ejections_wrong,
            trials_failed: fleet.trials_failed,
            probes_per_second: fleet.probes as f64 / seconds,
        }
    }
}

/// `None` when no request began in it.
fn attempts_per_request(stretch: &TimeStretch) -> Option<f64> {
    (stretch.begun > 0).then(|| stretch.attempts as f64 / stretch.begun as f64)
}

fn groups(model: &Model, tally: &RequestTally) -> Vec<GroupFigures> {
    let names = model.clients.iter().flat_map(|class| [class.name.clone(), format!("{}, slow", class.name)]);
    let seconds = tally.seconds();
    let groups = names.zip(&tally.groups).filter(|(_, group)| group.begun > 0);
    groups
        .map(|(clients, group)| GroupFigures { clients, figures: RequestFigures::new(group, seconds) })
        .collect()
}

fn verdicts(tally: &RequestTally) -> Vec<VerdictFigures> {
    let verdicts = tally.verdicts.iter();
    verdicts.map(|&(at, server, up)| VerdictFigures { at_s: seconds(at), server, up }).collect()
}

/// Points of the distribution, each at least a fiftieth further on one axis than the one before.
fn slower_than(times: &TimeHistogram) -> Vec<(f64, f64)> {
    let total = times.histogram.len() as f64;
    let mut points: Vec<(f64, f64)> = Vec::new();
    let mut left = total;
    for value in times.histogram.iter_recorded() {
        let point = (value.value_iterated_to() as f64 / 1000.0, left / total);
        left -= value.count_at_value() as f64;
        let near = |(at, share): &(f64, f64)| point.0 < at * 1.02 && point.1 > share * 0.98;
        if points.last().is_none_or(|last| !near(last)) || left == 0.0 {
            points.push(point);
        }
    }
    points
}

fn over_time(tally: &RequestTally) -> Vec<StretchFigures> {
    let length = seconds(tally.window.1) / STRETCHES as f64;
    let stretches = tally.stretches.iter().enumerate();
    stretches
        .map(|(index, stretch)| {
            let quantile = |quantile: f64| {
                let any = !stretch.response.is_empty();
                any.then(|| stretch.response.value_at_quantile(quantile) as f64 / 1000.0)
            };
            StretchFigures {
                from_s: index as f64 * length,
                answered_per_second: stretch.answered as f64 / length,
                in_time_per_second: stretch.in_time as f64 / length,
                failed_per_second: stretch.failed as f64 / length,
                p50_ms: quantile(0.5),
                p99_ms: quantile(0.99),
                attempts_per_request: attempts_per_request(stretch),
                server_load_max: stretch.server_most,
                server_load_p99: stretch.server_p99,
            }
        })
        .collect()
}

fn seconds(time: u64) -> f64 {
    time as f64 / SECOND as f64
}

fn millis(time: u64) -> f64 {
    time as f64 / MILLISECOND as f64
}
