//! The times of ejections, the comparison of servers with each other, and what the log says of both.
//!
//! Runs on the control thread. What is decided on the data path comes here to be told; that time is up is noticed here,
//! whether there is traffic or not. What a server did is read from the counters that the workers keep anyway.

mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use weir_observe::HistogramSnapshot;
use weir_traffic::ejection::{Change, Rules, Window};

use super::slow_start;
use crate::clock;
use crate::snapshot::UpstreamPlan;

/// How often it is looked whether health or the operator left nobody but those who are out.
const LOOK: Duration = Duration::from_secs(1);

/// The longest sleep when nothing is to be done by time.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Keeps the times of an upstream, as its newest plan says, until the task is dropped.
pub(super) async fn keep_judged(plans: watch::Receiver<Arc<UpstreamPlan>>) {
    let judged = tokio::spawn(JudgedUpstream::new(plans).keep_judged());
    let _end = AbortOnDrop(judged.abort_handle());
    // The loop has no end; when it panics that must not go unnoticed, as nobody would come back.
    if let Err(error) = judged.await {
        tracing::error!(%error, "the ejection of servers has ended; those that are ejected stay so");
    }
}

/// A task that ends with whoever waits for it.
struct AbortOnDrop(tokio::task::AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// One upstream and what its servers had done at the last comparison.
struct JudgedUpstream {
    plan: Arc<UpstreamPlan>,
    /// Where the next plan comes from.
    plans: watch::Receiver<Arc<UpstreamPlan>>,
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

impl Seen {
    /// What a server has done up to now.
    fn of(plan: &UpstreamPlan, server: usize) -> Self {
        let rules = plan.config.ejection.as_ref().map(|ejection| ejection.rules);
        let measures = matches!(rules, Some(Rules::Outliers(rules)) if rules.latency.is_some());
        let mut total = Self { latency: measures.then(HistogramSnapshot::new), ..Self::default() };
        for shard in plan.server_shards[server].used() {
            total.attempts += shard.attempts.value();
            total.faults += shard.faults.value();
            if let Some(latency) = &mut total.latency {
                latency.add(&shard.response_time);
            }
        }
        total
    }
}

/// How often servers are compared; `None`: never.
fn interval(plan: &UpstreamPlan) -> Option<Duration> {
    let ejection = plan.config.ejection.as_ref()?;
    ejection.compares().then_some(ejection.interval)
}

impl JudgedUpstream {
    fn new(mut plans: watch::Receiver<Arc<UpstreamPlan>>) -> Self {
        let plan = Arc::clone(&plans.borrow_and_update());
        let (interval, seen) = (interval(&plan), Vec::new());
        Self { plan, plans, interval, compared_at: clock::now(), seen }
    }

    /// Goes on by the next plan, with what was seen of the servers that it has too.
    fn follow(&mut self) {
        let plan = Arc::clone(&self.plans.borrow_and_update());
        for (index, state) in plan.balancer().states().iter().enumerate() {
            let known = self.plan.balancer().states().get(index);
            if index >= self.seen.len() {
                self.seen.push(Seen::of(&plan, index));
            } else if !known.is_some_and(|known| Arc::ptr_eq(known, state)) {
                self.seen[index] = Seen::of(&plan, index);
            }
        }
        self.interval = interval(&plan);
        self.plan = plan;
    }

    async fn keep_judged(mut self) {
        self.windows();
        loop {
            let due = tokio::time::Instant::from_std(self.due(clock::now()));
            let plan = Arc::clone(&self.plan);
            tokio::select! {
                () = plan.ejector.changed() => {}
                () = tokio::time::sleep_until(due) => {}
                Ok(()) = self.plans.changed() => self.follow(),
            }
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
        let plan = &self.plan;
        self.seen.resize_with(plan.config.servers.len(), Seen::default);
        let of_server = |(index, seen): (usize, &mut Seen)| {
            let before = std::mem::replace(seen, Seen::of(plan, index));
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
