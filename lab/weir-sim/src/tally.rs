//! The figures of the requests of one variant: counts, distributions, and a sample of single requests.
//!
//! Only requests that begin after the warm-up count; rates are of requests that ended between warm-up and length. Memory does
//! not grow with the number of requests. Times are nanoseconds, in histograms microseconds.

use std::collections::{BinaryHeap, HashMap};

use hdrhistogram::Histogram;
use weir_stats::random::{Purpose, RandomStream};

use crate::failure::SimFailure;
use crate::model::{Model, SECOND};

/// Stretches that the length is divided into for figures over time.
pub(super) const STRETCHES: usize = 100;
/// Single requests that are kept of each variant: the same ones in all.
const SAMPLES: usize = 500;
/// Changes of the health of servers that are kept.
const VERDICTS_MAX: usize = 100;

/// All figures of the requests of one variant.
#[derive(Debug, Clone)]
pub(super) struct RequestTally {
    pub(super) window: (u64, u64),
    in_time: Vec<Option<u64>>,
    /// Two of each class: the usual requests and the slow ones.
    pub(super) groups: Vec<RequestGroup>,
    pub(super) stretches: Vec<TimeStretch>,
    pub(super) servers: Vec<ServerTally>,
    /// Requests whose work began after that of a later one of their class at the same balancer.
    pub(super) overtaken: u64,
    /// The latest arrival that has begun, by class and balancer.
    latest: HashMap<(u32, u32), u64>,
    /// The most requests that one balancer had on one server.
    pub(super) in_flight_most: u32,
    pub(super) fleet: FleetTally,
    samples: BinaryHeap<RequestSample>,
    /// Changes that the first balancer's probes have made: when, which server, whether it came up.
    pub(super) verdicts: Vec<(u64, u32, bool)>,
}

/// The work of a server in the measured time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ServerTally {
    /// Requests that it began.
    pub(crate) requests: u64,
    /// Slots times nanoseconds that it worked.
    pub(crate) busy: u128,
    /// The most requests that it had at once, in its line and in its slots.
    pub(crate) most: usize,
}

/// Requests that are alike.
#[derive(Debug, Clone)]
pub(super) struct RequestGroup {
    pub(super) begun: u64,
    pub(super) answered: u64,
    pub(super) failures: [u64; SimFailure::ALL.len()],
    pub(super) retries: u64,
    /// Answers that ended between warm-up and length, and those of them that came in time.
    pub(super) ended: u64,
    pub(super) ended_in_time: u64,
    pub(super) response: TimeHistogram,
    pub(super) wait: TimeHistogram,
    pub(super) line: TimeHistogram,
}

/// A distribution of times, with its exact sum and maximum.
#[derive(Debug, Clone)]
pub(super) struct TimeHistogram {
    pub(super) histogram: Histogram<u64>,
    pub(super) sum: u128,
    pub(super) max: u64,
}

/// A stretch of time.
#[derive(Debug, Clone)]
pub(super) struct TimeStretch {
    /// Response times, in microseconds, of the requests that began in it.
    pub(super) response: Histogram<u64>,
    /// The requests that ended in it.
    pub(super) answered: u64,
    pub(super) in_time: u64,
    pub(super) failed: u64,
    /// The requests that began in it, and the attempts.
    pub(super) begun: u64,
    pub(super) attempts: u64,
    /// The most requests that a server had at once in it, and what 99 of 100 servers had at most at its end.
    pub(super) server_most: usize,
    pub(super) server_p99: usize,
}

/// What balancers do to all servers together, in the measured time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FleetTally {
    pub(super) attempts: u64,
    /// Attempts without an idle connection.
    pub(super) connections_new: u64,
    /// Pairs of a balancer and a server with a connection, at the end.
    pub(super) connections_open: u64,
    /// The most balancers that are connected to one server, at the end.
    pub(super) connections_most: u32,
    /// Ejections of servers by balancers, those after a failed trial left out; and those of servers to which nothing was done.
    pub(super) ejections: u64,
    pub(super) ejections_wrong: u64,
    /// Trials that failed.
    pub(super) trials_failed: u64,
    pub(super) probes: u64,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestSample {
    /// By this number some are kept and others are not.
    lot: u64,
    pub(super) began: u64,
    pub(super) class: u32,
    pub(super) client: u32,
    pub(super) index: u64,
    pub(super) response: u64,
    pub(super) waited: u64,
    pub(super) in_line: u64,
    pub(super) attempts: u32,
    pub(super) server: Option<u32>,
    pub(super) failure: Option<SimFailure>,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestOutcome {
    Answered,
    Failed(SimFailure),
}

/// A request that has ended.
#[derive(Debug)]
pub(super) struct EndedRequest {
    pub(super) class: u32,
    pub(super) is_slow: bool,
    pub(super) client: u32,
    pub(super) index: u64,
    pub(super) began: u64,
    pub(super) ended: u64,
    /// In the queue of the balancer.
    pub(super) waited: u64,
    /// In the line of the server that answered.
    pub(super) in_line: u64,
    pub(super) attempts: u32,
    pub(super) server: Option<u32>,
    pub(super) outcome: RequestOutcome,
}

impl TimeHistogram {
    fn new() -> Self {
        // An hour of service after a queue and retries: a day holds it.
        let histogram = Histogram::new_with_bounds(1, 86_400_000_000, 3).expect("the bounds are in order");
        Self { histogram, sum: 0, max: 0 }
    }

    fn record(&mut self, time: u64) {
        self.histogram.saturating_record(time.div_ceil(1000).max(1));
        self.sum += u128::from(time);
        self.max = self.max.max(time);
    }

    fn add(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// The mean in nanoseconds; 0 of nothing.
    pub(super) fn mean(&self) -> f64 {
        self.sum as f64 / (self.histogram.len() as f64).max(1.0)
    }
}

impl RequestGroup {
    fn new() -> Self {
        Self {
            begun: 0,
            answered: 0,
            failures: [0; SimFailure::ALL.len()],
            retries: 0,
            ended: 0,
            ended_in_time: 0,
            response: TimeHistogram::new(),
            wait: TimeHistogram::new(),
            line: TimeHistogram::new(),
        }
    }

    /// Adds the requests of another group.
    pub(super) fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.answered += other.answered;
        self.retries += other.retries;
        self.ended += other.ended;
        self.ended_in_time += other.ended_in_time;
        for (count, more) in self.failures.iter_mut().zip(other.failures) {
            *count += more;
        }
        self.response.add(&other.response);
        self.wait.add(&other.wait);
        self.line.add(&other.line);
    }
}

impl RequestTally {
    pub(super) fn new(model: &Model) -> Self {
        let stretch = TimeStretch {
            response: Histogram::new_with_bounds(1, 86_400_000_000, 2).expect("the bounds are in order"),
            answered: 0,
            in_time: 0,
            failed: 0,
            begun: 0,
            attempts: 0,
            server_most: 0,
            server_p99: 0,
        };
        Self {
            window: (model.warm_up, model.length),
            in_time: model.clients.iter().map(|class| class.in_time).collect(),
            groups: vec![RequestGroup::new(); 2 * model.clients.len()],
            stretches: vec![stretch; STRETCHES],
            servers: Vec::with_capacity(model.servers_count()),
            overtaken: 0,
            latest: HashMap::new(),
            in_flight_most: 0,
            fleet: FleetTally::default(),
            samples: BinaryHeap::new(),
            verdicts: Vec::new(),
        }
    }

    pub(super) fn begins(&mut self, class: u32, is_slow: bool, now: u64) {
        if let Some(stretch) = self.stretch_at(now) {
            stretch.begun += 1;
        }
        if now >= self.window.0 {
            self.group(class, is_slow).begun += 1;
        }
    }

    pub(super) fn retried(&mut self, class: u32, is_slow: bool) {
        self.group(class, is_slow).retries += 1;
    }

    /// A server begins to work on a request for the first time; `order` is its place in the order of arrival.
    pub(super) fn work_begins(&mut self, class: u32, balancer: u32, order: u64) {
        let latest = self.latest.entry((class, balancer)).or_insert(order);
        if order < *latest {
            self.overtaken += 1;
        }
        *latest = order.max(*latest);
    }

    /// An attempt begins on a server, on a new connection or not.
    pub(super) fn attempts(&mut self, now: u64, is_new: bool) {
        if let Some(stretch) = self.stretch_at(now) {
            stretch.attempts += 1;
        }
        if self.is_measured(now) {
            self.fleet.attempts += 1;
            self.fleet.connections_new += u64::from(is_new);
        }
    }

    /// A server has this many requests.
    pub(super) fn server_has(&mut self, now: u64, load: usize) {
        if let Some(stretch) = self.stretch_at(now) {
            stretch.server_most = stretch.server_most.max(load);
        }
    }

    /// What 99 of 100 servers have at most at the end of a stretch.
    pub(super) fn loads(&mut self, stretch: usize, p99: usize) {
        self.stretches[stretch].server_p99 = p99;
    }

    /// The balancers that are connected to each server at the end.
    pub(super) fn connections(&mut self, of_server: &[u32]) {
        self.fleet.connections_open = of_server.iter().map(|count| u64::from(*count)).sum();
        self.fleet.connections_most = of_server.iter().copied().max().unwrap_or(0);
    }

    /// A balancer ejects a server, for the first time or after a trial, wrongly or not.
    pub(super) fn ejected(&mut self, now: u64, is_first: bool, is_wrong: bool) {
        if self.is_measured(now) {
            self.fleet.ejections += u64::from(is_first);
            self.fleet.ejections_wrong += u64::from(is_first && is_wrong);
            self.fleet.trials_failed += u64::from(!is_first);
        }
    }

    /// A balancer probes a server.
    pub(super) fn probed(&mut self, now: u64) {
        self.fleet.probes += u64::from(self.is_measured(now));
    }

    fn is_measured(&self, now: u64) -> bool {
        (self.window.0..self.window.1).contains(&now)
    }

    fn stretch_at(&mut self, now: u64) -> Option<&mut TimeStretch> {
        self.stretch_of(now).and_then(|at| self.stretches.get_mut(at))
    }

    pub(super) fn in_flight(&mut self, count: u32) {
        self.in_flight_most = self.in_flight_most.max(count);
    }

    pub(super) fn server(&mut self, index: usize, figures: ServerTally) {
        debug_assert_eq!(index, self.servers.len(), "servers are recorded in their order");
        self.servers.push(figures);
    }

    pub(super) fn verdict(&mut self, balancer: u32, server: u32, is_up: bool, now: u64) {
        if balancer == 0 && self.verdicts.len() < VERDICTS_MAX {
            self.verdicts.push((now, server, is_up));
        }
    }

    /// A request has ended.
    pub(super) fn ends(&mut self, ended: &EndedRequest) {
        let response = ended.ended - ended.began;
        let answered = ended.outcome == RequestOutcome::Answered;
        let in_time = answered && self.in_time[ended.class as usize].is_none_or(|limit| response <= limit);
        let (began_in, ended_in) = (self.stretch_of(ended.began), self.stretch_of(ended.ended));
        if let Some(stretch) = ended_in.and_then(|at| self.stretches.get_mut(at)) {
            stretch.answered += u64::from(answered);
            stretch.in_time += u64::from(in_time);
            stretch.failed += u64::from(!answered);
        }
        if let Some(stretch) = began_in.and_then(|at| self.stretches.get_mut(at)).filter(|_| answered) {
            stretch.response.saturating_record(response.div_ceil(1000).max(1));
        }
        let (from, until) = self.window;
        let group = self.group(ended.class, ended.is_slow);
        if answered && (from..until).contains(&ended.ended) {
            group.ended += 1;
            group.ended_in_time += u64::from(in_time);
        }
        if ended.began < from {
            return;
        }
        match ended.outcome {
            RequestOutcome::Answered => {
                group.answered += 1;
                group.response.record(response);
                group.wait.record(ended.waited);
                group.line.record(ended.in_line);
            }
            RequestOutcome::Failed(failure) => group.failures[failure as usize] += 1,
        }
        self.sample(ended, response);
    }

    /// The requests that were drawn, in the order in which they began.
    pub(super) fn samples(&self) -> Vec<RequestSample> {
        let mut samples: Vec<RequestSample> = self.samples.iter().copied().collect();
        samples.sort_by_key(|sample| (sample.began, sample.class, sample.client, sample.index));
        samples
    }

    /// All requests together.
    pub(super) fn total(&self) -> RequestGroup {
        let mut total = RequestGroup::new();
        for group in &self.groups {
            total.add(group);
        }
        total
    }

    /// The length of the measured time, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        (self.window.1 - self.window.0) as f64 / SECOND as f64
    }

    fn group(&mut self, class: u32, is_slow: bool) -> &mut RequestGroup {
        &mut self.groups[2 * class as usize + usize::from(is_slow)]
    }

    fn stretch_of(&self, at: u64) -> Option<usize> {
        let stretch = u128::from(at) * STRETCHES as u128 / u128::from(self.window.1);
        usize::try_from(stretch).ok()
    }

    /// Keeps a request if its lot is among the lowest, which does not depend on the variant.
    fn sample(&mut self, ended: &EndedRequest, response: u64) {
        let coordinates = [u64::from(ended.class) << 32 | u64::from(ended.client), ended.index];
        let lot = RandomStream::new(0, Purpose::Origin, coordinates).word();
        let failure = match ended.outcome {
            RequestOutcome::Answered => None,
            RequestOutcome::Failed(failure) => Some(failure),
        };
        if self.samples.len() == SAMPLES {
            match self.samples.peek() {
                Some(highest) if lot < highest.lot => _ = self.samples.pop(),
                _ => return,
            }
        }
        self.samples.push(RequestSample {
            lot,
            began: ended.began,
            class: ended.class,
            client: ended.client,
            index: ended.index,
            response,
            waited: ended.waited,
            in_line: ended.in_line,
            attempts: ended.attempts,
            server: ended.server,
            failure,
        });
    }
}
