//! One server that is probed: the times and counters of its probes, and the effect of their verdict.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use weir_config::OnDown;
use weir_observe::ProbeShard;
use weir_traffic::health::{HealthChange, HealthState, PastOutcome, ProbePacer, ProbeSchedule};
use weir_traffic::{Health, ServerId, ServerState};

use super::jitter::Jitter;
use super::probe::Probe;
use super::report;
use crate::servers::slow_start;
use crate::workers::connections;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::descriptors;
use weir_proxy::net::failure::Fault;
use weir_proxy::state::crashes::faults;
use weir_proxy::state::snapshot::UpstreamPlan;

/// One server and everything that its probes need.
pub(super) struct CheckedServer {
    pub(super) plan: Arc<UpstreamPlan>,
    /// Where the next plan comes from that has the same check.
    pub(super) plans: watch::Receiver<Arc<UpstreamPlan>>,
    pub(super) index: usize,
    pub(super) shard: Arc<ProbeShard>,
    pub(super) probe: Probe,
    pub(super) schedule: ProbeSchedule,
    /// Shared with the check that follows, if the config changes it.
    pub(super) verdict: Rc<RefCell<HealthState<Fault>>>,
    pub(super) jitter: Jitter,
    /// How connections are way to end sessions.
    pub(super) queries: Arc<WorkerQueries>,
    /// Keeps the probes of all servers apart.
    pub(super) pacer: Rc<RefCell<ProbePacer>>,
    /// How many may probe at once, for the descriptors that there are.
    pub(super) places: Arc<Semaphore>,
    pub(super) interval: Duration,
    /// Zero of the clock of schedule and verdict.
    pub(super) epoch: Instant,
}

impl CheckedServer {
    pub(super) async fn keep_checked(mut self) {
        let mut due_ms = self.schedule.first(self.millis(clock::now()), self.jitter.next());
        loop {
            let due = self.epoch + Duration::from_millis(due_ms);
            tokio::time::sleep(due - clock::now()).await;
            let put_off = self.wait_for_turn();
            if !put_off.is_zero() {
                tokio::time::sleep(put_off).await;
            }
            faults::strike_control(faults::ControlFault::Check);
            let began = clock::now();
            self.plan = Arc::clone(&self.plans.borrow_and_update());
            // Where the server is now, by the latest answer of DNS.
            let endpoints = self.plan.live[self.index].endpoints.load_full();
            // Probes that keep connections have a place each.
            let place = self.places.acquire().await;
            let failure = self.probe.run(endpoints, self.jitter.next() as usize).await.err();
            drop(place);
            let ended = clock::now();
            if let Some(fault) = failure.filter(|fault| descriptors::is_local(fault.failure)) {
                // It was not made, so it says nothing.
                self.shard.not_made.increment();
                descriptors::raise_alarm(fault.failure);
                let is_changing = self.verdict.borrow().is_changing();
                due_ms = self.schedule.next(
                    self.millis(began),
                    self.millis(ended),
                    is_changing,
                    self.jitter.next(),
                );
                continue;
            }
            self.count(ended - began, failure);
            let now_ms = self.millis(ended);
            let change = self.verdict.borrow_mut().record(PastOutcome { at_ms: now_ms, failure });
            if let Some(change) = change {
                self.plan = Arc::clone(&self.plans.borrow_and_update());
                self.carry_out(change);
            }
            let is_changing = self.verdict.borrow().is_changing();
            due_ms = self.schedule.next(self.millis(began), now_ms, is_changing, self.jitter.next());
        }
    }

    /// How long the probe waits because others are due as well.
    fn wait_for_turn(&self) -> Duration {
        let since = clock::now().saturating_duration_since(self.epoch);
        let now_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(self.pacer.borrow_mut().wait_us(now_us, self.interval))
    }

    fn count(&self, took: Duration, failure: Option<Fault>) {
        self.shard.last_micros.set(i64::from(clock::micros(took)));
        self.shard.record(failure.map(|failed| failed.failure));
        if let Some(failed) = failure {
            tracing::debug!(
                upstream = &*self.plan.config.name,
                server = &*self.plan.config.servers[self.index].name,
                reason = %failed,
                "a probe failed"
            );
        }
    }

    /// Informs the balancer and the waiting requests.
    fn carry_out(&self, change: HealthChange) {
        self.shard.changes.increment();
        match change.health {
            // Before it is up, so that its first requests are few.
            Health::Up => {
                slow_start::begin(&self.plan, self.index);
                self.plan.recover(ServerId(self.index as u32));
            }
            Health::Down => slow_start::stop(&self.plan, self.index),
        }
        self.state().set_health(change.health);
        self.plan.settle_ejections();
        report::tell(&self.plan, self.index, change, &self.verdict.borrow());
        self.plan.serve_queue();
        if change.health == Health::Down && self.plan.config.on_down == OnDown::Close {
            self.close_connections();
        }
    }

    /// Lets the workers end the sessions on the server, after it has been marked: nothing new comes to it.
    fn close_connections(&self) {
        let (queries, plan, index) = (Arc::clone(&self.queries), Arc::clone(&self.plan), self.index);
        // The next probe does not wait for the workers' answers, which are for the log only.
        tokio::task::spawn_local(async move {
            connections::end_down(&queries, &plan.config.name, &plan.config.servers[index].name).await;
        });
    }

    fn state(&self) -> &ServerState {
        self.plan.balancer().state(ServerId(self.index as u32))
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }
}
