//! The running proxy: its parts, and the requests to it while it runs.
//!
//! `open` and `start` bring it up, `reload` takes it over to another config, `handover` to another process, `stop` ends it.

mod start;
mod first_plan;
mod accept;
mod open;
mod discovered;
mod requested_names;
mod set_servers;
mod reload;
mod new_names;
mod stop;
mod handover;
mod handed_tables;
mod known_addresses;
mod admin_socket;
mod progress;
mod restart_only;
mod background_tasks;
mod map_files;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::{Notify, watch};
use weir_config::{Config, ListenAddress};
use weir_observe::{Stats, WorkerShard};

use self::admin_socket::AdminSocket;
use self::restart_only::RestartOnly;
use super::administration::statistics::collection::collect;
use super::administration::statistics::overview::BoundListeners;
use super::cluster::node::announcements;
use super::cluster::node::announcements::Announcements;
use super::cluster::node::hand_over::HandOver;
use super::cluster::node::watcher::NodeWatcher;
use super::lifecycle::pid_file::PidFile;
use super::lifecycle::sockets::listening_sockets::{BoundListener, ListeningSockets};
use super::lifecycle::upgrade::handover::AddressRole;
use super::telemetry::logs::access_log::AccessLogs;
use super::telemetry::reload_counts::ReloadCounts;
use super::telemetry::trace_counts::TraceCounts;
use super::telemetry::trace_export::TraceExport;
use super::tls::acme::AcmeThread;
use super::tls::credentials::PasswordThreads;
use super::workers::commands::{CommandSender, FileConfig};
use super::workers::worker_queries::WorkerQueries;
use crate::administration::admin_access::AdminAccess;
use crate::memory::{MemoryPlan, MemoryThread, MemoryView};
use crate::proxy::background_tasks::TaskConfig;
use crate::servers::health::ProbeThread;
use crate::servers::modes::ServerModes;
use crate::system::threads::ThreadRegistration;
use weir_proxy::net::descriptors::DescriptorBudget;
use weir_proxy::state::log_batches::WorkerLogs;
use weir_proxy::state::servers::plan_inputs::PlanInputs;
use weir_proxy::state::shared::Shared;
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot, UpstreamPlan};
use weir_proxy::worker::apply_config::WorkerChange;

use accept::WorkerSockets;
use discovered::DiscoveredServers;
pub use discovered::with_stored_servers;
pub use new_names::NewNames;
pub use open::{OpenedProxy, workers_by_default};
pub use progress::ProgressCheck;
pub use set_servers::ServerChanges;
pub use stop::StopReport;

/// How much longer than one DNS answer may take the start waits for names.
const NAMES_GRACE: Duration = Duration::from_millis(500);

/// A running proxy. Dropping it stops it at once.
pub struct Proxy {
    shared: Arc<Shared>,
    descriptors: DescriptorBudget,
    memory_plan: MemoryPlan,
    /// The last measurement of memory, and the thread that measures.
    memory_view: MemoryView,
    memory: Option<MemoryThread>,
    current: CurrentSnapshot,
    inputs: PlanInputs,
    /// The parts that a reload cannot change.
    restart_only: RestartOnly,
    shards: Vec<Arc<WorkerShard>>,
    listening_sockets: ListeningSockets,
    admin: Option<AdminSocket>,
    runtime: Option<AdminSocket>,
    /// The modes of servers, where operators can set them.
    modes: Option<Arc<ServerModes>>,
    /// The addresses that the process before has handed over, in its order.
    offered: Vec<(AddressRole, ListenAddress)>,
    /// How many sockets of each address another process has: the next one, once there is one, or the one before, until this one has started.
    left_to: Option<Vec<usize>>,
    /// The sockets of the workers as long as connections are not accepted.
    held_back: Option<WorkerSockets>,
    /// Whether the admin listener and the runtime socket accept: not while the process before does.
    admin_accepts: watch::Sender<bool>,
    /// During the start: names that are asked for the first time hold the sender.
    first_answers: Option<(Sender<()>, Receiver<()>)>,
    /// The config as its file has it, and with the changes since.
    file_config: FileConfig,
    in_use: Config,
    /// What sources of servers have said.
    discovered: DiscoveredServers,
    /// Told when a name of a server has other addresses.
    names_changed: Arc<Notify>,
    commands: CommandSender,
    admin_access: Option<Arc<AdminAccess>>,
    /// The value of [`Proxy::bound_listeners`], for the control thread.
    bound_now: BoundListeners,
    workers: Vec<JoinHandle<()>>,
    stop_workers: Vec<Arc<Notify>>,
    /// The channels by which the workers receive another config.
    changes: Vec<UnboundedSender<WorkerChange>>,
    control: Option<JoinHandle<()>>,
    /// Where tasks of the control thread are started.
    control_tasks: Option<tokio::runtime::Handle>,
    stop_control: Arc<Notify>,
    task_configs: UnboundedSender<TaskConfig>,
    checks: Option<ProbeThread>,
    acme: Option<AcmeThread>,
    passwords: PasswordThreads,
    pid_file: Option<PidFile>,
    logs: Option<AccessLogs>,
    traces: Option<TraceExport>,
    trace_counts: Arc<TraceCounts>,
    reloads: Arc<ReloadCounts>,
    /// To another node.
    hand_over: Arc<HandOver>,
    /// Tells other programs of this machine whether the node serves, where the config wants that.
    watcher: Option<Arc<NodeWatcher>>,
    announcements: Arc<Announcements>,
    /// The thread that has started it, and that reloads.
    _registration: ThreadRegistration,
    /// Where the recorders of the workers are asked.
    queries: Arc<WorkerQueries>,
}

impl Proxy {
    /// Has the control thread look after what the config names, and waits until every new name of which no address is known has had its first answer,
    /// or with patience: a name may also come up later. In the start, [`Proxy::await_names`] waits.
    fn follow_in_background(&self, snapshot: &Arc<Snapshot>) {
        let (asked, all_asked) = channel();
        let starting = self.first_answers.as_ref().map(|(asked, _)| asked.clone());
        let is_awaited = starting.is_none();
        let asked = starting.unwrap_or(asked);
        let _stopped = self.task_configs.send(TaskConfig::Snapshot(Arc::clone(snapshot), asked));
        if is_awaited {
            let _timed_out = all_asked.recv_timeout(snapshot.dns.timeout + NAMES_GRACE);
        }
    }

    /// Has the names of new servers resolved, and their ejections reviewed. Names of which no address is known are waited for, but not for long; in
    /// the start, [`Proxy::await_names`] does that.
    fn resolve_servers_of(&self, plans: Vec<Arc<UpstreamPlan>>) {
        let is_unknown = |plan: &Arc<UpstreamPlan>| known_addresses::without_address(plan).next().is_some();
        let has_unknown = plans.iter().any(is_unknown);
        if has_unknown {
            known_addresses::use_known(&plans, &known_addresses::collect(&self.current.load()));
        }
        let (asked, all_asked) = channel();
        let starting = self.first_answers.as_ref().map(|(asked, _)| asked.clone());
        let is_awaited = has_unknown && starting.is_none();
        let _stopped = self.task_configs.send(TaskConfig::Servers(plans, starting.unwrap_or(asked)));
        if is_awaited {
            let _timed_out = all_asked.recv_timeout(NAMES_GRACE);
        }
    }

    /// The ends of the access logs for a worker.
    fn logs_of(&self, worker: usize) -> WorkerLogs {
        self.logs.as_ref().map(|logs| logs.for_worker(&self.shards[worker])).unwrap_or_default()
    }

    /// The addresses in use, in the order of the config; the admin listener and the runtime socket come last.
    pub fn bound_listeners(&self) -> Vec<BoundListener> {
        let mut bound = self.listening_sockets.bound_listeners();
        bound.extend([&self.admin, &self.runtime].into_iter().flatten().map(|socket| socket.bound.clone()));
        bound
    }

    /// Begins to announce by `watcher` that this node serves; to be called when the process is ready and no other one announces.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn announce_by(&mut self, watcher: NodeWatcher) -> io::Result<()> {
        let watcher = Arc::new(watcher);
        self.watcher = Some(Arc::clone(&watcher));
        let (hand_over, queries) = (Arc::clone(&self.hand_over), Arc::clone(&self.queries));
        announcements::start(&self.announcements, watcher, hand_over, queries)
    }

    /// Which config is in use: 1 is that of the start.
    pub fn generation(&self) -> u64 {
        self.current.load().generation
    }

    /// Has `/ready` fail, or not any more: the first routes are awaited from elsewhere.
    pub fn set_awaits_routes(&self, awaits: bool) {
        self.hand_over.set_awaits_routes(awaits);
    }

    /// Has `/ready` fail, or not any more: listeners that are wanted are left out of the config in use, and no other one is open.
    pub fn set_lacks_listeners(&self, some_are_left_out: bool) {
        let none_is_open = self.listening_sockets.bound_listeners().is_empty();
        self.hand_over.set_lacks_listeners(some_are_left_out && none_is_open);
    }

    /// Whether other programs are told if the node serves.
    pub fn is_announced(&self) -> bool {
        self.watcher.is_some()
    }

    /// Writes the pid file; to be called when the process is ready.
    pub fn write_pid_file(&self) {
        if let Some(file) = &self.pid_file {
            file.write();
        }
    }

    /// The shares of the descriptors of the process, by the config in use.
    pub const fn descriptor_budget(&self) -> &DescriptorBudget {
        &self.descriptors
    }

    /// The parts of the memory budget, by the config of the start.
    pub const fn memory_plan(&self) -> &MemoryPlan {
        &self.memory_plan
    }

    /// How many workers run.
    pub fn worker_count(&self) -> usize {
        self.shards.len()
    }

    /// The sum of the counters of all workers.
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
}
