//! One worker: a thread with its own event loop, listening sockets, connections, idle server connections and counters.
//!
//! The top of the data path: accepts connections, places them, applies a new config and drives the timers. What a worker owns is
//! in `Worker`, what workers share in `Shared`.

mod restart;
pub mod apply_config;
mod free_memory;
mod room;
mod accept;
#[cfg(feature = "http3")]
mod datagrams;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::runtime::LocalOptions;
use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_observe::{Cause, Failure, Phase, WorkerShard};

use self::accept::AcceptingSocket;
use self::apply_config::{ConfigUpdate, WorkerChange};
use self::restart::{CrashHistory, WorkerResources};
use super::exchange::features::authentication::key_fetch;
use super::net::timing::timers::Timers;
use super::state::connections::connection_list::WorkerQuery;
use super::state::crashes::crash::CrashState;
use super::state::servers::pool::ServerConnection;
use crate::downstream::connection::bytes::ByteConnection;
use crate::downstream::connection::exchange_pool::{ExchangePool, PooledExchange};
use crate::net::clock;
use crate::net::descriptors::ServerPermit;
use crate::net::memory::{self, ConnectionPeak};
use crate::state::datagrams::DatagramInbox;
use crate::state::shared::{AcceptedConnection, Shared};
use crate::state::tracing::recorder::{ClientTransport, UnusedConnection};
use crate::state::worker::{Worker, WorkerSeed};
use crate::state::worker_config::LocalListener;
use crate::upstream::pooled::PooledServers;

pub use self::restart::WorkerError;

/// Connections by which a worker must be ahead of another before it hands one over: below that, evening out costs more
/// than it brings.
const HAND_OVER_LEAD: u32 = 4;

/// Interval of the search for idle server connections that were closed or have exceeded their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What a worker thread is started with.
pub struct WorkerStart {
    /// The place of the worker among all, from 0.
    pub index: usize,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// The counters of this worker.
    pub shard: Arc<WorkerShard>,
    /// The config that it begins with.
    pub first: ConfigUpdate,
    /// What it goes over to later.
    pub changes: UnboundedReceiver<WorkerChange>,
    /// Connections that other workers accepted for it.
    pub handed_over: UnboundedReceiver<AcceptedConnection>,
    /// Datagrams that came to other workers, for its connections.
    pub datagrams: DatagramInbox,
    /// The sizes of its flight recorder.
    pub recorder: weir_config::RecorderSettings,
    /// Queries about its exchanges and connections.
    pub queries: UnboundedReceiver<WorkerQuery>,
    /// Notified when it has to accept no more and to end after its last connection.
    pub stop: Arc<Notify>,
    /// Seed of its random numbers.
    pub random_seed: u64,
}

/// Bytes of what a worker has many of, without what their pointers lead to.
#[derive(Debug, Clone, Copy)]
pub struct ObjectSizes {
    /// Of a client connection.
    pub client_connection: usize,
    /// Of an exchange.
    pub exchange: usize,
    /// Of a connection to a server.
    pub server_connection: usize,
}

impl ObjectSizes {
    /// The sizes in this build.
    pub fn of_this_build() -> Self {
        Self {
            client_connection: ByteConnection::bytes_min(),
            exchange: PooledExchange::<ByteConnection>::bytes_min(),
            server_connection: size_of::<ServerConnection>(),
        }
    }
}

/// Threads of a worker that wait for disks at most; what comes beside it waits for one of them.
const DISK_THREADS_MAX: usize = 32;

/// Runs a worker until it is stopped and its last connection has ended. One that crashes is made anew: its connections are lost, and no
/// others.
///
/// # Errors
/// When the event loop cannot be made, or crashes again and again.
pub fn run(start: WorkerStart) -> Result<(), WorkerError> {
    let resources = Rc::new(WorkerResources::new(start));
    let (index, shard, shared) = (resources.index, &resources.shard, &resources.shared);
    let mut crashes = CrashHistory::default();
    loop {
        let lost_before = shard.connections_lost.value();
        // A panic that reaches this place comes from the event loop itself.
        let ended = catch_unwind(AssertUnwindSafe(|| run_once(&resources)));
        if ended.unwrap_or(Ok(WorkerEnd::Crashed))? == WorkerEnd::Stopped {
            return Ok(());
        }
        let lost = shard.connections_lost.value() - lost_before;
        if shared.stopping.load(Ordering::SeqCst) {
            tracing::error!(
                worker = index,
                lost,
                "a worker has crashed while Weir stops: its connections are lost"
            );
            return Ok(());
        }
        crashes.record(clock::now())?;
        shard.restarts.increment();
        tracing::error!(
            worker = index,
            lost,
            "a worker has crashed and is started anew: its connections are lost, and no new one is refused; the log has the panic above"
        );
    }
}

/// How a worker has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorkerEnd {
    Stopped,
    Crashed,
}

/// Runs a worker until it is stopped, or crashes. All that it had is dropped then.
fn run_once(resources: &Rc<WorkerResources>) -> std::io::Result<WorkerEnd> {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().max_blocking_threads(DISK_THREADS_MAX).thread_name("weir-disk");
    // Not a `LocalSet` on a runtime: each event would pass two schedulers, for some 500 instructions of an exchange more.
    let runtime = runtime.build_local(LocalOptions::default())?;
    let crash = Rc::new(CrashState::default());
    let served = runtime.block_on(runtime.spawn_local(serve(Rc::clone(resources), Rc::clone(&crash))));
    let outcome = served.unwrap_or(Ok(WorkerEnd::Crashed));
    if matches!(outcome, Ok(WorkerEnd::Crashed)) {
        crash.set();
    }
    // Drops all tasks. A disk that does not answer must not keep the process from ending.
    runtime.shutdown_background();
    outcome
}

/// A worker and the sockets on which it accepts.
pub(crate) struct Acceptor {
    worker: Rc<Worker>,
    exchanges: Rc<ExchangePool>,
    sockets: RefCell<Vec<AcceptingSocket>>,
    #[cfg(feature = "http3")]
    datagram_sockets: RefCell<Vec<datagrams::ReceivingSocket>>,
    /// When it was last said that the kernel drops datagrams.
    #[cfg(feature = "http3")]
    drops_told_at: std::cell::Cell<Option<clock::Instant>>,
    /// What a crash leaves.
    resources: Rc<WorkerResources>,
}

async fn serve(resources: Rc<WorkerResources>, crash: Rc<CrashState>) -> std::io::Result<WorkerEnd> {
    let worker = Worker::new(&WorkerSeed {
        index: resources.index,
        shared: &resources.shared,
        shard: &resources.shard,
        snapshot: &resources.config.borrow().snapshot,
        recorder: &resources.recorder,
        random_seed: resources.random_seed,
        crash: &crash,
    })?;
    let worker = Rc::new(worker);
    let exchanges = ExchangePool::new(&worker);
    let acceptor = Acceptor {
        worker: Rc::clone(&worker),
        exchanges,
        sockets: RefCell::default(),
        #[cfg(feature = "http3")]
        datagram_sockets: RefCell::default(),
        #[cfg(feature = "http3")]
        drops_told_at: std::cell::Cell::default(),
        resources: Rc::clone(&resources),
    };
    let acceptor = Rc::new(acceptor);
    acceptor.begin(resources.config.borrow().again());
    let end = tokio::select! {
        () = serve_until_stopped(&acceptor) => WorkerEnd::Stopped,
        () = crash.crashed() => WorkerEnd::Crashed,
    };
    if end == WorkerEnd::Crashed {
        worker.config.borrow().close_pools();
    }
    worker.flush_logs();
    Ok(end)
}

/// Serves until the worker is stopped and its last connection has ended.
async fn serve_until_stopped(acceptor: &Rc<Acceptor>) {
    let (worker, resources) = (&acceptor.worker, &acceptor.resources);
    let applying = worker.crash.spawn(apply_changes(Rc::clone(acceptor)));
    let others = [
        worker.crash.spawn(take_connections(Rc::clone(acceptor))),
        worker.crash.spawn(answer(Rc::clone(acceptor), Rc::clone(resources))),
        #[cfg(feature = "http3")]
        worker.crash.spawn(datagrams::take_datagrams(Rc::clone(acceptor))),
        worker.crash.spawn(sweep(Rc::clone(acceptor))),
        worker.crash.spawn(room::make_room_for_others(Rc::clone(worker))),
        worker.crash.spawn(run_timers(Rc::clone(&worker.timers))),
    ];
    resources.stop.notified().await;
    applying.abort();
    let _aborted = applying.await;
    worker.stopped_at.set(Some(clock::now()));
    worker.timers.wake_all();
    acceptor.close_all_sockets().await;
    acceptor.drain().await;
    others.iter().for_each(tokio::task::JoinHandle::abort);
}

/// Takes up each config, and each change of servers, that follows.
async fn apply_changes(acceptor: Rc<Acceptor>) {
    while let Some(change) = acceptor.resources.changes.next().await {
        match change {
            WorkerChange::Config(update) => acceptor.apply(*update).await,
            WorkerChange::Servers(update) => acceptor.apply_servers(update),
        }
    }
}

/// Takes the connections that other workers have accepted for this one.
async fn take_connections(acceptor: Rc<Acceptor>) {
    while let Some(accepted) = acceptor.resources.handed_over.next().await {
        acceptor.worker.shard.connections_handed_in.increment();
        acceptor.take_over(accepted);
    }
}

/// Answers queries about recorded exchanges and open connections, begins fetches of keys, and frees memory.
async fn answer(acceptor: Rc<Acceptor>, resources: Rc<WorkerResources>) {
    let worker = &acceptor.worker;
    while let Some(query) = resources.queries.next().await {
        match query {
            WorkerQuery::Recorder(query) => query.answer(worker.recorder.as_ref()),
            WorkerQuery::Connections(query) => worker.connection_list.query_all(&worker.timers, query).await,
            WorkerQuery::Progress(alive) => {
                let _not_awaited = alive.send(());
            }
            WorkerQuery::Memory(order) => free_memory::free(&acceptor, order).await,
            #[cfg(feature = "http3")]
            WorkerQuery::Trace(order) => acceptor.trace(order),
            #[cfg(not(feature = "http3"))]
            WorkerQuery::Trace(order) => drop(order),
            WorkerQuery::Keys(fetch) => key_fetch::begin(worker, PooledServers::default(), fetch),
        }
    }
}

async fn run_timers(timers: Rc<Timers>) {
    timers.run().await;
}

async fn sweep(acceptor: Rc<Acceptor>) {
    let worker = &acceptor.worker;
    let mut peak = ConnectionPeak::default();
    loop {
        worker.timers.sleep(SWEEP_INTERVAL).await;
        let config = Rc::clone(&worker.config.borrow());
        let now = clock::now();
        config.sweep_pools(now);
        if ServerPermit::are_scarce() {
            // Another worker may need their places.
            config.shed_pools();
        }
        worker.open_files.close_unused(now);
        worker.flush_logs();
        acceptor.take_stock();
        #[cfg(feature = "http3")]
        acceptor.look_after_datagram_sockets();
        worker.leaving.borrow_mut().retain(|listener| listener.is_needed(now));
        if peak.has_fallen(worker.shared.loads[worker.index].0.load(Ordering::Relaxed)) {
            worker.stock.shrink();
            memory::give_back();
        }
    }
}

impl Acceptor {
    /// Takes an accepted connection, or hands it to another worker that is clearly less busy.
    pub(crate) fn place(&self, listener: &Rc<LocalListener>, accepted: AcceptedConnection) {
        self.worker.shard.connections_accepted.increment();
        // Others may have ended when the process stops.
        let chosen = if self.worker.is_stopping() { self.worker.index } else { self.least_busy_of_two() };
        self.worker.shared.loads[chosen].0.fetch_add(1, Ordering::Relaxed);
        if chosen == self.worker.index {
            self.start_connection(Rc::clone(listener), accepted);
            return;
        }
        match self.worker.shared.hand_over[chosen].send(accepted) {
            Ok(()) => self.worker.shard.connections_handed_out.increment(),
            // The other worker has failed.
            Err(refused) => {
                self.worker.shared.loads[chosen].0.fetch_sub(1, Ordering::Relaxed);
                self.worker.shared.loads[self.worker.index].0.fetch_add(1, Ordering::Relaxed);
                self.start_connection(Rc::clone(listener), refused.0);
            }
        }
    }

    fn least_busy_of_two(&self) -> usize {
        let workers = self.worker.shared.loads.len();
        if workers == 1 {
            return 0;
        }
        let other = (self.worker.index + 1 + self.worker.random() as usize % (workers - 1)) % workers;
        let mine = self.worker.shared.loads[self.worker.index].0.load(Ordering::Relaxed);
        let theirs = self.worker.shared.loads[other].0.load(Ordering::Relaxed);
        if mine >= theirs.saturating_add(HAND_OVER_LEAD + theirs / 8) { other } else { self.worker.index }
    }

    /// Closes a connection for which there is no memory.
    #[cold]
    pub(crate) fn refuse(&self, listener: &LocalListener, accepted: &AcceptedConnection) {
        let failure = Failure::weir(Phase::Accept, Cause::MemoryLimit);
        listener.shard.failures.record(failure);
        let (peer, transport) = (accepted.peer, ClientTransport::Tcp);
        let refused = UnusedConnection { peer, transport, number: 0, opened_at: clock::now() };
        self.worker.record_connection(failure, refused, listener);
        self.worker.shared.memory.count_refused();
        self.worker.unreserve(&accepted.listener);
    }

    fn start_connection(&self, listener: Rc<LocalListener>, accepted: AcceptedConnection) {
        ByteConnection::start(&self.exchanges, listener, accepted, ByteConnection::run);
    }

    /// Takes a connection that another worker has accepted.
    fn take_over(&self, accepted: AcceptedConnection) {
        let is_its = |local: &&Rc<LocalListener>| Arc::ptr_eq(&local.state, &accepted.listener);
        let local = self.worker.listeners.borrow().iter().find(is_its).cloned();
        let local = local.or_else(|| self.worker.leaving.borrow().iter().find(is_its).cloned());
        match local {
            Some(local) => self.start_connection(local, accepted),
            // Removed by a reload, and nothing has been left of it for long.
            None => self.worker.forget(self.worker.index, &accepted.listener),
        }
    }

    /// Shows what the worker holds.
    fn take_stock(&self) {
        let worker = &self.worker;
        let [in_use, free] = worker.stock.counts();
        worker.shard.buffers_in_use.set(in_use as i64);
        worker.shard.buffers_free.set(free as i64);
        worker.shard.exchanges_kept.set(self.exchanges.free_count() as i64);
        worker.shard.timers.set(worker.timers.len() as i64);
    }
}
