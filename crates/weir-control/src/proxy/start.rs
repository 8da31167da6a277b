//! The second part of the start: the workers, the control thread and the one that probes.

use std::io;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{Notify, watch};
use weir_config::{Config, ListenAddress};
use weir_discovery::RememberedServers;

use super::Proxy;
use super::admin_socket::AdminSocket;
use super::discovered::DiscoveredServers;
use super::first_plan::{FirstPlan, WorkerChannels};
use super::handover;
use super::open::{OpenedAdmin, OpenedProxy, OpenedRuntime};
use super::restart_only::RestartOnly;
use crate::administration::admin;
use crate::administration::admin_access::AdminAccess;
use crate::administration::admin_operations::{Operations, ScrapeSlots};
use crate::administration::runtime_socket;
use crate::administration::statistics::live_rates::LiveRates;
use crate::administration::statistics::overview::{BoundListeners, Sources, unix_ms};
use crate::lifecycle::privileges::report_denied_calls;
use crate::lifecycle::sockets::inherited_sockets::InheritedSockets;
use crate::lifecycle::upgrade::handover::{HandedState, Handover};
use crate::memory::{MemoryFiles, MemorySources, MemoryThread, MemoryView};
use crate::proxy::background_tasks::{self, TaskConfig};
use crate::servers::modes::ServerModes;
use crate::start_error::StartError;
use crate::system::threads;
use crate::telemetry::logs::access_log::AccessLogs;
use crate::telemetry::refusals;
use crate::workers::commands::CommandSender;
use weir_proxy::net::cpus;
use weir_proxy::net::listening::BoundAddress;
use weir_proxy::state::crashes::faults;
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::worker::apply_config::ConfigUpdate;
use weir_proxy::worker::{self, WorkerStart};

/// Steps of the control thread after its end was ordered: an answer that is known by then is sent in a few.
const LAST_STEPS: usize = 64;

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
        let OpenedProxy {
            sockets, admin, runtime, logs, pid_file, memory, offered, generations, state, ..
        } = opened;
        report_denied_calls()?;
        let is_handed = !offered.is_empty();
        let (of_file, (config, discovered, known)) = (config, first_config(config, &state));
        let config = &config;
        let (first, channels) = FirstPlan::new(config, &memory, generations)?;
        let logs = AccessLogs::start(config, logs).map_err(StartError::AccessLog)?;
        first.use_addresses(&state, &known);
        let hand_over = first.hand_over(config, is_handed.then_some(&state));
        let (task_configs, next_task_configs) = unbounded_channel();
        let mut proxy = Self {
            shared: first.shared,
            descriptors: first.descriptors,
            memory_plan: first.memory_plan,
            memory_view: MemoryView::default(),
            memory: None,
            current: Arc::new(ArcSwap::new(first.snapshot)),
            inputs: first.inputs,
            restart_only: RestartOnly::new(config),
            shards: first.shards,
            listening_sockets: sockets.listening_sockets,
            admin: None,
            runtime: None,
            modes: None,
            // Until the start has succeeded, the sockets are the other process's.
            left_to: is_handed.then(|| left_as_a_whole(config)),
            held_back: Some(sockets.assignments),
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
            changes: first.changes,
            control: None,
            control_tasks: None,
            stop_control: Arc::new(Notify::new()),
            task_configs,
            checks: None,
            acme: None,
            passwords: first.passwords,
            pid_file,
            logs: Some(logs),
            reloads: Arc::default(),
            hand_over,
            watcher: None,
            announcements: Arc::default(),
            _registration: threads::register(),
            queries: first.queries,
            trace_counts: Arc::clone(&first.traces.counts),
            traces: Some(first.traces),
        };
        proxy.run(config, &state, (admin, runtime), channels, next_task_configs)?;
        proxy.memory = Some(MemoryThread::start(proxy.memory_sources(memory))?);
        proxy.ask_sources(known);
        Ok(proxy)
    }

    /// Starts the workers, then the control thread.
    fn run(
        &mut self,
        config: &Config,
        state: &HandedState,
        sockets: (Option<OpenedAdmin>, Option<OpenedRuntime>),
        channels: Vec<WorkerChannels>,
        task_configs: UnboundedReceiver<TaskConfig>,
    ) -> Result<(), StartError> {
        let snapshot = self.current.load_full();
        self.resume(config, &snapshot, state);
        let control = self.open_control(config, sockets, state)?;
        for (index, channels) in channels.into_iter().enumerate() {
            self.start_worker(config, &snapshot, index, channels)?;
        }
        self.start_control(control, &snapshot, task_configs)
    }

    /// Goes on with what the process before has found out.
    fn resume(&self, config: &Config, snapshot: &Snapshot, state: &HandedState) {
        handover::mark_down(snapshot, state);
        handover::resume_agents(snapshot, state);
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
        let WorkerChannels { datagrams, inbox: handed_over, changes, queries } = channels;
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
            datagrams,
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
            self.commands.clone(),
        ));
        let current = Arc::clone(&self.current);
        let refusals = move || refusals::report(Arc::clone(&current));
        runtime.spawn(weir_tasks::keep("the lines about what is refused", refusals));
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
