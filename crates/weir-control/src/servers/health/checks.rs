//! Which servers are probed: the running checks, and their changes by a reload.
//!
//! A check with unchanged settings continues undisturbed. One with other settings begins anew with the known state of the
//! server: one that is down stays down until its probes pass.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::{Mutex, Semaphore, watch};
use tokio::task::{Id, JoinSet};
use weir_tasks::OwnedTask;
use weir_traffic::ServerState;
use weir_traffic::health::{HealthState, ProbePacer, ProbeSchedule};

use super::agent::AskedAgent;
use super::checked_server::CheckedServer;
use super::jitter::Jitter;
use super::probe::Probe;
use super::thread_pause::ThreadPause;
use crate::lifecycle::process::open_files_max;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::descriptors::probes_max;
use weir_proxy::net::failure::Fault;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};

/// What is probed from now on.
pub(super) struct ProbeConfig {
    pub(super) servers: ProbedServers,
    /// Dropped once no probe goes by the config before.
    pub(super) done: Sender<Infallible>,
}

/// Servers to probe.
pub(super) enum ProbedServers {
    /// Those of a snapshot, and no others.
    Snapshot(Arc<Snapshot>),
    /// Those of some upstreams, in place of the ones that these had.
    Upstreams(Vec<Arc<UpstreamPlan>>),
}

/// How many probes the config asks for.
pub(super) fn probes_per_second(snapshot: &Snapshot) -> f64 {
    snapshot.upstreams.iter().map(|plan| probes_of(plan)).sum()
}

/// How many probes the servers of an upstream get per second.
fn probes_of(plan: &UpstreamPlan) -> f64 {
    let Some(check) = &plan.config.health else { return 0.0 };
    let probed = (0..plan.probes.len()).filter(|server| is_probed(plan, *server));
    probed.count() as f64 / check.interval.as_secs_f64()
}

fn is_probed(plan: &UpstreamPlan, server: usize) -> bool {
    plan.probes[server].is_some() && plan.leaves_at[server].is_none()
}

/// Probes every server of the snapshots that is to be, until the task is dropped. `seed` keeps several processes apart.
pub(super) async fn keep_checked(
    mut snapshots: UnboundedReceiver<ProbeConfig>,
    queries: Arc<WorkerQueries>,
    seed: u64,
    pause_: ThreadPause,
) {
    let Some(ProbeConfig { servers: ProbedServers::Snapshot(first), done }) = snapshots.recv().await else {
        return;
    };
    let places = probes_max(open_files_max()) as usize;
    let mut checks = ActiveChecks {
        plans: HashMap::new(),
        running: HashMap::new(),
        tasks: JoinSet::new(),
        pause_,
        queries,
        stock: BufferStock::new(first.process.buffer_size.as_usize()),
        pacer: Rc::new(RefCell::new(ProbePacer::new(0.0, Duration::ZERO))),
        places: Arc::new(Semaphore::new(places)),
        may_keep: true,
        epoch: clock::now(),
        turn: 0,
        seed,
    };
    checks.set_plans(&first);
    drop((first, done));
    let checks = Mutex::new((checks, snapshots));
    let turn = || async {
        let (checks, snapshots) = &mut *checks.lock().await;
        checks.run(snapshots).await;
    };
    weir_tasks::keep("health checks", turn).await;
}

/// The checks that run.
struct ActiveChecks {
    /// The upstreams whose servers are to be probed, by their names: they outlive a panic on the way to `running`.
    plans: HashMap<Box<str>, Arc<UpstreamPlan>>,
    /// By upstream.
    running: HashMap<Box<str>, UpstreamChecks>,
    tasks: JoinSet<()>,
    pause_: ThreadPause,
    queries: Arc<WorkerQueries>,
    stock: Rc<BufferStock>,
    pacer: Rc<RefCell<ProbePacer>>,
    /// How many may probe at once.
    places: Arc<Semaphore>,
    /// Whether there are descriptors for every probe to keep its connection.
    may_keep: bool,
    epoch: Instant,
    /// Counts the servers that were ever probed.
    turn: u32,
    seed: u64,
}

/// The checks of the servers of one upstream.
#[derive(Default)]
struct UpstreamChecks {
    checks: Vec<ServerCheck>,
    per_second: f64,
}

/// The check of one server.
struct ServerCheck {
    plan: Arc<UpstreamPlan>,
    plans: watch::Sender<Arc<UpstreamPlan>>,
    index: usize,
    verdict: Rc<RefCell<HealthState<Fault>>>,
    id: Id,
    /// The probe loop ends with the check.
    _task: OwnedTask,
    /// The same of what asks its agent.
    _agent: Option<OwnedTask>,
}

impl ServerCheck {
    fn state(&self) -> &Arc<ServerState> {
        &self.plan.balancer().states()[self.index]
    }

    /// Whether a probe by another plan is the same.
    fn is_same(&self, plan: &UpstreamPlan) -> bool {
        let settings = |plan: &UpstreamPlan| {
            let server = &plan.config.servers[self.index];
            let client_config = plan.tls.as_ref().map(Arc::as_ptr);
            let limits = (plan.config.limits.clone(), plan.config.proxy_protocol);
            (
                plan.config.health.clone(),
                (server.health_port, server.agent_port, server.source_address),
                server.max_requests.is_some(),
                client_config,
                limits,
            )
        };
        settings(&self.plan) == settings(plan)
    }
}

impl ActiveChecks {
    /// Probes by each config. Begun anew after a panic, checks that it has ended begin with what is known of their servers.
    async fn run(&mut self, snapshots: &mut UnboundedReceiver<ProbeConfig>) {
        self.follow();
        loop {
            tokio::select! {
                Some(ended) = self.tasks.join_next() => {
                    // A probe loop has no end; one that panics begins anew, as the state of its server would never change again.
                    if let Err(error) = ended && !error.is_cancelled() {
                        self.restart(error.id());
                    }
                }
                next = snapshots.recv() => {
                    let Some(ProbeConfig { servers, done }) = next else { return };
                    match servers {
                        ProbedServers::Snapshot(snapshot) => {
                            self.set_plans(&snapshot);
                            self.follow();
                        }
                        ProbedServers::Upstreams(plans) => self.follow_upstreams(&plans),
                    }
                    drop(done);
                }
            }
        }
    }

    /// These are probed, and no others.
    fn set_plans(&mut self, snapshot: &Snapshot) {
        let probed = snapshot.upstreams.iter().filter(|plan| plan.config.health.is_some());
        self.plans = probed.map(|plan| (plan.config.name.clone(), Arc::clone(plan))).collect();
    }

    /// Adapts the checks to the plans.
    fn follow(&mut self) {
        let mut before = std::mem::take(&mut self.running);
        let plans: Vec<_> = self.plans.values().cloned().collect();
        let probed =
            |plan: &Arc<UpstreamPlan>| (0..plan.probes.len()).filter(|at| is_probed(plan, *at)).count();
        self.settle(plans.iter().map(|plan| probes_of(plan)).sum(), plans.iter().map(probed).sum());
        for plan in &plans {
            let known = before.remove(&plan.config.name).unwrap_or_default();
            self.follow_upstream(plan, known);
        }
    }

    /// Adapts the checks of some upstreams to other servers.
    fn follow_upstreams(&mut self, plans: &[Arc<UpstreamPlan>]) {
        let probed = plans.iter().filter(|plan| plan.config.health.is_some());
        self.plans.extend(probed.map(|plan| (plan.config.name.clone(), Arc::clone(plan))));
        for plan in plans {
            let known = self.running.remove(&plan.config.name).unwrap_or_default();
            self.follow_upstream(plan, known);
        }
        let per_second = self.running.values().map(|upstream| upstream.per_second).sum();
        let probed = self.running.values().map(|upstream| upstream.checks.len()).sum();
        self.settle(per_second, probed);
    }

    /// Spreads this many probes per second, of so many servers.
    fn settle(&mut self, per_second: f64, probed: usize) {
        self.may_keep = probed <= probes_max(open_files_max()) as usize;
        self.pacer.replace(ProbePacer::new(per_second, self.pause_.set_for(per_second)));
    }

    /// Adapts the checks of an upstream, `known` by now, to its servers.
    fn follow_upstream(&mut self, plan: &Arc<UpstreamPlan>, known: UpstreamChecks) {
        let known = known.checks.into_iter();
        let mut before: HashMap<*const ServerState, ServerCheck> =
            known.map(|check| (Arc::as_ptr(check.state()), check)).collect();
        let mut checks = Vec::new();
        for index in (0..plan.probes.len()).filter(|index| is_probed(plan, *index)) {
            let state = &plan.balancer().states()[index];
            checks.push(match before.remove(&Arc::as_ptr(state)) {
                Some(check) if check.is_same(plan) => {
                    check.plans.send_replace(Arc::clone(plan));
                    ServerCheck { plan: Arc::clone(plan), ..check }
                }
                known => self.start(plan, index, known.map(|check| check.verdict)),
            });
        }
        drop(before);
        if !checks.is_empty() {
            let per_second = probes_of(plan);
            self.running.insert(plan.config.name.clone(), UpstreamChecks { checks, per_second });
        }
    }

    /// Begins the check anew whose task has panicked, with the verdict so far. It waits for its place in the next interval, so that one that panics at each
    /// probe takes no more time than others.
    fn restart(&mut self, task: Id) {
        // A reload may have replaced it meanwhile.
        let place_of = |upstream: &UpstreamChecks| upstream.checks.iter().position(|check| check.id == task);
        let found = self.running.values_mut().find_map(|upstream| Some((place_of(upstream)?, upstream)));
        let Some((place, checks)) = found else { return };
        let ServerCheck { plan, index, verdict, .. } = checks.checks.swap_remove(place);
        let (upstream, server) = (&plan.config.name, &*plan.config.servers[index].name);
        weir_tasks::count_restart();
        tracing::error!(
            upstream = &**upstream,
            server,
            "a health check has ended by a defect of Weir and is begun anew with its next interval; the log has the panic above"
        );
        let check = self.start(&plan, index, Some(verdict));
        if let Some(checks) = self.running.get_mut(upstream) {
            checks.checks.push(check);
        }
    }

    fn start(
        &mut self,
        plan: &Arc<UpstreamPlan>,
        index: usize,
        before: Option<Rc<RefCell<HealthState<Fault>>>>,
    ) -> ServerCheck {
        let check = plan.config.health.as_ref().expect("a server is probed where there is a check");
        let verdict = match before {
            Some(before) => HealthState::resume(check.thresholds(), &before.borrow()),
            None => {
                HealthState::beginning(check.thresholds(), plan.balancer().states()[index].probed_health())
            }
        };
        let verdict = Rc::new(RefCell::new(verdict));
        let (plans, next) = watch::channel(Arc::clone(plan));
        let turn = self.turn;
        self.turn += 1;
        let checked = CheckedServer {
            plan: Arc::clone(plan),
            plans: next,
            index,
            shard: plan.probes[index].clone().expect("it is probed"),
            probe: Probe::new(check, index, plan, &self.stock, self.may_keep),
            schedule: ProbeSchedule::new(&check.pace(), turn, self.seed),
            verdict: Rc::clone(&verdict),
            jitter: Jitter::new(self.seed ^ u64::from(turn)),
            queries: Arc::clone(&self.queries),
            pacer: Rc::clone(&self.pacer),
            places: Arc::clone(&self.places),
            interval: check.interval,
            epoch: self.epoch,
        };
        let task = self.tasks.spawn_local(checked.keep_checked());
        let agent = self.start_agent(plan, index, &plans, turn);
        let plan = Arc::clone(plan);
        ServerCheck { plan, plans, index, verdict, id: task.id(), _task: task.into(), _agent: agent }
    }

    /// Begins to ask the agent of a server, if it has one. The task is begun anew after a panic, with what the agent has said by then.
    fn start_agent(
        &self,
        plan: &UpstreamPlan,
        index: usize,
        plans: &watch::Sender<Arc<UpstreamPlan>>,
        turn: u32,
    ) -> Option<OwnedTask> {
        let check = plan.config.agent(&plan.config.servers[index])?.clone();
        let (plans, seed) = (plans.subscribe(), self.seed ^ u64::from(turn) << 32);
        let (stock, queries) = (Rc::clone(&self.stock), Arc::clone(&self.queries));
        let places = Arc::clone(&self.places);
        let make = move || {
            let asked = AskedAgent {
                plans: plans.clone(),
                index,
                check: check.clone(),
                jitter: Jitter::new(seed),
                stock: Rc::clone(&stock),
                queries: Arc::clone(&queries),
                places: Arc::clone(&places),
            };
            asked.keep_asked()
        };
        Some(tokio::task::spawn_local(weir_tasks::keep("the agent of a server", make)).abort_handle().into())
    }
}
