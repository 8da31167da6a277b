//! The times of ejections, the comparison of servers with each other, and what the log says of both.
//!
//! Runs on the control thread. What is decided on the data path comes here to be told; that time is up is noticed here,
//! whether there is traffic or not. What a server did is read from the counters that the workers keep anyway.

mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weir_observe::{HistogramSnapshot, UpstreamShard, WorkerShard};
use weir_traffic::ejection::{Change, Rules, Window};

use super::slow_start;
use crate::clock;
use crate::snapshot::{Snapshot, UpstreamPlan};

/// How often it is looked whether health or the operator left nobody but those who are out.
const LOOK: Duration = Duration::from_secs(1);

/// The longest sleep when nothing is to be done by time.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Keeps the times of every upstream whose servers may be ejected, or that has a panic threshold, until the task is dropped.
pub(crate) async fn keep_judged(snapshot: Arc<Snapshot>, shards: Vec<Arc<WorkerShard>>) {
    let mut upstreams = JoinSet::new();
    for (index, plan) in snapshot.upstreams.iter().enumerate() {
        if plan.config.servers.len() > 1 || plan.config.panic_threshold.is_some() {
            let shards = shards.iter().map(|shard| Arc::clone(&shard.upstreams[index])).collect();
            upstreams.spawn(JudgedUpstream::new(Arc::clone(plan), shards).keep_judged());
        }
    }
    while let Some(ended) = upstreams.join_next().await {
        // These loops have no end; one that panics must not go unnoticed, as nobody would come back.
        if let Err(error) = ended {
            tracing::error!(%error, "the ejection of servers has ended; those that are ejected stay so");
        }
    }
}

/// One upstream and what its servers had done at the last comparison.
struct JudgedUpstream {
    plan: Arc<UpstreamPlan>,
    /// The counters of each worker.
    shards: Vec<Arc<UpstreamShard>>,
    /// How often servers are compared; `None`: never.
    interval: Option<Duration>,
    compared_at: Instant,
    seen: Vec<Seen>,
}

/// What a server had done at the last comparison.
#[derive(Debug, Default)]
struct Seen {
    attempts: u64,
    faults: u64,
    /// Only where latencies are compared.
    latency: Option<HistogramSnapshot>,
}

impl JudgedUpstream {
    fn new(plan: Arc<UpstreamPlan>, shards: Vec<Arc<UpstreamShard>>) -> Self {
        let ejection = plan.config.ejection.as_ref();
        let interval = ejection.filter(|ejection| ejection.compares()).map(|ejection| ejection.interval);
        let seen = plan.config.servers.iter().map(|_| Seen::default()).collect();
        Self { plan, shards, interval, compared_at: clock::now(), seen }
    }

    async fn keep_judged(mut self) {
        self.windows();
        loop {
            let due = tokio::time::Instant::from_std(self.due(clock::now()));
            let _told_or_due = tokio::time::timeout_at(due, self.plan.ejector.changed.notified()).await;
            let now = clock::now();
            if self.interval.is_some_and(|interval| now >= self.compared_at + interval) {
                self.compare(now);
            }
            let events = {
                let mut book = self.plan.ejector.lock();
                book.advance(self.plan.millis(now));
                book.take_events()
            };
            for event in &events {
                if let Change::Returned { server, .. } = event.change {
                    slow_start::begin(&self.plan, server.index());
                }
                report::tell(&self.plan, event);
            }
            if !events.is_empty() {
                self.plan.serve_queue();
            }
        }
    }

    /// When there is something to do by time alone.
    fn due(&self, now: Instant) -> Instant {
        let (next_ms, is_quiet) = {
            let book = self.plan.ejector.lock();
            (book.next_ms(), book.is_quiet())
        };
        let next = next_ms.map(|next_ms| self.plan.at_millis(next_ms));
        let compare = self.interval.map(|interval| self.compared_at + interval);
        let look = now + if is_quiet { SLEEP_MAX } else { LOOK };
        [next, compare].into_iter().flatten().fold(look, Instant::min)
    }

    fn compare(&mut self, now: Instant) {
        let windows = self.windows();
        let (began_ms, now_ms) = (self.plan.millis(self.compared_at), self.plan.millis(now));
        self.plan.ejector.lock().compare(&windows, began_ms, now_ms);
        self.compared_at = now;
    }

    /// What each server did since the last call.
    fn windows(&mut self) -> Vec<Window> {
        let rules = self.plan.config.ejection.as_ref().map(|ejection| ejection.rules);
        let measures = matches!(rules, Some(Rules::Outliers(rules)) if rules.latency.is_some());
        let of_server = |(index, seen): (usize, &mut Seen)| {
            let mut total = Seen { latency: measures.then(HistogramSnapshot::new), ..Seen::default() };
            for shard in self.shards.iter().map(|shard| &shard.servers[index]) {
                total.attempts += shard.attempts.value();
                total.faults += shard.faults.value();
                if let Some(latency) = &mut total.latency {
                    latency.add(&shard.response_time);
                }
            }
            let before = std::mem::replace(seen, total);
            let latency = match (&seen.latency, &before.latency) {
                (Some(now), Some(before)) => now.since(before).quantile(0.5),
                _ => None,
            };
            Window {
                requests: seen.attempts - before.attempts,
                failures: seen.faults - before.faults,
                latency_micros: latency,
            }
        };
        self.seen.iter_mut().enumerate().map(of_server).collect()
    }
}
