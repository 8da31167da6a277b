//! The differences between two readings of the counters: the rows of the table.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_observe::{HistogramSnapshot, ServerStats, Stats};

/// The figures of one interval.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Interval {
    /// One row for each server, in the order of the config.
    pub(super) servers: Vec<TableRow>,
    pub(super) all: TableRow,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableRow {
    pub(super) name: String,
    pub(super) state: &'static str,
    /// Responses per second.
    pub(super) rate: f64,
    /// Part of all responses, 0 to 1.
    pub(super) share: f64,
    /// Time to the head of the response, in microseconds; `None` without a response.
    pub(super) p50: Option<u64>,
    pub(super) p99: Option<u64>,
    /// Failed attempts and responses of class 5xx since the start, not only in this stretch: one should not be missed.
    pub(super) errors: u64,
    /// Attempts that run at the end of the stretch.
    pub(super) in_flight: i64,
    /// Part of the attempts that found an idle connection, 0 to 1; `None` without an attempt.
    pub(super) reuse: Option<f64>,
}

/// Compares two readings of the first upstream that are `elapsed` apart; `before` may be empty.
pub(super) fn between(before: &Stats, after: &Stats, elapsed: Duration) -> Interval {
    let nothing = ServerStats::default();
    let earlier = before.upstreams.first().map_or(&[][..], |upstream| &upstream.servers);
    let later = after.upstreams.first().map_or(&[][..], |upstream| &upstream.servers);
    let changes: Vec<ServerDelta> = later
        .iter()
        .enumerate()
        .map(|(index, after)| ServerDelta::between(earlier.get(index).unwrap_or(&nothing), after))
        .collect();
    let mut all = ServerDelta::default();
    for change in &changes {
        all.add(change);
    }
    let row = |name: &str, change: &ServerDelta| change.row(name, all.responses(), elapsed);
    Interval {
        servers: later.iter().zip(&changes).map(|(server, change)| row(&server.name, change)).collect(),
        all: row("all", &all),
    }
}

/// The difference of two readings.
#[derive(Debug, Default)]
struct ServerDelta {
    attempts: u64,
    reuses: u64,
    failures: u64,
    errors_ever: u64,
    in_flight: i64,
    /// Response times: how many in the bucket with this middle.
    times: BTreeMap<u64, u64>,
}

impl ServerDelta {
    fn between(before: &ServerStats, after: &ServerStats) -> Self {
        let failures = |figures: &ServerStats| figures.failures.iter().sum::<u64>();
        let mut times = buckets(&after.response_time);
        for (middle, count) in buckets(&before.response_time) {
            if let Some(left) = times.get_mut(&middle) {
                *left = left.saturating_sub(count);
            }
        }
        Self {
            attempts: after.attempts.saturating_sub(before.attempts),
            reuses: after.reuses.saturating_sub(before.reuses),
            failures: failures(after).saturating_sub(failures(before)),
            errors_ever: failures(after) + after.responses[4],
            in_flight: after.attempts_open.now,
            times,
        }
    }

    fn add(&mut self, other: &Self) {
        self.attempts += other.attempts;
        self.reuses += other.reuses;
        self.failures += other.failures;
        self.errors_ever += other.errors_ever;
        self.in_flight += other.in_flight;
        for (middle, count) in &other.times {
            *self.times.entry(*middle).or_default() += count;
        }
    }

    fn responses(&self) -> u64 {
        self.times.values().sum()
    }

    /// The time that a share `q` of the responses did not exceed.
    fn quantile(&self, q: f64) -> Option<u64> {
        let rank = ((q * self.responses() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        self.times.iter().find_map(|(middle, count)| {
            seen += count;
            (seen >= rank).then_some(*middle)
        })
    }

    fn row(&self, name: &str, responses_of_all: u64, elapsed: Duration) -> TableRow {
        let part = |of: u64, whole: u64| (whole > 0).then(|| of as f64 / whole as f64);
        TableRow {
            name: name.to_owned(),
            state: match (self.failures, self.attempts) {
                (1.., _) => "failing",
                (0, 0) => "idle",
                _ => "up",
            },
            rate: self.responses() as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
            share: part(self.responses(), responses_of_all).unwrap_or(0.0),
            p50: self.quantile(0.5),
            p99: self.quantile(0.99),
            errors: self.errors_ever,
            in_flight: self.in_flight,
            reuse: part(self.reuses, self.attempts),
        }
    }
}

fn buckets(snapshot: &HistogramSnapshot) -> BTreeMap<u64, u64> {
    let middle = |first: u64, last: Option<u64>| last.map_or(first, |last| first + (last - first) / 2);
    snapshot.buckets().map(|(first, last, count)| (middle(first, last), count)).collect()
}

#[cfg(test)]
mod tests {
    use weir_observe::{Phase, ShardSizes, StatNames, UpstreamStatNames, WorkerShard};

    use super::*;

    fn names() -> StatNames {
        let servers = vec!["a".to_owned(), "b".to_owned()];
        StatNames {
            listeners: Vec::new(),
            upstreams: vec![UpstreamStatNames { name: "default".to_owned(), servers }],
        }
    }

    fn serve(shard: &WorkerShard, server: usize, micros: u64, times: u64) {
        let server = &shard.upstreams[0].servers[server];
        for _ in 0..times {
            server.attempts.increment();
            server.reuses.increment();
            server.response_time.record(micros);
        }
    }

    #[test]
    fn rows_are_about_the_time_between_the_readings() {
        let shard = WorkerShard::new(ShardSizes { listeners: 0, servers: &[2] });
        let read = || Stats::collect(&names(), [&shard]);
        serve(&shard, 0, 100_000, 50);
        shard.upstreams[0].servers[1].failures.record(Phase::Connect);
        let before = read();
        serve(&shard, 0, 2_000, 150);
        serve(&shard, 1, 20_000, 50);
        shard.upstreams[0].servers[1].attempts.add(50);
        let interval = between(&before, &read(), Duration::from_secs(2));

        let [a, b] = &interval.servers[..] else { panic!("{interval:?}") };
        assert_eq!((&*a.name, a.state, a.rate, a.share, a.reuse), ("a", "up", 75.0, 0.75, Some(1.0)));
        assert_eq!((&*b.name, b.state, b.rate, b.share, b.reuse), ("b", "up", 25.0, 0.25, Some(0.5)));
        assert_eq!((a.errors, b.errors, interval.all.errors), (0, 1, 1), "errors are never forgotten");
        let close = |found: Option<u64>, expected: u64| {
            found.is_some_and(|found| found.abs_diff(expected) * 16 <= expected)
        };
        assert!(close(a.p99, 2_000), "what was before does not count: {a:?}");
        assert!(close(interval.all.p50, 2_000) && close(interval.all.p99, 20_000), "{interval:?}");
        assert_eq!(interval.all.rate, 100.0);
    }

    #[test]
    fn nothing_happening_has_no_figures() {
        let interval = between(&Stats::default(), &Stats::collect(&names(), []), Duration::from_secs(1));
        for row in interval.servers.iter().chain([&interval.all]) {
            assert_eq!((row.state, row.rate, row.share, row.p50, row.reuse), ("idle", 0.0, 0.0, None, None));
        }
    }

    #[test]
    fn a_server_that_fails_says_so() {
        let shard = WorkerShard::new(ShardSizes { listeners: 0, servers: &[2] });
        let before = Stats::collect(&names(), [&shard]);
        shard.upstreams[0].servers[0].attempts.increment();
        shard.upstreams[0].servers[0].failures.record(Phase::Connect);
        let interval = between(&before, &Stats::collect(&names(), [&shard]), Duration::from_secs(1));
        let states: Vec<&str> = interval.servers.iter().map(|row| row.state).collect();
        assert_eq!(states, ["failing", "idle"]);
    }
}
