//! Health checks: every server that is checked is probed on its own beat, and what the probes say goes to the balancer.
//!
//! Runs on a thread of its own: no probe waits behind traffic, none uses a connection of the traffic, and none takes time
//! from a worker. One probe per server at most runs at a time, so that servers that hang hold up nobody else's. When and
//! with what effect is decided by `weir_traffic::health`.

mod thread;
mod probe;
mod request;
mod response;
mod report;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use weir_observe::ProbeShard;
use weir_traffic::health::{Change, Outcome, Pacer, Schedule, Verdict};
use weir_traffic::{Health, ServerId, ServerState};

use self::probe::Probe;
pub(crate) use self::thread::CheckThread;
use super::slow_start;
use crate::buffer::BufferStock;
use crate::clock;
use crate::exchange::failure::Fault;
use crate::snapshot::{Snapshot, UpstreamPlan};

/// Probes every server of the snapshot that is to be, until the task is dropped. `seed` keeps several processes apart;
/// probes that are due within `slack` start together.
async fn keep_checked(snapshot: Arc<Snapshot>, seed: u64, slack: Duration) {
    let mut servers = JoinSet::new();
    let epoch = clock::now();
    let pacer = Arc::new(Mutex::new(Pacer::new(probes_per_second(&snapshot), slack)));
    let stock = BufferStock::new(snapshot.process.buffer_size.as_usize());
    let mut turn = 0;
    for plan in &snapshot.upstreams {
        let Some(check) = &plan.config.health else { continue };
        for (index, shard) in plan.probes.iter().enumerate() {
            let Some(shard) = shard else { continue };
            servers.spawn_local(
                CheckedServer {
                    plan: Arc::clone(plan),
                    index,
                    shard: Arc::clone(shard),
                    probe: Probe::new(check, index, plan, &stock),
                    schedule: Schedule::new(&check.pace(), turn, seed),
                    verdict: Verdict::new(check.thresholds()),
                    random: Random::new(seed ^ u64::from(turn)),
                    pacer: Arc::clone(&pacer),
                    interval: check.interval,
                    epoch,
                }
                .keep_checked(),
            );
            turn += 1;
        }
    }
    while let Some(ended) = servers.join_next().await {
        // A probe loop has no end; one that panics must not go unnoticed, as its server would stay what it is for ever.
        if let Err(error) = ended {
            tracing::error!(%error, "a health check has ended; its server is no longer probed");
        }
    }
}

/// How many probes the config asks for.
fn probes_per_second(snapshot: &Snapshot) -> f64 {
    let of_upstream = |plan: &Arc<UpstreamPlan>| {
        let check = plan.config.health.as_ref()?;
        Some(plan.probes.iter().flatten().count() as f64 / check.interval.as_secs_f64())
    };
    snapshot.upstreams.iter().filter_map(of_upstream).sum()
}

/// Figures for the servers that are probed; `None` for those that are not.
pub(crate) fn shards(config: &weir_config::Upstream) -> Box<[Option<Arc<ProbeShard>>]> {
    let is_probed = |server: &weir_config::Server| config.health.is_some() && server.health;
    config.servers.iter().map(|server| is_probed(server).then(Arc::default)).collect()
}

/// One server and everything that its probes need.
struct CheckedServer {
    plan: Arc<UpstreamPlan>,
    index: usize,
    shard: Arc<ProbeShard>,
    probe: Probe,
    schedule: Schedule,
    verdict: Verdict<Fault>,
    random: Random,
    /// Keeps the probes of all servers apart.
    pacer: Arc<Mutex<Pacer>>,
    interval: Duration,
    /// Zero of the clock of schedule and verdict.
    epoch: Instant,
}

impl CheckedServer {
    async fn keep_checked(mut self) {
        let mut due_ms = self.schedule.first(self.millis(clock::now()), self.random.next());
        loop {
            let due = self.epoch + Duration::from_millis(due_ms);
            tokio::time::sleep_until(tokio::time::Instant::from_std(due)).await;
            let put_off = self.wait_for_turn();
            if !put_off.is_zero() {
                tokio::time::sleep(put_off).await;
            }
            let began = clock::now();
            // Where the server is now, by the latest answer of DNS.
            let endpoints = self.plan.endpoints[self.index].load_full();
            let failure = self.probe.run(endpoints, self.random.next() as usize).await.err();
            let ended = clock::now();
            self.count(ended - began, failure);
            let now_ms = self.millis(ended);
            if let Some(change) = self.verdict.record(Outcome { at_ms: now_ms, failure }) {
                self.carry_out(change);
            }
            let is_changing = self.verdict.is_changing();
            due_ms = self.schedule.next(self.millis(began), now_ms, is_changing, self.random.next());
        }
    }

    /// How long the probe waits because others are due as well.
    fn wait_for_turn(&self) -> Duration {
        let since = clock::now().saturating_duration_since(self.epoch);
        let now_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let mut pacer = self.pacer.lock().unwrap_or_else(PoisonError::into_inner);
        Duration::from_micros(pacer.wait_us(now_us, self.interval))
    }

    fn count(&self, took: Duration, failure: Option<Fault>) {
        self.shard.last_micros.set(i64::from(clock::micros(took)));
        match failure {
            None => self.shard.passed.increment(),
            Some(failed) => {
                self.shard.failures.record(failed.failure);
                tracing::debug!(
                    upstream = &*self.plan.config.name,
                    server = &*self.plan.config.servers[self.index].name,
                    reason = %failed,
                    "a probe failed"
                );
            }
        }
    }

    /// Tells the balancer, and whoever waits for a server.
    fn carry_out(&self, change: Change) {
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
        report::tell(&self.plan, self.index, change, &self.verdict);
        self.plan.serve_queue();
    }

    fn state(&self) -> &ServerState {
        self.plan.balancer().state(ServerId(self.index as u32))
    }

    fn millis(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.epoch).as_millis()).unwrap_or(u64::MAX)
    }
}

/// Random numbers for the jitter of one server (SplitMix64): for spreading load, never for secrets.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let bits = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}
