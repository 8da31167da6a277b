//! The running proxy: starts the workers, the control thread and the one that probes, stops them, and answers for
//! their figures.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{Config, WorkerCount};
use weir_observe::{ShardSizes, Stats, WorkerShard};
use weir_traffic::limit::ConnectionCount;

use crate::control::access_log::AccessLogs;
use crate::control::admin;
use crate::control::commands::{Wishes, Written};
use crate::control::doors::{Doors, Opened};
use crate::control::figures::collect;
use crate::control::health::CheckThread;
use crate::control::modes::Modes;
use crate::control::overview::{ListenedNow, Sources, unix_ms};
use crate::control::profile::threads::{self, Enrolment};
use crate::control::pulse::Pulse;
use crate::control::recorder::Desk;
use crate::control::reload::{Fixed, Reloads};
use crate::control::runtime;
use crate::control::traces::{TraceCounts, Traces};
use crate::control::upkeep::{Following, keep_up};
use crate::net::clock::{self, Instant};
use crate::net::cpus;
use crate::net::descriptors::DescriptorBudget;
use crate::net::listening::{BoundAddress, SocketFile};
use crate::state::log_batches::LogBatches;
use crate::state::running::Asked;
use crate::state::shared::RoomWanted;
use crate::state::shared::{Accepted, Load, Shared};
use crate::state::snapshot::{Current, Snapshot};
use crate::state::surroundings::{Surroundings, TlsError};
use crate::worker::apply_config::{DoorTurn, Turn};
use crate::worker::{self, WorkerStart};

/// How much longer than one DNS answer may take the start waits for names.
const NAMES_GRACE: Duration = Duration::from_millis(500);

/// How often a stop looks whether it is over.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// How long the workers have to end the sessions that a stop cuts: it is a matter of milliseconds, unless one is stuck.
const CUT_TIME: Duration = Duration::from_secs(1);

/// When those are told once more that did not hear of it, since they were not waiting.
const CUT_AGAIN: Duration = Duration::from_millis(100);

/// Why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("listener `{listener}` cannot use {address}: {error}")]
    Bind {
        /// The listener in the config.
        listener: Box<str>,
        /// The address as the config has it.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The admin address cannot be bound.
    #[error("the admin listener cannot use {address}: {error}")]
    BindAdmin {
        /// The address as the config has it.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The runtime socket cannot be bound.
    #[error("the runtime socket cannot use {address}: {error}")]
    BindSocket {
        /// The address as the config has it.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// TLS of a listener cannot be made ready.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access log cannot be opened.
    #[error("{0}")]
    AccessLog(io::Error),
    /// Spans cannot be exported.
    #[error("traces cannot be exported: {0}")]
    Traces(io::Error),
    /// The system refuses threads, event queues or random numbers.
    #[error("a worker cannot be started: {0}")]
    Worker(#[from] io::Error),
}

/// An address in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listened {
    /// The listener in the config; `admin` for the admin listener, `runtime` for the runtime socket.
    pub listener: Box<str>,
    /// The address, with the port that the system chose where the config left it open.
    pub address: BoundAddress,
}

/// How the stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Exchanges and tunnels that were cut because their time was up. Idle sessions lose nothing.
    pub cut: u64,
}

/// What a worker begins with, and where it hears of more.
struct WorkerEnds {
    doors: Vec<DoorTurn>,
    inbox: UnboundedReceiver<Accepted>,
    turns: UnboundedReceiver<Turn>,
    asks: UnboundedReceiver<Asked>,
}

/// A running proxy. Dropping it stops it at once.
pub struct Proxy {
    pub(crate) shared: Arc<Shared>,
    pub(crate) descriptors: DescriptorBudget,
    pub(crate) current: Current,
    pub(crate) around: Surroundings,
    /// What a reload cannot change.
    pub(crate) fixed: Fixed,
    pub(crate) shards: Vec<Arc<WorkerShard>>,
    pub(crate) doors: Doors,
    admin: Option<Listened>,
    runtime: Option<Listened>,
    /// That of the runtime socket, if it is a Unix socket.
    runtime_file: Option<SocketFile>,
    /// The config as its file has it, and with what was changed since.
    pub(crate) written: Written,
    pub(crate) in_use: Config,
    wishes: Wishes,
    pub(crate) admin_guard: Option<Arc<admin::Guard>>,
    /// What [`Proxy::listened`] says, for the control thread.
    pub(crate) listened_now: ListenedNow,
    workers: Vec<JoinHandle<io::Result<()>>>,
    stop_workers: Vec<Arc<Notify>>,
    /// How each worker hears of another config.
    pub(crate) turns: Vec<UnboundedSender<Turn>>,
    control: Option<JoinHandle<()>>,
    stop_control: Arc<Notify>,
    pub(crate) followings: UnboundedSender<Following>,
    pub(crate) checks: Option<CheckThread>,
    pub(crate) logs: Option<AccessLogs>,
    pub(crate) traces: Option<Traces>,
    trace_counts: Arc<TraceCounts>,
    pub(crate) reloads: Arc<Reloads>,
    /// The thread that has started it, and that reloads.
    _enrolled: Enrolment,
    /// Where the recorders of the workers are asked.
    pub(crate) desk: Arc<Desk>,
}

impl Proxy {
    /// Binds every address of `config` and starts the workers.
    ///
    /// # Errors
    /// When an address, a log or a thread cannot be had; nothing runs then.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_obeying(config, Wishes::nobody())
    }

    /// The same; what is wanted of the process while it runs goes to `wishes`.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub fn start_obeying(config: &Config, wishes: Wishes) -> Result<Self, StartError> {
        raise_open_files();
        let around = surroundings(config)?;
        let workers = around.workers;
        let descriptors = DescriptorBudget::new(open_files_max(), config, workers);
        descriptors.take_effect();
        let mut snapshot = Snapshot::new(config, &around)?;
        let Opened { doors, turns: door_turns, .. } = Doors::default().succeeded_by(config, workers)?;
        let logs = AccessLogs::open(config).map_err(StartError::AccessLog)?;

        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (turns, next_turns): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (followings, next_followings) = unbounded_channel();
        let (desk, next_asks) = Desk::new(workers, &config.recorder);
        let desk = Arc::new(desk);
        let mut traces = Traces::new(&desk, &around.via_name);
        snapshot.traces = traces.follow(config, workers).map_err(StartError::Traces)?;
        let snapshot = Arc::new(snapshot);
        desk.names.learn(&snapshot);
        let sizes = ShardSizes { listeners: 0, servers: &[] };
        let mut proxy = Self {
            shared: Arc::new(share(&descriptors, senders)),
            descriptors,
            current: Arc::new(ArcSwap::new(Arc::clone(&snapshot))),
            around,
            fixed: Fixed::of(config),
            shards: (0..workers).map(|_| Arc::new(WorkerShard::new(sizes))).collect(),
            doors,
            admin: None,
            runtime: None,
            runtime_file: None,
            written: Arc::new(ArcSwap::from_pointee(config.clone())),
            in_use: config.clone(),
            wishes,
            admin_guard: None,
            listened_now: ListenedNow::default(),
            workers: Vec::new(),
            stop_workers: Vec::new(),
            turns,
            control: None,
            stop_control: Arc::new(Notify::new()),
            followings,
            checks: None,
            logs: Some(logs),
            reloads: Arc::default(),
            _enrolled: threads::enrol(),
            desk,
            trace_counts: Arc::clone(&traces.counts),
            traces: Some(traces),
        };
        let ends = door_turns.into_iter().zip(inboxes).zip(next_turns).zip(next_asks);
        for (index, (((doors, inbox), turns), asks)) in ends.enumerate() {
            proxy.start_worker(config, &snapshot, index, WorkerEnds { doors, inbox, turns, asks })?;
        }
        proxy.start_control(config, &snapshot, next_followings)?;
        Ok(proxy)
    }

    fn start_worker(
        &mut self,
        config: &Config,
        snapshot: &Arc<Snapshot>,
        index: usize,
        ends: WorkerEnds,
    ) -> Result<(), StartError> {
        let WorkerEnds { doors, inbox: handed_over, turns, asks } = ends;
        let stop = Arc::new(Notify::new());
        let start = WorkerStart {
            index,
            shared: Arc::clone(&self.shared),
            shard: Arc::clone(&self.shards[index]),
            first: Turn { snapshot: Arc::clone(snapshot), logs: self.logs_of(index), doors, done: None },
            turns,
            handed_over,
            recorder: config.recorder.clone(),
            asks,
            stop: Arc::clone(&stop),
            random_seed: self.around.seed.rotate_left(index as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let cpus = if config.process.pin_workers { cpus::usable() } else { Vec::new() };
        let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
        let run = move || {
            let _enrolled = threads::enrol();
            if let Some(cpu) = cpu {
                cpus::pin(cpu);
            }
            worker::run(start)
        };
        self.stop_workers.push(stop);
        self.workers.push(std::thread::Builder::new().name(format!("weir-worker-{index}")).spawn(run)?);
        Ok(())
    }

    /// Starts the threads that resolve names, judge servers and serve figures, and that probe servers.
    fn start_control(
        &mut self,
        config: &Config,
        snapshot: &Arc<Snapshot>,
        followings: UnboundedReceiver<Following>,
    ) -> Result<(), StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if config.admin.address.is_some() || config.admin.socket.is_some() {
            let guard = Arc::new(admin::Guard::new(config)?);
            self.admin_guard = Some(Arc::clone(&guard));
            let modes = Modes::new(&self.current);
            let sources = Arc::new(self.sources(&guard, &modes));
            runtime.spawn(Arc::clone(&sources).keep_pulse());
            let (wishes, written, desk) =
                (self.wishes.clone(), Arc::clone(&self.written), Arc::clone(&self.desk));
            let scrapes = admin::Scrapes::default();
            let served = admin::Served { sources, modes, desk, guard, wishes, written, scrapes };
            self.bind_admin(config, &runtime, &Arc::new(served))?;
        }
        self.listened_now.store(Arc::new(self.listened()));
        runtime.spawn(keep_up(followings, Arc::clone(&self.around.due_upstreams)));
        let stop = Arc::clone(&self.stop_control);
        let control = std::thread::Builder::new().name("weir-control".into());
        self.control = Some(control.spawn(move || {
            let _enrolled = threads::enrol();
            runtime.block_on(stop.notified());
        })?);
        self.follow_on_control(snapshot);
        // Only now: a server whose name has not been asked for yet is not dead.
        self.checks = CheckThread::start(snapshot, &self.desk, self.around.seed)?;
        Ok(())
    }

    /// Binds the admin address and the runtime socket, and has them served.
    fn bind_admin(
        &mut self,
        config: &Config,
        runtime: &tokio::runtime::Runtime,
        served: &Arc<admin::Served>,
    ) -> Result<(), StartError> {
        if let Some(address) = config.admin.address {
            let (listener, bound) =
                admin::bind(address).map_err(|error| StartError::BindAdmin { address, error })?;
            self.admin = Some(Listened { listener: "admin".into(), address: BoundAddress::Inet(bound) });
            runtime.spawn(admin::serve(listener, Arc::clone(served)));
        }
        if let Some(address) = &config.admin.socket {
            let refused = |error| StartError::BindSocket { address: address.to_string(), error };
            // Sockets of Tokio are made inside its runtime.
            let (bound, address) = runtime::bind(address, config.admin.socket_mode).map_err(refused)?;
            if let BoundAddress::Unix(path) = &address {
                self.runtime_file = SocketFile::bound_at(path).ok();
            }
            self.runtime = Some(Listened { listener: "runtime".into(), address });
            runtime.spawn(runtime::serve(bound, Arc::clone(served)));
        }
        Ok(())
    }

    /// What an overview is made of.
    fn sources(&self, guard: &Arc<admin::Guard>, modes: &Arc<Modes>) -> Sources {
        Sources {
            shards: self.shards.clone(),
            shared: Arc::clone(&self.shared),
            current: Arc::clone(&self.current),
            reloads: Arc::clone(&self.reloads),
            traces: Arc::clone(&self.trace_counts),
            modes: Arc::clone(modes),
            listened: Arc::clone(&self.listened_now),
            via_name: self.around.via_name.clone(),
            guard: Arc::clone(guard),
            started_ms: unix_ms(),
            pulse: Pulse::default(),
        }
    }

    /// Has the control thread look after what the config names, and waits until every new name has had its first answer, or with
    /// patience: a name may also come up later.
    pub(crate) fn follow_on_control(&self, snapshot: &Arc<Snapshot>) {
        let (asked, all_asked) = channel();
        let _stopped = self.followings.send(Following { snapshot: Arc::clone(snapshot), asked });
        let _timed_out = all_asked.recv_timeout(snapshot.dns.timeout + NAMES_GRACE);
    }

    /// The ends of the access log for a worker.
    pub(crate) fn logs_of(&self, worker: usize) -> Vec<Option<LogBatches>> {
        self.logs.as_ref().map(|logs| logs.for_worker(&self.shards[worker])).unwrap_or_default()
    }

    /// The addresses in use, in the order of the config, those of the admin listener and the runtime socket last.
    pub fn listened(&self) -> Vec<Listened> {
        let mut listened = self.doors.listened();
        listened.extend(self.admin.clone());
        listened.extend(self.runtime.clone());
        listened
    }

    /// Who has which share of the descriptors of the process, by the config in use.
    pub const fn descriptor_budget(&self) -> &DescriptorBudget {
        &self.descriptors
    }

    /// How many workers run.
    pub fn worker_count(&self) -> usize {
        self.shards.len()
    }

    /// The sum of what all workers have counted.
    pub fn figures(&self) -> Stats {
        collect(&self.shards, &self.current.load(), &self.reloads, &self.trace_counts)
    }

    /// Client connections that are open.
    pub fn connections_open(&self) -> u64 {
        let open = self.shards.iter().map(|shard| shard.connections_open.value()).sum::<i64>();
        u64::try_from(open).unwrap_or(0)
    }

    /// Opens the files of the access log again.
    pub fn reopen_logs(&self) {
        if let Some(logs) = &self.logs {
            logs.reopen();
        }
    }

    /// Says where it is asked for that the process is about to stop, and goes on as before for `delay`, or until `hurry` says that there is
    /// no more time.
    pub fn announce_stop(&self, delay: Duration, mut hurry: impl FnMut(&Self) -> bool) {
        self.shared.stop_announced.store(true, Ordering::SeqCst);
        let end = clock::now() + delay;
        while clock::now() < end && !hurry(self) {
            clock::pause(STOP_LOOK);
        }
    }

    /// Stops accepting and lets idle sessions end; running exchanges go on.
    pub fn begin_stop(&self) {
        self.shared.stop_announced.store(true, Ordering::SeqCst);
        self.shared.stopping.store(true, Ordering::SeqCst);
        // New connections are refused from now on, and those in a backlog are accepted before it is closed.
        self.doors.refuse_new();
        self.doors.files().for_each(SocketFile::remove);
        for stop in &self.stop_workers {
            stop.notify_one();
        }
    }

    /// Whether every session has ended after [`Proxy::begin_stop`].
    pub fn is_drained(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Exchanges and tunnels that run.
    fn running(&self) -> u64 {
        let of_worker = |shard: &Arc<WorkerShard>| shard.exchanges_open.value() + shard.tunnels_open.value();
        u64::try_from(self.shards.iter().map(of_worker).sum::<i64>()).unwrap_or(0)
    }

    /// Tunnels that were ended because their time was up.
    fn tunnels_drained(&self) -> u64 {
        // Not by the failures: a request that a stop answers with 503 has its answer.
        self.shards.iter().map(|shard| shard.tunnels_drained.value()).sum()
    }

    /// Stops: waits up to `grace` for running exchanges, or until `hurry` says that there is no more time, then ends what is left.
    pub fn stop(mut self, grace: Duration, mut hurry: impl FnMut(&Self) -> bool) -> Stopped {
        let drained_before = self.tunnels_drained();
        self.begin_stop();
        let end: Instant = clock::now() + grace;
        while !self.is_drained() && clock::now() < end && !hurry(&self) {
            clock::pause(STOP_LOOK);
        }
        // Tunnels end a moment before the grace is over, so that they end properly; they are cut all the same.
        let tunnels_cut = self.tunnels_drained() - drained_before;
        let cut = tunnels_cut + if self.is_drained() { 0 } else { self.running() };
        self.cut_the_rest();
        self.stop_control.notify_one();
        self.checks = None;
        if self.is_drained() {
            for worker in self.workers.drain(..) {
                let _panicked = worker.join();
            }
            if let Some(control) = self.control.take() {
                let _panicked = control.join();
            }
        }
        // The workers write no more, so the writers can finish.
        if let Some(logs) = self.logs.take() {
            logs.close();
        }
        if let Some(traces) = self.traces.take() {
            traces.close(end);
        }
        Stopped { cut }
    }

    /// Ends the sessions that are left as if somebody had asked for it, so that each is answered, counted and logged, and gives the
    /// workers a moment for that.
    fn cut_the_rest(&self) {
        let end = clock::now() + CUT_TIME;
        while !self.is_drained() && clock::now() < end {
            self.desk.end_all();
            let asked_again = clock::now() + CUT_AGAIN;
            while !self.is_drained() && clock::now() < asked_again.min(end) {
                clock::pause(STOP_LOOK);
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.begin_stop();
        self.stop_control.notify_one();
        self.doors.files().chain(&self.runtime_file).for_each(SocketFile::remove);
    }
}

/// What the workers share, made for as many as `hand_over` reaches.
fn share(descriptors: &DescriptorBudget, hand_over: Vec<UnboundedSender<Accepted>>) -> Shared {
    Shared {
        loads: hand_over.iter().map(|_| Load::default()).collect(),
        room_wanted: hand_over.iter().map(|_| RoomWanted::default()).collect(),
        hand_over: hand_over.into(),
        connections: ConnectionCount::new(descriptors.clients),
        stop_announced: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        closed: AtomicUsize::new(0),
    }
}

/// Raises the soft limit on open files to the hard one: nobody means the soft default of 1 024 for a proxy.
fn raise_open_files() {
    let resource = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(resource);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(resource, limit) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

/// How many files the process may open.
pub(crate) fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// What the workers of `config` have in common.
fn surroundings(config: &Config) -> io::Result<Surroundings> {
    let workers = match config.process.workers {
        WorkerCount::Exactly(count) => count,
        WorkerCount::Auto => workers_by_default(),
    };
    let seed = random_seed()?;
    let via_name = match &config.process.name {
        Some(name) => name.to_string(),
        None => format!("weir-{:08x}", seed as u32),
    };
    let (via_name, due_upstreams) = (via_name.into(), Arc::default());
    Ok(Surroundings { via_name, seed, workers: workers.get(), due_upstreams })
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The number of workers that [`WorkerCount::Auto`] stands for on this machine.
pub fn workers_by_default() -> NonZeroUsize {
    NonZeroUsize::new(cpus::usable().len().min(cpus::quota())).unwrap_or(NonZeroUsize::MIN)
}
