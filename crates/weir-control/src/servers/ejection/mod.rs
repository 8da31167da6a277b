//! The times of ejections, the comparison of servers with each other, and log lines about both.
//!
//! Runs on the control thread. Decisions of the data path are logged here; timers run here,
//! whether there is traffic or not. The requests of a server are read from the counters that the workers keep anyway.

mod report;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_observe::HistogramSnapshot;
use weir_traffic::ejection::{EjectionRules, OutlierChange, OutlierWindow};

use crate::servers::slow_start;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::servers::due_upstreams::DueUpstreams;
use weir_proxy::state::snapshot::UpstreamPlan;

/// How often the task checks whether changes of health or by the operator have left ejected servers only.
const REVIEW_INTERVAL: Duration = Duration::from_secs(1);

/// The pause after a review that has panicked.
const PANIC_PAUSE: Duration = Duration::from_secs(60);

/// The longest sleep when nothing is to be done by time.
const SLEEP_MAX: Duration = Duration::from_secs(3600);

/// Upstreams that are reviewed before other tasks of the thread have their turn.
const REVIEWS_AT_ONCE: usize = 64;

/// Upstreams to review from now on.
pub(crate) enum ReviewedPlans {
    /// These and no others.
    All(Vec<Arc<UpstreamPlan>>),
    /// Beside others: these, with other servers than before.
    Changed(Vec<Arc<UpstreamPlan>>),
}

/// Whether servers of an upstream may be ejected, or all be used in a panic.
pub(crate) fn is_reviewed(plan: &UpstreamPlan) -> bool {
    plan.config.servers.len() >= 2 || plan.config.panic_threshold.is_some()
}

/// Keeps the times of the upstreams that come last through `plans`, until the task is dropped.
pub(crate) async fn review_ejections(
    plans: UnboundedReceiver<ReviewedPlans>,
    due_upstreams: Arc<DueUpstreams>,
) {
    let review = Mutex::new((plans, ReviewSchedule::default()));
    let turn = || async {
        let (plans, schedule) = &mut *review.lock().await;
        schedule.run(plans, &due_upstreams).await;
    };
    weir_tasks::keep("the review of ejected servers", turn).await;
}

/// The upstreams that are judged.
#[derive(Default)]
struct ReviewSchedule {
    /// What is to be judged, by the numbers of the books: it outlives a panic on the way to `upstreams`.
    wanted: HashMap<u64, Arc<UpstreamPlan>>,
    /// By the numbers of their books.
    upstreams: HashMap<u64, ReviewedUpstream>,
    /// The next review of each. An entry that is not [`ReviewedUpstream::look_at`] is outdated.
    reviews: BinaryHeap<Reverse<(Instant, u64)>>,
}

/// One upstream and the counters of its servers at the last comparison.
struct ReviewedUpstream {
    plan: Arc<UpstreamPlan>,
    compared_at: Instant,
    /// Nothing until the upstream is used.
    seen: Box<[SeenCounts]>,
    /// The first of its looks to come.
    review_at: Option<Instant>,
}

impl ReviewSchedule {
    async fn run(&mut self, plans: &mut UnboundedReceiver<ReviewedPlans>, due_upstreams: &DueUpstreams) {
        // Begun anew after a panic: what was about to be followed or reviewed may not have been.
        self.follow_wanted();
        let numbers: Vec<u64> = self.upstreams.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.review_at(number));
        loop {
            let now = clock::now();
            let wait = self.due(now) - now;
            tokio::select! {
                Some(plans) = plans.recv() => match plans {
                    ReviewedPlans::All(plans) => self.follow(plans),
                    ReviewedPlans::Changed(plans) => self.follow_changed(plans),
                },
                () = due_upstreams.added() => {
                    for numbers in due_upstreams.take().chunks(REVIEWS_AT_ONCE) {
                        numbers.iter().for_each(|number| self.review_at(*number));
                        tokio::task::yield_now().await;
                    }
                }
                () = tokio::time::sleep(wait) => {
                    let now = clock::now();
                    while self.review_due(now) {
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Continues with the next plans, and keeps the state of upstreams that they still have.
    fn follow(&mut self, plans: Vec<Arc<UpstreamPlan>>) {
        self.wanted = plans.into_iter().map(|plan| (plan.outlier_detector.number(), plan)).collect();
        self.follow_wanted();
    }

    fn follow_wanted(&mut self) {
        let mut before = std::mem::take(&mut self.upstreams);
        self.upstreams.reserve(self.wanted.len());
        let mut changed = Vec::new();
        for (&number, plan) in &self.wanted {
            let upstream = match before.remove(&number) {
                Some(known) if Arc::ptr_eq(&known.plan, plan) => known,
                known => {
                    changed.push(number);
                    known.map_or_else(|| ReviewedUpstream::new(plan), |known| known.followed_by(plan))
                }
            };
            self.upstreams.insert(number, upstream);
        }
        changed.into_iter().for_each(|number| self.review_at(number));
    }

    /// Continues with other plans of some upstreams.
    fn follow_changed(&mut self, plans: Vec<Arc<UpstreamPlan>>) {
        for plan in plans {
            let number = plan.outlier_detector.number();
            let known = self.upstreams.remove(&number);
            self.wanted.remove(&number);
            if is_reviewed(&plan) {
                self.wanted.insert(number, Arc::clone(&plan));
                let upstream =
                    known.map_or_else(|| ReviewedUpstream::new(&plan), |known| known.followed_by(&plan));
                self.upstreams.insert(number, upstream);
                self.review_at(number);
            }
        }
    }

    /// When there is something to do by time alone.
    fn due(&self, now: Instant) -> Instant {
        self.reviews.peek().map_or(now + SLEEP_MAX, |Reverse((at, _))| *at)
    }

    /// Reviews some of the upstreams that are due; returns whether there may be more.
    fn review_due(&mut self, now: Instant) -> bool {
        for _ in 0..REVIEWS_AT_ONCE {
            let Some(Reverse((at, number))) =
                self.reviews.peek().copied().filter(|Reverse((at, _))| *at <= now)
            else {
                return false;
            };
            self.reviews.pop();
            let upstream = self.upstreams.get_mut(&number).filter(|upstream| upstream.review_at == Some(at));
            if let Some(upstream) = upstream {
                upstream.review_at = None;
                self.review_at(number);
            }
        }
        true
    }

    /// Begins with an upstream whose review has panicked as if it had just come, after a pause.
    fn begin_anew(&mut self, number: u64) {
        let Some(upstream) = self.upstreams.get_mut(&number) else { return };
        let due = clock::now() + PANIC_PAUSE;
        *upstream = ReviewedUpstream::new(&Arc::clone(&upstream.plan));
        upstream.review_at = Some(due);
        self.reviews.push(Reverse((due, number)));
    }

    /// Reviews an upstream, and schedules its next review.
    fn review_at(&mut self, number: u64) {
        let Some(upstream) = self.upstreams.get_mut(&number) else { return };
        let review = || {
            upstream.review(clock::now());
            upstream.due(clock::now())
        };
        // A panic must not end the ejections of all others.
        let Ok(due) = catch_unwind(AssertUnwindSafe(review)) else {
            let upstream = &*upstream.plan.config.name;
            tracing::error!(
                upstream,
                "the review of ejected servers has ended by a defect of Weir and is begun anew in a minute; until then, ejected servers stay ejected"
            );
            weir_tasks::count_restart();
            self.begin_anew(number);
            return;
        };
        if let Some(due) = due.filter(|due| upstream.review_at.is_none_or(|review_at| *due < review_at)) {
            upstream.review_at = Some(due);
            self.reviews.push(Reverse((due, number)));
        }
    }
}

/// The counters of a server at the last comparison.
#[derive(Debug)]
struct SeenCounts {
    attempts: u64,
    faults: u64,
    /// Only where latencies are compared.
    latency: Option<HistogramSnapshot>,
}

impl SeenCounts {
    fn nothing(plan: &UpstreamPlan) -> Self {
        let rules = plan.config.ejection.as_ref().map(|ejection| ejection.rules);
        let measures = matches!(rules, Some(EjectionRules::Outliers(rules)) if rules.latency.is_some());
        Self { latency: measures.then(HistogramSnapshot::new), attempts: 0, faults: 0 }
    }

    /// The counters of a server now.
    fn new(plan: &UpstreamPlan, server: usize) -> Self {
        let mut total = Self::nothing(plan);
        for shard in plan.server_shards[server].used() {
            total.attempts += shard.attempts.value();
            total.faults += shard.outlier_failures.value();
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

impl ReviewedUpstream {
    fn new(plan: &Arc<UpstreamPlan>) -> Self {
        let plan = Arc::clone(plan);
        let mut new = Self { plan, compared_at: clock::now(), seen: Box::default(), review_at: None };
        if new.plan.shards.is_used() {
            // It had requests before it was judged.
            new.windows();
        }
        new
    }

    /// Continues with the next plan, and keeps the counters of servers that it still has.
    fn followed_by(self, plan: &Arc<UpstreamPlan>) -> Self {
        let mut seen = self.seen.into_vec();
        if !seen.is_empty() {
            for (index, state) in plan.balancer().states().iter().enumerate() {
                let known = self.plan.balancer().states().get(index);
                if index >= seen.len() {
                    seen.push(SeenCounts::new(plan, index));
                } else if !known.is_some_and(|known| Arc::ptr_eq(known, state)) {
                    seen[index] = SeenCounts::new(plan, index);
                }
            }
        }
        Self { plan: Arc::clone(plan), seen: seen.into(), ..self }
    }

    fn review(&mut self, now: Instant) {
        self.plan.outlier_detector.begin_review();
        if interval(&self.plan).is_some_and(|interval| now >= self.compared_at + interval) {
            self.compare(now);
        }
        let events = {
            let mut table = self.plan.outlier_detector.lock();
            table.advance(self.plan.millis(now));
            table.take_events()
        };
        for event in &events {
            if let OutlierChange::Returned { server, .. } = event.change {
                slow_start::begin(&self.plan, server.index());
            }
            report::tell(&self.plan, event);
        }
        if !events.is_empty() {
            self.plan.serve_queue();
        }
    }

    /// When there is something to do by time alone; `None`: not before another event.
    fn due(&self, now: Instant) -> Option<Instant> {
        let (next_ms, is_quiet) = {
            let table = self.plan.outlier_detector.lock();
            (table.next_ms(), table.is_quiet())
        };
        let next = next_ms.map(|next_ms| self.plan.at_millis(next_ms));
        let compare = interval(&self.plan).map(|interval| self.compared_at + interval);
        let review = (!is_quiet).then(|| now + REVIEW_INTERVAL);
        [next, compare, review].into_iter().flatten().min()
    }

    fn compare(&mut self, now: Instant) {
        // Where nothing was ever used, there is nothing to compare.
        if self.plan.shards.is_used() {
            let windows = self.windows();
            let (began_ms, now_ms) = (self.plan.millis(self.compared_at), self.plan.millis(now));
            self.plan.outlier_detector.lock().compare(&windows, began_ms, now_ms);
        }
        self.compared_at = now;
    }

    /// The requests of each server since the last call.
    fn windows(&mut self) -> Vec<OutlierWindow> {
        let plan = &self.plan;
        let servers = plan.config.servers.len();
        if self.seen.len() < servers {
            let mut seen = std::mem::take(&mut self.seen).into_vec();
            seen.resize_with(servers, || SeenCounts::nothing(plan));
            self.seen = seen.into();
        }
        let of_server = |(index, seen): (usize, &mut SeenCounts)| {
            let before = std::mem::replace(seen, SeenCounts::new(plan, index));
            let latency = match (&seen.latency, &before.latency) {
                (Some(now), Some(before)) => now.since(before).quantile(0.5),
                _ => None,
            };
            OutlierWindow {
                requests: seen.attempts - before.attempts,
                failures: seen.faults - before.faults,
                latency_micros: latency,
            }
        };
        self.seen.iter_mut().enumerate().map(of_server).collect()
    }
}
