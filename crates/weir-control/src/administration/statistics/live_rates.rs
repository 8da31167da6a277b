//! Live rates: rates and quantiles of the last seconds, from the counters, which are sampled once a second.
//!
//! Costs nothing without an admin listener: only then the counters are sampled. Parts that no worker has used yet are skipped,
//! and parts without traffic cost one read of their counters. Kept by name, so a reload does not lose the history of
//! unchanged parts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_observe::overview::{EventRate, EventRates, HistorySample, Quantiles, RateHistory};
use weir_observe::{HistogramSnapshot, ListenerShard, PerWorker, ServerShard, UpstreamShard, WorkerShard};

use super::collection::shown_servers;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::snapshot::Snapshot;

/// How often figures are taken.
pub(crate) const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);

/// How many samples a window of response times contains; the quantiles that are shown cover one to two of them.
const WINDOW_SAMPLES: u32 = 5;

/// The rates of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct LiveRates(Mutex<RateTable>);

#[derive(Debug, Default)]
struct RateTable {
    last: Option<Instant>,
    workers: Vec<(EventRate, u64)>,
    listeners: HashMap<Box<str>, TrackedPart>,
    /// The upstreams that were used.
    upstreams: HashMap<Box<str>, TrackedUpstream>,
}

/// A part, and its counters at the last sample.
#[derive(Debug, Default)]
struct TrackedPart {
    counts: PartCounts,
    recent: RecentRates,
}

/// An upstream, and those of its servers that were used.
#[derive(Debug, Default)]
struct TrackedUpstream {
    whole: TrackedPart,
    servers: HashMap<Box<str>, TrackedServer>,
}

/// A server, and its response times up to the last beat.
#[derive(Debug, Default)]
struct TrackedServer {
    whole: TrackedPart,
    times: HistogramSnapshot,
}

/// The last seconds of a listener, an upstream or a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct RecentRates {
    pub(crate) rates: EventRates,
    pub(crate) history: RateHistory,
    times: TimeWindows,
    /// Beats without anything.
    idle_samples: usize,
}

/// Response times of the last seconds, in two windows: memory does not grow with time.
#[derive(Debug, Clone, Default)]
struct TimeWindows {
    whole: Option<HistogramSnapshot>,
    begun: HistogramSnapshot,
    table: u32,
}

impl TimeWindows {
    fn note(&mut self, times: &HistogramSnapshot) {
        if self.table == WINDOW_SAMPLES {
            self.whole = Some(std::mem::take(&mut self.begun));
            self.table = 0;
        }
        self.begun.merge(times);
        self.table += 1;
    }

    fn quantiles(&self) -> Quantiles {
        let mut sum = self.begun.clone();
        self.whole.iter().for_each(|whole| sum.merge(whole));
        Quantiles::new(&sum)
    }
}

impl RecentRates {
    /// The response times of the last seconds.
    pub(crate) fn response_time(&self) -> Quantiles {
        self.times.quantiles()
    }

    fn note(&mut self, counts: PartCounts, seconds: f64) {
        let rates = &mut self.rates;
        rates.connections.note(counts.connections, seconds);
        rates.requests.note(counts.requests, seconds);
        rates.failures.note(counts.failures, seconds);
        rates.bytes_in.note(counts.bytes_in, seconds);
        rates.bytes_out.note(counts.bytes_out, seconds);
    }

    /// Whether nothing has happened for as long as is remembered, so that there is nothing to note; forgets all but the peaks then.
    fn is_at_rest(&mut self, counts: PartCounts) -> bool {
        self.idle_samples = if counts.is_nothing() { self.idle_samples + 1 } else { 0 };
        let is_at_rest = self.idle_samples > RateHistory::SECONDS;
        if is_at_rest {
            self.history.clear();
            self.times = TimeWindows::default();
        }
        is_at_rest
    }

    fn push(&mut self, at_ms: u64, times: Option<&HistogramSnapshot>) {
        let (requests, failures) = (self.rates.requests.now as f32, self.rates.failures.now as f32);
        let moment = HistorySample { at_ms, requests, failures, ..HistorySample::default() };
        self.history.push(times.map_or(moment.clone(), |times| moment.with_times(times)));
    }
}

/// The counters of a part.
#[derive(Debug, Clone, Copy, Default)]
struct PartCounts {
    connections: u64,
    requests: u64,
    /// Of servers only: with each comes a response time.
    responses: u64,
    failures: u64,
    bytes_in: u64,
    bytes_out: u64,
}

impl PartCounts {
    fn of_listener<'a>(shards: impl Iterator<Item = &'a Arc<ListenerShard>>) -> Self {
        shards.fold(Self::default(), |sum, shard| Self {
            connections: sum.connections + shard.connections.value(),
            requests: sum.requests + shard.requests.value(),
            failures: sum.failures + shard.failures.total(),
            bytes_in: sum.bytes_in + shard.bytes_in.value(),
            bytes_out: sum.bytes_out + shard.bytes_out.value(),
            ..sum
        })
    }

    fn of_server(shards: &PerWorker<ServerShard>) -> Self {
        shards.used().fold(Self::default(), |sum, shard| Self {
            connections: sum.connections + shard.connects.value(),
            requests: sum.requests + shard.attempts.value(),
            responses: sum.responses + shard.responses.values().iter().sum::<u64>(),
            failures: sum.failures + shard.failures.values().iter().sum::<u64>(),
            bytes_in: sum.bytes_in + shard.bytes_in.value(),
            bytes_out: sum.bytes_out + shard.bytes_out.value(),
        })
    }

    /// Without the counters of its servers.
    fn of_upstream(shards: &PerWorker<UpstreamShard>) -> Self {
        shards.used().fold(Self::default(), |sum, shard| Self {
            requests: sum.requests + shard.requests.value(),
            failures: sum.failures + shard.failures.total(),
            ..sum
        })
    }

    fn is_nothing(self) -> bool {
        let Self { connections, requests, responses, failures, bytes_in, bytes_out } = self;
        connections | requests | responses | failures | bytes_in | bytes_out == 0
    }

    fn since(self, before: Self) -> Self {
        Self {
            connections: self.connections.saturating_sub(before.connections),
            requests: self.requests.saturating_sub(before.requests),
            responses: self.responses.saturating_sub(before.responses),
            failures: self.failures.saturating_sub(before.failures),
            bytes_in: self.bytes_in.saturating_sub(before.bytes_in),
            bytes_out: self.bytes_out.saturating_sub(before.bytes_out),
        }
    }
}

/// A used upstream at a beat.
struct UsedUpstream<'a> {
    name: &'a str,
    shards: &'a PerWorker<UpstreamShard>,
    /// The servers that were used.
    servers: Vec<(&'a str, &'a PerWorker<ServerShard>)>,
}

impl<'a> UsedUpstream<'a> {
    fn all(snapshot: &'a Snapshot) -> impl Iterator<Item = Self> {
        snapshot.upstreams.iter().filter(|plan| plan.shards.is_used()).map(|plan| {
            let server = |place: usize| (&*plan.config.servers[place].name, &plan.server_shards[place]);
            let servers = shown_servers(plan).into_iter().map(server);
            Self {
                name: &plan.config.name,
                shards: &plan.shards,
                servers: servers.filter(|(_, shards)| shards.is_used()).collect(),
            }
        })
    }
}

impl TrackedPart {
    /// The increase since the last sample.
    fn follow(&mut self, counts: PartCounts) -> PartCounts {
        let before = std::mem::replace(&mut self.counts, counts);
        counts.since(before)
    }
}

impl TrackedServer {
    /// Takes a sample; returns the increase since the last one. The response times go to `all`, too.
    fn follow(
        &mut self,
        shards: &PerWorker<ServerShard>,
        seconds: f64,
        all: &mut HistogramSnapshot,
    ) -> PartCounts {
        let counts = self.whole.follow(PartCounts::of_server(shards));
        let recent = &mut self.whole.recent;
        if recent.is_at_rest(counts) {
            return counts;
        }
        recent.note(counts, seconds);
        let mut since = HistogramSnapshot::new();
        if !counts.is_nothing() {
            let mut times = HistogramSnapshot::new();
            shards.used().for_each(|shard| times.add(&shard.response_time));
            since = times.since(&self.times);
            self.times = times;
        }
        all.merge(&since);
        recent.times.note(&since);
        counts
    }
}

impl TrackedUpstream {
    /// Takes note of a beat. Servers that are not there any more are forgotten.
    fn follow(&mut self, now: &UsedUpstream<'_>, seconds: f64, at_ms: u64) {
        let mut counts = self.whole.follow(PartCounts::of_upstream(now.shards));
        let mut times = HistogramSnapshot::new();
        let mut before = std::mem::take(&mut self.servers);
        for &(name, shards) in &now.servers {
            let known = before.remove_entry(name);
            let (name, mut server) = known.unwrap_or_else(|| (name.into(), TrackedServer::default()));
            let of_server = server.follow(shards, seconds, &mut times);
            counts.connections += of_server.connections;
            counts.bytes_in += of_server.bytes_in;
            counts.bytes_out += of_server.bytes_out;
            self.servers.insert(name, server);
        }
        let recent = &mut self.whole.recent;
        if recent.is_at_rest(counts) && times.count() == 0 {
            return;
        }
        recent.note(counts, seconds);
        recent.push(at_ms, Some(&times));
        recent.times.note(&times);
    }
}

impl LiveRates {
    /// Notes the counters up to now.
    pub(crate) fn sample(&self, snapshot: &Snapshot, shards: &[Arc<WorkerShard>]) {
        let now = clock::now();
        let at_ms = u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX);
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Events before the first sample belong to the first second.
        let since = table.last.replace(now).map(|last| now.saturating_duration_since(last));
        let seconds = since.unwrap_or(SAMPLE_INTERVAL).as_secs_f64();
        table.follow_workers(shards, seconds);
        table.follow_listeners(snapshot, seconds, at_ms);
        table.follow_upstreams(UsedUpstream::all(snapshot), seconds, at_ms);
    }

    /// The last seconds of a worker.
    pub(crate) fn worker(&self, index: usize) -> EventRate {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.workers.get(index).map(|(rate, _)| *rate).unwrap_or_default()
    }

    /// The last seconds of a listener.
    pub(crate) fn listener(&self, name: &str) -> RecentRates {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.listeners.get(name).map(|tracked| tracked.recent.clone()).unwrap_or_default()
    }

    /// The last seconds of an upstream.
    pub(crate) fn upstream(&self, name: &str) -> RecentRates {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.upstreams.get(name).map(|tracked| tracked.whole.recent.clone()).unwrap_or_default()
    }

    /// The rates of a server in the last seconds.
    pub(crate) fn server(&self, upstream: &str, server: &str) -> (EventRates, Quantiles) {
        let table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let server = table.upstreams.get(upstream).and_then(|tracked| tracked.servers.get(server));
        let recent = server.map(|server| &server.whole.recent);
        recent.map(|recent| (recent.rates, recent.response_time())).unwrap_or_default()
    }
}

impl RateTable {
    fn follow_workers(&mut self, shards: &[Arc<WorkerShard>], seconds: f64) {
        self.workers.resize(shards.len(), Default::default());
        for ((rate, before), shard) in self.workers.iter_mut().zip(shards) {
            let exchanges = shard.exchanges.value();
            rate.note(exchanges.saturating_sub(*before), seconds);
            *before = exchanges;
        }
    }

    fn follow_listeners(&mut self, snapshot: &Snapshot, seconds: f64, at_ms: u64) {
        let mut before = std::mem::take(&mut self.listeners);
        for plan in &snapshot.listeners {
            let mut tracked = before.remove(&plan.config.name).unwrap_or_default();
            let counts = tracked.follow(PartCounts::of_listener(plan.state.shards.iter()));
            tracked.recent.note(counts, seconds);
            tracked.recent.push(at_ms, None);
            self.listeners.insert(plan.config.name.clone(), tracked);
        }
    }

    fn follow_upstreams<'a>(
        &mut self,
        used: impl Iterator<Item = UsedUpstream<'a>>,
        seconds: f64,
        at_ms: u64,
    ) {
        // The rest of the old map belongs to upstreams that are gone.
        let mut before = std::mem::take(&mut self.upstreams);
        for now in used {
            let known = before.remove_entry(now.name);
            let (name, mut tracked) = known.unwrap_or_else(|| (now.name.into(), Default::default()));
            tracked.follow(&now, seconds, at_ms);
            self.upstreams.insert(name, tracked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_last_seconds_only() {
        let recorded = |micros: u64, times: u64| {
            let histogram = weir_observe::Histogram::new();
            (0..times).for_each(|_| histogram.record(micros));
            histogram.snapshot()
        };
        let mut windows = TimeWindows::default();
        windows.note(&recorded(5, 1_000));
        assert_eq!(windows.quantiles().p50_us, Some(5));
        (1..2 * WINDOW_SAMPLES).for_each(|_| windows.note(&recorded(7, 1)));
        assert_eq!(windows.quantiles().p50_us, Some(5), "the first window is still whole");
        windows.note(&recorded(7, 1));
        assert_eq!(
            (windows.quantiles().p50_us, windows.quantiles().count),
            (Some(7), u64::from(WINDOW_SAMPLES) + 1)
        );
    }

    /// A sample at which the servers of an upstream, which has one worker, have had this many attempts.
    fn sample(table: &mut RateTable, shards: &PerWorker<UpstreamShard>, servers: &[(&str, u64)]) {
        let parts: Vec<_> = servers
            .iter()
            .map(|&(name, attempts)| {
                let shards = PerWorker::<ServerShard>::new(1);
                shards.of(0).attempts.add(attempts);
                shards.of(0).bytes_in.add(attempts * 100);
                (name, shards)
            })
            .collect();
        let servers = parts.iter().map(|(name, shards)| (*name, shards)).collect();
        table.follow_upstreams([UsedUpstream { name: "app", shards, servers }].into_iter(), 1.0, 0);
    }

    #[test]
    fn a_server_is_known_again_by_its_name() {
        let (mut table, shards) = (RateTable::default(), PerWorker::new(1));
        sample(&mut table, &shards, &[("a", 10), ("b", 20)]);
        sample(&mut table, &shards, &[("b", 25), ("c", 3)]);
        let app = &table.upstreams["app"];
        let rate = |name: &str| app.servers.get(name).map(|server| server.whole.recent.rates.requests.now);
        assert_eq!((rate("a"), rate("b"), rate("c")), (None, Some(5.0), Some(3.0)));
        assert_eq!(app.whole.recent.rates.bytes_in.now, 800.0, "what `a` had is not taken from it");
    }

    #[test]
    fn parts_without_traffic_are_forgotten_except_their_peaks() {
        let (mut table, shards) = (RateTable::default(), PerWorker::<UpstreamShard>::new(1));
        shards.of(0).requests.add(9);
        sample(&mut table, &shards, &[("a", 9)]);
        for _ in 0..RateHistory::SECONDS {
            sample(&mut table, &shards, &[("a", 9)]);
        }
        assert_eq!(table.upstreams["app"].whole.recent.history.iter().len(), RateHistory::SECONDS);
        sample(&mut table, &shards, &[("a", 9)]);
        let app = &table.upstreams["app"].whole.recent;
        assert_eq!((app.history.iter().len(), app.rates.requests), (0, EventRate { now: 0.0, peak: 9.0 }));
        shards.of(0).requests.add(1);
        sample(&mut table, &shards, &[("a", 10)]);
        assert_eq!(table.upstreams["app"].whole.recent.history.iter().len(), 1);
    }
}
