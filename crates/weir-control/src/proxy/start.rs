//! The second part of the start: the workers, the control thread and the one that probes.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::mpsc::channel;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, watch};
use weir_config::{Config, FailBack, ListenAddress};
use weir_discovery::RememberedServers;
use weir_observe::{ShardSizes, WorkerShard};
use weir_traffic::limit::ConnectionCount;

use super::Proxy;
use super::admin_socket::AdminSocket;
use super::discovered::DiscoveredServers;
use super::handover;
use super::known_addresses;
use super::open::{OpenedAdmin, OpenedProxy, OpenedRuntime, worker_count};
use super::restart_only::RestartOnly;
use crate::administration::admin;
use crate::administration::admin_access::AdminAccess;
use crate::administration::admin_operations::{Operations, ScrapeSlots};
use crate::administration::runtime_socket;
use crate::administration::statistics::live_rates::LiveRates;
use crate::administration::statistics::overview::{BoundListeners, Sources, unix_ms};
use crate::cluster::node::hand_over::HandOver;
use crate::lifecycle::privileges::report_denied_calls;
use crate::lifecycle::process::open_files_max;
use crate::lifecycle::sockets::inherited_sockets::InheritedSockets;
use crate::lifecycle::sockets::listening_sockets::OpenedSockets;
use crate::lifecycle::upgrade::handover::{HandedState, Handover};
use crate::memory::{MemoryFiles, MemoryPlan, MemorySources, MemoryThread, MemoryView};
use crate::proxy::background_tasks::{self, TaskConfig};
use crate::servers::modes::ServerModes;
use crate::start_error::StartError;
use crate::system::threads;
use crate::telemetry::logs::access_log::AccessLogs;
use crate::telemetry::trace_export::TraceExport;
use crate::tls::credentials::PasswordThreads;
use crate::tls::internal_authority;
use crate::workers::commands::CommandSender;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::cpus;
use weir_proxy::net::descriptors::DescriptorBudget;
use weir_proxy::net::listening::BoundAddress;
use weir_proxy::state::budgets::memory_guard::MemoryGuard;
use weir_proxy::state::connections::connection_list::WorkerQuery;
use weir_proxy::state::crashes::faults;
use weir_proxy::state::servers::plan_inputs::PlanInputs;
use weir_proxy::state::shared::RoomRequest;
use weir_proxy::state::shared::{AcceptedConnection, Load, Shared};
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::worker::apply_config::{ConfigUpdate, WorkerChange};
use weir_proxy::worker::{self, WorkerStart};

/// Steps of the control thread after its end was ordered: an answer that is known by then is sent in a few.
const LAST_STEPS: usize = 64;

/// The channels of a worker.
struct WorkerChannels {
    inbox: UnboundedReceiver<AcceptedConnection>,
    changes: UnboundedReceiver<WorkerChange>,
    queries: UnboundedReceiver<WorkerQuery>,
}

impl Proxy {
    /// Binds every address of `config` and accepts connections.
    ///
    /// # Errors
    /// When an address, a log or a thread cannot be had; nothing runs then.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let opened = OpenedProxy::open(config, InheritedSockets::default(), Handover::default())?;
        let mut proxy = Self::start_opened(config, opened, CommandSender::disconnected())?;
        proxy.await_names(Duration::MAX, Duration::MAX);
        proxy.accept()?;
        Ok(proxy)
    }

    /// Starts the workers with what was opened for `config` before, and begins to ask for what is not known yet. No connection is accepted before
    /// [`Proxy::accept`]. Commands that only the owner of the proxy can execute go to `commands`.
    ///
    /// # Errors
    /// As [`Proxy::start`].
    pub fn start_opened(
        config: &Config,
        opened: OpenedProxy,
        commands: CommandSender,
    ) -> Result<Self, StartError> {
        // Open until the plans have them.
        let _key_logs = opened.key_logs;
        let OpenedProxy { sockets, admin, runtime, logs, pid_file, memory, offered, state, .. } = opened;
        let OpenedSockets { listening_sockets, assignments, .. } = sockets;
        report_denied_calls()?;
        let is_handed = !offered.is_empty();
        let (of_file, (config, discovered, known)) = (config, first_config(config, &state));
        let config = &config;
        let inputs = plan_inputs(config)?;
        let workers = inputs.workers;
        let descriptors = DescriptorBudget::new(open_files_max(), config, workers);
        descriptors.take_effect();
        let memory_plan = MemoryPlan::new(memory.budget(&config.process), config, workers);
        let mut snapshot = Snapshot::new(config, &inputs)?;
        internal_authority::prepare(&snapshot)?;
        let logs = AccessLogs::start(config, logs).map_err(StartError::AccessLog)?;

        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (changes, next_changes): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (task_configs, next_task_configs) = unbounded_channel();
        let (queries, next_queries) = WorkerQueries::new(workers, &config.recorder);
        let queries = Arc::new(queries);
        let mut traces = TraceExport::new(&queries, &inputs.via_name);
        snapshot.traces = traces.follow(config, workers).map_err(StartError::Traces)?;
        let snapshot = Arc::new(snapshot);
        queries.names.learn(&snapshot);
        let sizes = ShardSizes { listeners: 0, servers: &[] };
        let shared = Arc::new(share(&descriptors, &memory_plan, senders));
        let mut passwords = PasswordThreads::new(&shared.passwords);
        passwords.follow(&snapshot)?;
        let shards: Vec<_> = (0..workers).map(|_| Arc::new(WorkerShard::new(sizes))).collect();
        known_addresses::use_known(&snapshot.upstreams, &state.names);
        known_addresses::use_stored(&snapshot.upstreams, known.names());
        let is_standby = if is_handed { state.is_standby } else { starts_on_standby(config) };
        let hand_over = Arc::new(HandOver::new(&shared, &shards, &queries, is_standby));
        let mut proxy = Self {
            shared,
            descriptors,
            memory_plan,
            memory_view: MemoryView::default(),
            memory: None,
            current: Arc::new(ArcSwap::new(Arc::clone(&snapshot))),
            inputs,
            restart_only: RestartOnly::new(config),
            shards,
            listening_sockets,
            admin: None,
            runtime: None,
            modes: None,
            // Until the start has succeeded, the sockets are the other process's.
            left_to: is_handed.then(|| left_as_a_whole(config)),
            held_back: Some(assignments),
            admin_accepts: watch::Sender::new(!is_handed),
            first_answers: Some(channel()),
            offered,
            file_config: Arc::new(ArcSwap::from_pointee(of_file.clone())),
            in_use: config.clone(),
            discovered,
            names_changed: Arc::default(),
            commands,
            admin_access: None,
            bound_now: BoundListeners::default(),
            workers: Vec::new(),
            stop_workers: Vec::new(),
            changes,
            control: None,
            control_tasks: None,
            stop_control: Arc::new(Notify::new()),
            task_configs,
            checks: None,
            acme: None,
            passwords,
            pid_file,
            logs: Some(logs),
            reloads: Arc::default(),
            hand_over,
            watcher: None,
            announcements: Arc::default(),
            _registration: threads::register(),
            queries,
            trace_counts: Arc::clone(&traces.counts),
            traces: Some(traces),
        };
        proxy.resume(config, &snapshot, &state);
        let control = proxy.open_control(config, (admin, runtime), &state)?;
        let channels = inboxes.into_iter().zip(next_changes).zip(next_queries);
        for (index, ((inbox, changes), queries)) in channels.enumerate() {
            proxy.start_worker(config, &snapshot, index, WorkerChannels { inbox, changes, queries })?;
        }
        proxy.start_control(control, &snapshot, next_task_configs)?;
        proxy.memory = Some(MemoryThread::start(proxy.memory_sources(memory))?);
        proxy.ask_sources(known);
        Ok(proxy)
    }

    /// Goes on with what the process before has found out.
    fn resume(&self, config: &Config, snapshot: &Snapshot, state: &HandedState) {
        handover::mark_down(snapshot, state);
        handover::resume_tables(config, snapshot, state);
        if state.is_handed_over {
            self.hand_over.resume();
        }
    }

    fn start_worker(
        &mut self,
        config: &Config,
        snapshot: &Arc<Snapshot>,
        index: usize,
        channels: WorkerChannels,
    ) -> Result<(), StartError> {
        let WorkerChannels { inbox: handed_over, changes, queries } = channels;
        let stop = Arc::new(Notify::new());
        let start = WorkerStart {
            index,
            shared: Arc::clone(&self.shared),
            shard: Arc::clone(&self.shards[index]),
            first: ConfigUpdate {
                snapshot: Arc::clone(snapshot),
                logs: self.logs_of(index),
                // It gets them when connections are accepted.
                sockets: Vec::new(),
                done: None,
            },
            changes,
            handed_over,
            recorder: config.recorder.clone(),
            queries,
            stop: Arc::clone(&stop),
            random_seed: self.inputs.seed.rotate_left(index as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        let cpus = if config.process.pin_workers { cpus::usable() } else { Vec::new() };
        let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
        let commands = self.commands.clone();
        let run = move || {
            let _registration = threads::register();
            if let Some(cpu) = cpu {
                cpus::pin(cpu);
            }
            if let Err(error) = worker::run(start) {
                let part = format!("weir-worker-{index}");
                tracing::error!(worker = index, %error, "a worker does not work any more: the process ends");
                commands.give_up(&part, format!("the worker {index} does not work any more: {error}"));
            }
        };
        self.stop_workers.push(stop);
        self.workers.push(std::thread::Builder::new().name(format!("weir-worker-{index}")).spawn(run)?);
        Ok(())
    }

    /// Binds the admin address and the runtime socket. They are served once the control thread runs.
    fn open_control(
        &mut self,
        config: &Config,
        (admin, runtime_socket): (Option<OpenedAdmin>, Option<OpenedRuntime>),
        state: &HandedState,
    ) -> Result<Runtime, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        if config.admin.address.is_some() || config.admin.socket.is_some() {
            let access = Arc::new(AdminAccess::new(config)?);
            self.admin_access = Some(Arc::clone(&access));
            let modes = ServerModes::new(&self.current);
            self.modes = Some(Arc::clone(&modes));
            {
                // Tasks watch servers that leave service.
                let _inside = runtime.enter();
                handover::set_modes(config, &modes, state);
            }
            let sources = Arc::new(self.sources(&access, &modes));
            let sampled = Arc::clone(&sources);
            let sample = move || Arc::clone(&sampled).sample_live_rates();
            runtime.spawn(weir_tasks::keep("the samples of live rates", sample));
            let (commands, file_config, queries) =
                (self.commands.clone(), Arc::clone(&self.file_config), Arc::clone(&self.queries));
            let (scrape_slots, hand_over) = (ScrapeSlots::default(), Arc::clone(&self.hand_over));
            let operations = Operations {
                sources,
                modes,
                queries,
                access,
                commands,
                file_config,
                scrape_slots,
                hand_over,
            };
            self.serve_admin(config, (admin, runtime_socket), &runtime, &Arc::new(operations))?;
        }
        self.bound_now.store(Arc::new(self.bound_listeners()));
        Ok(runtime)
    }

    /// Starts the thread that resolves names, judges servers and serves figures.
    fn start_control(
        &mut self,
        runtime: Runtime,
        snapshot: &Arc<Snapshot>,
        task_configs: UnboundedReceiver<TaskConfig>,
    ) -> Result<(), StartError> {
        weir_tasks::strike_tasks_by(faults::strike_task);
        let (due_upstreams, queries) = (Arc::clone(&self.inputs.due_upstreams), Arc::clone(&self.queries));
        let current = Arc::clone(&self.current);
        runtime.spawn(background_tasks::run(
            task_configs,
            due_upstreams,
            queries,
            current,
            Arc::clone(&self.names_changed),
        ));
        let stop = Arc::clone(&self.stop_control);
        let control = std::thread::Builder::new().name("weir-control".into());
        self.control_tasks = Some(runtime.handle().clone());
        self.control = Some(control.spawn(move || {
            let _registration = threads::register();
            runtime.block_on(async {
                stop.notified().await;
                // The answer to the command that has replaced this process may be on its way to its task.
                for _ in 0..LAST_STEPS {
                    tokio::task::yield_now().await;
                }
            });
        })?);
        self.follow_in_background(snapshot);
        Ok(())
    }

    /// Serves the admin address and the runtime socket.
    fn serve_admin(
        &mut self,
        config: &Config,
        (admin, socket): (Option<OpenedAdmin>, Option<OpenedRuntime>),
        runtime: &Runtime,
        operations: &Arc<Operations>,
    ) -> io::Result<()> {
        if let (Some((listener, bound)), Some(address)) = (admin, config.admin.address) {
            let kept = listener.try_clone()?.into();
            let serving = self.once_admin_accepts(admin::serve(listener, Arc::clone(operations)));
            let accepting = runtime.spawn(serving).abort_handle();
            let (address, bound) = (ListenAddress::Tcp(address), BoundAddress::Inet(bound));
            self.admin = Some(AdminSocket::new("admin", address, bound, None, kept, accepting));
        }
        if let (Some(OpenedRuntime { listener, address: bound, file }), Some(address)) =
            (socket, &config.admin.socket)
        {
            let kept = listener.as_fd().try_clone_to_owned()?;
            let serving = self.once_admin_accepts(runtime_socket::serve(listener, Arc::clone(operations)));
            let accepting = runtime.spawn(serving).abort_handle();
            self.runtime = Some(AdminSocket::new("runtime", address.clone(), bound, file, kept, accepting));
        }
        Ok(())
    }

    /// Waits until the process before accepts nothing on these sockets any more, if there is one.
    fn once_admin_accepts<F: Future>(&self, serve: F) -> impl Future<Output = ()> + use<F> {
        let mut accepts = self.admin_accepts.subscribe();
        async move {
            if accepts.wait_for(|accepts| *accepts).await.is_ok() {
                serve.await;
            }
        }
    }

    fn memory_sources(&self, files: MemoryFiles) -> MemorySources {
        MemorySources {
            files,
            plan: self.memory_plan,
            current: Arc::clone(&self.current),
            shared: Arc::clone(&self.shared),
            shards: self.shards.clone(),
            queries: Arc::clone(&self.queries),
            view: Arc::clone(&self.memory_view),
        }
    }

    /// The sources of an overview.
    fn sources(&self, access: &Arc<AdminAccess>, modes: &Arc<ServerModes>) -> Sources {
        Sources {
            shards: self.shards.clone(),
            shared: Arc::clone(&self.shared),
            current: Arc::clone(&self.current),
            reloads: Arc::clone(&self.reloads),
            traces: Arc::clone(&self.trace_counts),
            modes: Arc::clone(modes),
            bound: Arc::clone(&self.bound_now),
            via_name: self.inputs.via_name.clone(),
            access: Arc::clone(access),
            hand_over: Arc::clone(&self.hand_over),
            announcements: Arc::clone(&self.announcements),
            started_ms: unix_ms(),
            memory: Arc::clone(&self.memory_view),
            live_rates: LiveRates::default(),
        }
    }
}

/// Every socket of every address is another process's.
fn left_as_a_whole(config: &Config) -> Vec<usize> {
    vec![usize::MAX; config.listeners.iter().map(|it| it.addresses.len()).sum()]
}

/// The config of the file with all that is known of servers before a source is asked, and what is known.
fn first_config(config: &Config, state: &HandedState) -> (Config, DiscoveredServers, RememberedServers) {
    let known = RememberedServers::stored(&config.discovery).handed_over(state.sources.clone());
    let mut discovered = DiscoveredServers::default();
    let complete = discovered.begin_with(&known, config);
    (handover::changed(&complete, state), discovered, known)
}

/// Whether the node leaves the shared address to the other one at first.
fn starts_on_standby(config: &Config) -> bool {
    config.process.keepalived.as_ref().is_some_and(|it| it.fail_back == FailBack::ByCommand)
}

/// The parts that workers share, made for as many as `hand_over` reaches.
fn share(
    descriptors: &DescriptorBudget,
    memory: &MemoryPlan,
    hand_over: Vec<UnboundedSender<AcceptedConnection>>,
) -> Shared {
    Shared {
        loads: hand_over.iter().map(|_| Load::default()).collect(),
        room_requests: hand_over.iter().map(|_| RoomRequest::default()).collect(),
        hand_over: hand_over.into(),
        connections: ConnectionCount::new(descriptors.clients),
        memory: MemoryGuard::default(),
        buffers_max: memory.buffers_max,
        passwords: Arc::default(),
        places: Default::default(),
        node_hand_over: Default::default(),
        stop_announced: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        replaced: AtomicBool::new(false),
        closed: AtomicUsize::new(0),
    }
}

/// The parts that the workers of `config` share.
fn plan_inputs(config: &Config) -> io::Result<PlanInputs> {
    let workers = worker_count(config);
    let seed = random_seed()?;
    let via_name = match &config.process.name {
        Some(name) => name.to_string(),
        None => format!("weir-{:08x}", seed as u32),
    };
    let via_name = via_name.into();
    let (due_upstreams, issuers) = (Arc::default(), Arc::default());
    Ok(PlanInputs { via_name, seed, workers: workers.get(), due_upstreams, issuers })
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}
