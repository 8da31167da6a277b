//! The start: binds every address, then starts the workers, the control thread and the one that probes.

use std::io;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{Config, WorkerCount};
use weir_observe::{ShardSizes, WorkerShard};
use weir_traffic::limit::ConnectionCount;

use super::Proxy;
use super::restart_only::Fixed;
use crate::control::access_log::AccessLogs;
use crate::control::admin;
use crate::control::admin_access::Guard;
use crate::control::background_tasks::{Following, keep_up};
use crate::control::commands::Wishes;
use crate::control::health::CheckThread;
use crate::control::listening_sockets::{Doors, Listened, Opened};
use crate::control::live_rates::Pulse;
use crate::control::operations::{Scrapes, Served};
use crate::control::overview::{ListenedNow, Sources, unix_ms};
use crate::control::process::{open_files_max, raise_open_files};
use crate::control::runtime_socket;
use crate::control::server_modes::Modes;
use crate::control::start_error::StartError;
use crate::control::threads;
use crate::control::trace_export::Traces;
use crate::control::worker_queries::Desk;
use crate::net::cpus;
use crate::net::descriptors::DescriptorBudget;
use crate::net::listening::{BoundAddress, SocketFile};
use crate::state::running::Asked;
use crate::state::shared::RoomWanted;
use crate::state::shared::{Accepted, Load, Shared};
use crate::state::snapshot::Snapshot;
use crate::state::surroundings::Surroundings;
use crate::worker::apply_config::{DoorTurn, Turn};
use crate::worker::{self, WorkerStart};

/// What a worker begins with, and where it hears of more.
struct WorkerEnds {
    doors: Vec<DoorTurn>,
    inbox: UnboundedReceiver<Accepted>,
    turns: UnboundedReceiver<Turn>,
    asks: UnboundedReceiver<Asked>,
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
            let guard = Arc::new(Guard::new(config)?);
            self.admin_guard = Some(Arc::clone(&guard));
            let modes = Modes::new(&self.current);
            let sources = Arc::new(self.sources(&guard, &modes));
            runtime.spawn(Arc::clone(&sources).keep_pulse());
            let (wishes, written, desk) =
                (self.wishes.clone(), Arc::clone(&self.written), Arc::clone(&self.desk));
            let scrapes = Scrapes::default();
            let served = Served { sources, modes, desk, guard, wishes, written, scrapes };
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
        served: &Arc<Served>,
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
            let (bound, address) =
                runtime_socket::bind(address, config.admin.socket_mode).map_err(refused)?;
            if let BoundAddress::Unix(path) = &address {
                self.runtime_file = SocketFile::bound_at(path).ok();
            }
            self.runtime = Some(Listened { listener: "runtime".into(), address });
            runtime.spawn(runtime_socket::serve(bound, Arc::clone(served)));
        }
        Ok(())
    }

    /// What an overview is made of.
    fn sources(&self, guard: &Arc<Guard>, modes: &Arc<Modes>) -> Sources {
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
