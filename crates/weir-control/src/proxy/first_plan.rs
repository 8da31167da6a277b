//! What a start makes of its configuration before anything runs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_config::{Config, FailBack};
use weir_discovery::RememberedServers;
use weir_observe::{ShardSizes, WorkerShard};
use weir_traffic::limit::ConnectionCount;

use super::known_addresses;
use super::open::worker_count;
use crate::cluster::node::hand_over::HandOver;
use crate::lifecycle::process::open_files_max;
use crate::lifecycle::upgrade::handover::HandedState;
use crate::memory::{MemoryFiles, MemoryPlan};
use crate::start_error::StartError;
use crate::telemetry::trace_export::TraceExport;
use crate::tls::credentials::PasswordThreads;
use crate::tls::internal_authority;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::descriptors::DescriptorBudget;
use weir_proxy::state::budgets::memory_guard::MemoryGuard;
use weir_proxy::state::connections::connection_list::WorkerQuery;
use weir_proxy::state::datagrams::{DatagramInbox, DatagramRoutes, HandedGeneration};
use weir_proxy::state::servers::plan_inputs::PlanInputs;
use weir_proxy::state::shared::RoomRequest;
use weir_proxy::state::shared::{AcceptedConnection, Load, Shared};
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::worker::apply_config::WorkerChange;

/// The channels of a worker.
pub(super) struct WorkerChannels {
    pub(super) datagrams: DatagramInbox,
    pub(super) inbox: UnboundedReceiver<AcceptedConnection>,
    pub(super) changes: UnboundedReceiver<WorkerChange>,
    pub(super) queries: UnboundedReceiver<WorkerQuery>,
}

/// What the first configuration comes to, before anything of it runs.
pub(super) struct FirstPlan {
    pub(super) inputs: PlanInputs,
    pub(super) descriptors: DescriptorBudget,
    pub(super) memory_plan: MemoryPlan,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) queries: Arc<WorkerQueries>,
    pub(super) traces: TraceExport,
    pub(super) shared: Arc<Shared>,
    pub(super) passwords: PasswordThreads,
    pub(super) shards: Vec<Arc<WorkerShard>>,
    pub(super) changes: Vec<UnboundedSender<WorkerChange>>,
}

impl FirstPlan {
    pub(super) fn new(
        config: &Config,
        memory: &MemoryFiles,
        before: Vec<HandedGeneration>,
    ) -> Result<(Self, Vec<WorkerChannels>), StartError> {
        let inputs = plan_inputs(config)?;
        let workers = inputs.workers;
        let descriptors = DescriptorBudget::new(open_files_max(), config, workers);
        descriptors.take_effect();
        let memory_plan = MemoryPlan::new(memory.budget(&config.process), config, workers);
        let mut snapshot = Snapshot::new(config, &inputs)?;
        internal_authority::prepare(&snapshot)?;
        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (changes, next_changes): (Vec<_>, Vec<_>) = (0..workers).map(|_| unbounded_channel()).unzip();
        let (queries, next_queries) = WorkerQueries::new(workers, &config.recorder);
        let queries = Arc::new(queries);
        let mut traces = TraceExport::new(&queries, &inputs.via_name);
        snapshot.traces = traces.follow(config, workers).map_err(StartError::Traces)?;
        let snapshot = Arc::new(snapshot);
        queries.names.learn(&snapshot);
        let sizes = ShardSizes { listeners: 0, servers: &[] };
        let (routes, datagrams) =
            DatagramRoutes::new(workers, &config.http3_keys, before).map_err(io::Error::other)?;
        let shared = Arc::new(share(&descriptors, &memory_plan, senders, routes));
        let mut passwords = PasswordThreads::new(&shared.passwords);
        passwords.follow(&snapshot)?;
        let shards = (0..workers).map(|_| Arc::new(WorkerShard::new(sizes))).collect();
        let channels = (inboxes.into_iter().zip(next_changes).zip(next_queries).zip(datagrams))
            .map(|(((inbox, changes), queries), datagrams)| WorkerChannels {
                datagrams,
                inbox,
                changes,
                queries,
            })
            .collect();
        let plan = Self {
            inputs,
            descriptors,
            memory_plan,
            snapshot,
            queries,
            traces,
            shared,
            passwords,
            shards,
            changes,
        };
        Ok((plan, channels))
    }

    /// Lets upstreams begin with the addresses that are known from before.
    pub(super) fn use_addresses(&self, state: &HandedState, known: &RememberedServers) {
        known_addresses::use_known(&self.snapshot.upstreams, &state.names);
        known_addresses::use_stored(&self.snapshot.upstreams, known.names());
    }

    /// On standby as the process before was, if there was one.
    pub(super) fn hand_over(&self, config: &Config, before: Option<&HandedState>) -> Arc<HandOver> {
        let is_standby = before.map_or_else(|| starts_on_standby(config), |state| state.is_standby);
        Arc::new(HandOver::new(&self.shared, &self.shards, &self.queries, is_standby))
    }
}

/// The parts that workers share, made for as many as `hand_over` reaches.
fn share(
    descriptors: &DescriptorBudget,
    memory: &MemoryPlan,
    hand_over: Vec<UnboundedSender<AcceptedConnection>>,
    datagrams: DatagramRoutes,
) -> Shared {
    Shared {
        datagrams,
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

/// Whether the node leaves the shared address to the other one at first.
fn starts_on_standby(config: &Config) -> bool {
    config.process.keepalived.as_ref().is_some_and(|it| it.fail_back == FailBack::ByCommand)
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
