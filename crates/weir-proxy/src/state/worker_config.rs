//! The config of one worker: the snapshot, with the worker's idle connections and counters for every listener, upstream and server.
//!
//! An exchange holds the config it began with, so a reload never changes the config of an exchange. Parts that the next config has in
//! common with this one are shared by both. The worker's side of a server is made with the
//! first request to it: most servers of a large config have none.

use std::any::Any;
use std::cell::{Cell, OnceCell, Ref, RefCell};
use std::fmt::Debug;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use weir_observe::{ListenerShard, ServerShard, UpstreamShard};

use super::servers::pool::{Pool, PoolLimits, ServerConnection};
use crate::net::clock::Instant;
use crate::net::permit_queue;
use crate::state::log_batches::{LogBatches, RouteLogs};
use crate::state::shared_list::SharedList;
use crate::state::snapshot::{ListenerPlan, ListenerState, Snapshot, UpstreamPlan};

/// The snapshot as one worker sees it.
#[derive(Debug)]
pub(crate) struct WorkerConfig {
    pub(crate) snapshot: Arc<Snapshot>,
    worker: usize,
    upstreams: SharedList<Rc<LocalUpstream>>,
    /// The access logs that routes have of their own, if some have.
    route_logs: OnceCell<Rc<RouteLogs>>,
}

/// One worker's side of an upstream.
#[derive(Debug)]
struct LocalUpstream {
    /// Set when something is to be counted, so also when there is a server.
    shard: OnceCell<Arc<UpstreamShard>>,
    servers: Box<[OnceCell<Rc<LocalServer>>]>,
    /// Requests that are not yet reported to the retry budget, which all workers share.
    unreported: Cell<u32>,
    /// Whether the next config lacks this upstream, or has another one: servers first used now keep no connections.
    is_superseded: Cell<bool>,
}

/// Requests that are reported to the retry budget at once: few enough not to matter for the budget.
const REPORTED_AT_ONCE: u32 = 16;

/// One worker's side of a server.
#[derive(Debug)]
pub(crate) struct LocalServer {
    pub(crate) pool: RefCell<Pool>,
    pub(crate) shard: Arc<ServerShard>,
    /// Whether it keeps no more connections: the config has changed the connections to the server, or removed it.
    is_closed: Cell<bool>,
    /// Whether its idle connections are those of all workers, since it has a limit on its requests.
    is_shared: bool,
    /// The connections that several exchanges share, where the protocol to the server has such.
    streams: OnceCell<Box<dyn StreamPool>>,
}

/// Connections to one server that several exchanges share, as far as the config of a worker has to do with them.
pub(crate) trait StreamPool: Any + Debug {
    /// Gives no more streams, and closes each connection behind its last.
    fn close(&self);

    /// Closes connections without requests, for want of descriptors; whether there were any.
    fn shed(&self) -> bool;

    /// Has those end behind their last stream that were opened at a moment for which `stays` does not hold.
    fn keep_if(&self, stays: &dyn Fn(Instant) -> bool);

    /// Connections without requests.
    fn idle(&self) -> usize;
}

/// One worker's side of a listener, from its first config to the end of its last connection.
pub(crate) struct LocalListener {
    pub(crate) state: Arc<ListenerState>,
    pub(crate) shard: Arc<ListenerShard>,
    /// Its plan in the newest config, or in the last one that contained it.
    plan: RefCell<Arc<ListenerPlan>>,
    /// Its place in the snapshot of that config.
    place: Cell<usize>,
    log: RefCell<Option<LogBatches>>,
    /// Set once a reload has removed the listener.
    leaving: RefCell<Option<RemovedListener>>,
    connections: Cell<usize>,
}

/// A listener that the config does not name any more.
struct RemovedListener {
    /// The last config that contained it: requests on its connections still use its routes.
    config: Rc<WorkerConfig>,
    since: Instant,
    ends_at: Instant,
}

/// How long a connection may be on its way from the worker that accepted it to another.
const HAND_OVER_TIME: Duration = Duration::from_secs(2);

impl LocalListener {
    pub(crate) fn new(
        plan: &Arc<ListenerPlan>,
        place: usize,
        worker: usize,
        log: Option<LogBatches>,
    ) -> Rc<Self> {
        Rc::new(Self {
            state: Arc::clone(&plan.state),
            shard: Arc::clone(&plan.state.shards[worker]),
            plan: RefCell::new(Arc::clone(plan)),
            place: Cell::new(place),
            log: RefCell::new(log),
            leaving: RefCell::new(None),
            connections: Cell::new(0),
        })
    }

    /// Applies the next config, which contains it.
    pub(crate) fn follow(&self, plan: &Arc<ListenerPlan>, place: usize, log: Option<LogBatches>) {
        self.plan.replace(Arc::clone(plan));
        self.place.set(place);
        self.flush_log();
        self.log.replace(log);
    }

    /// The next config does not contain it: its connections go on with `config`, until `ends_at`.
    pub(crate) fn leave(&self, config: &Rc<WorkerConfig>, since: Instant, ends_at: Instant) {
        self.leaving.replace(Some(RemovedListener { config: Rc::clone(config), since, ends_at }));
    }

    /// Whether it is still in use; if not, it releases its last config.
    pub(crate) fn is_needed(&self, now: Instant) -> bool {
        let settled =
            self.leaving.borrow().as_ref().is_some_and(|leaving| now >= leaving.since + HAND_OVER_TIME);
        let is_needed = self.connections.get() > 0 || !settled;
        if !is_needed {
            self.flush_log();
            self.leaving.replace(None);
        }
        is_needed
    }

    /// When its last connections end, if the config does not name it any more.
    pub(crate) fn ends_at(&self) -> Option<Instant> {
        self.leaving.borrow().as_ref().map(|leaving| leaving.ends_at)
    }

    /// The config for what happens between exchanges.
    pub(crate) fn plan(&self) -> Ref<'_, Arc<ListenerPlan>> {
        self.plan.borrow()
    }

    /// The config for an exchange that begins now, `present` unless the listener is not in that any more, and the place of the listener in it.
    pub(crate) fn config_for_exchange(&self, present: &Rc<WorkerConfig>) -> (Rc<WorkerConfig>, usize) {
        let leaving = self.leaving.borrow();
        (Rc::clone(leaving.as_ref().map_or(present, |leaving| &leaving.config)), self.place.get())
    }

    /// Where the lines of the access log go, if there is one.
    pub(crate) fn log(&self) -> Ref<'_, Option<LogBatches>> {
        self.log.borrow()
    }

    /// Hands over what the log has gathered.
    pub(crate) fn flush_log(&self) {
        if let Some(log) = &*self.log.borrow() {
            log.flush();
        }
    }

    /// Counts a connection of this worker.
    pub(crate) fn enter(&self) {
        self.connections.set(self.connections.get() + 1);
    }

    /// A connection has ended.
    pub(crate) fn exit(&self) {
        self.connections.set(self.connections.get().saturating_sub(1));
    }
}

impl WorkerConfig {
    /// The first config of the worker with this number: no idle connections.
    pub(crate) fn new(snapshot: &Arc<Snapshot>, worker: usize) -> Self {
        let upstreams = snapshot.upstreams.iter().map(|plan| LocalUpstream::new(plan, worker, None));
        let (upstreams, route_logs) = (upstreams.collect(), OnceCell::new());
        Self { snapshot: Arc::clone(snapshot), worker, upstreams, route_logs }
    }

    /// The config of the next snapshot, with all idle connections that are still of use.
    pub(crate) fn succeeded_by(&self, snapshot: &Arc<Snapshot>) -> Self {
        let worker = self.worker;
        let upstreams =
            snapshot.upstreams.iter().map(|plan| match self.snapshot.upstream(&plan.config.name) {
                Some((index, known)) if Arc::ptr_eq(known, plan) => Rc::clone(&self.upstreams[index]),
                known => LocalUpstream::new(plan, worker, known.map(|(index, _)| &*self.upstreams[index])),
            });
        let upstreams: SharedList<_> = upstreams.collect();
        for (local, plan) in self.upstreams.iter().zip(&self.snapshot.upstreams) {
            if snapshot.upstream(&plan.config.name).is_none() {
                local.is_superseded.set(true);
                local.servers.iter().filter_map(OnceCell::get).for_each(|server| server.close());
            }
        }
        Self { snapshot: Arc::clone(snapshot), worker, upstreams, route_logs: OnceCell::new() }
    }

    /// The config of a snapshot in which only servers are others.
    pub(crate) fn with_servers(&self, snapshot: &Arc<Snapshot>) -> Self {
        let mut upstreams = self.upstreams.clone();
        for (place, plan) in snapshot.changed_upstreams(&self.snapshot) {
            upstreams.replace(place, LocalUpstream::new(plan, self.worker, Some(&self.upstreams[place])));
        }
        let (snapshot, route_logs) = (Arc::clone(snapshot), self.route_logs.clone());
        Self { snapshot, worker: self.worker, upstreams, route_logs }
    }

    /// Takes the access logs of its routes, once.
    pub(crate) fn set_route_logs(&self, logs: RouteLogs) {
        let _set = self.route_logs.set(Rc::new(logs));
    }

    /// The access logs that routes have of their own, if some have.
    #[inline]
    pub(crate) fn route_logs(&self) -> Option<&RouteLogs> {
        self.route_logs.get().map(|logs| &**logs)
    }

    /// The plan of an upstream.
    #[inline]
    pub(crate) fn upstream_plan(&self, upstream: usize) -> &Arc<UpstreamPlan> {
        &self.snapshot.upstreams[upstream]
    }

    /// The worker's side of a server.
    #[inline]
    pub(crate) fn server(&self, upstream: usize, server: usize) -> &Rc<LocalServer> {
        match self.upstreams[upstream].servers[server].get() {
            Some(local) => local,
            None => self.make_server(upstream, server),
        }
    }

    /// Makes the worker's side of a server, for its first request.
    #[cold]
    fn make_server(&self, upstream: usize, server: usize) -> &Rc<LocalServer> {
        self.upstream_shard(upstream);
        let (local, plan) = (&self.upstreams[upstream], &self.snapshot.upstreams[upstream]);
        local.servers[server].get_or_init(|| {
            let is_closed = local.is_superseded.get() || plan.leaves_at[server].is_some();
            let shard = Arc::clone(plan.server_shards[server].of(self.worker));
            LocalServer::new(shard, is_closed, plan.shared_pool[server].is_some())
        })
    }

    /// What the worker counts of an upstream.
    #[inline]
    pub(crate) fn upstream_shard(&self, upstream: usize) -> &UpstreamShard {
        let shard = || Arc::clone(self.snapshot.upstreams[upstream].shards.of(self.worker));
        self.upstreams[upstream].shard.get_or_init(shard)
    }

    /// The servers of an upstream that have had a request from this worker, with their places.
    pub(crate) fn used_servers(
        &self,
        upstream: usize,
    ) -> impl Iterator<Item = (usize, &Rc<LocalServer>)> + Clone {
        let servers = self.upstreams[upstream].servers.iter().enumerate();
        servers.filter_map(|(place, server)| Some((place, server.get()?)))
    }

    /// The upstreams that have had a request from this worker.
    fn used(&self) -> impl Iterator<Item = (&LocalUpstream, &UpstreamPlan)> {
        let upstreams = self.upstreams.iter().zip(&self.snapshot.upstreams);
        let used = upstreams.filter(|(local, _)| local.shard.get().is_some());
        used.map(|(local, plan)| (&**local, &**plan))
    }

    /// Closes idle connections that the server closed or that are over their time.
    pub(crate) fn sweep_pools(&self, now: Instant) {
        for (local, plan) in self.used() {
            for (place, shared) in plan.shared_pool.iter().enumerate() {
                let stays = |opened_at| !plan.is_outdated(place, opened_at);
                shared.iter().for_each(|shared| shared.sweep(now, stays));
            }
            // One that is closed keeps none, and may share its counters with one of the same name that does.
            let servers =
                local.servers.iter().enumerate().filter_map(|(at, server)| Some((at, server.get()?)));
            for (place, server) in servers.filter(|(_, server)| !server.is_closed()) {
                let mut idle = server.pool.borrow_mut();
                idle.sweep(now);
                if plan.outdated_ms(place) > 0 {
                    let stays = |opened_at| !plan.is_outdated(place, opened_at);
                    idle.keep_if(stays);
                    if let Some(streams) = server.streams.get() {
                        streams.keep_if(&stays);
                    }
                }
                server.count_idle(&idle);
            }
        }
    }

    /// Closes all idle connections of this worker, which has crashed.
    #[cold]
    pub(crate) fn close_pools(&self) {
        let servers = self.used().flat_map(|(local, _)| local.servers.iter().filter_map(OnceCell::get));
        servers.for_each(|server| server.close());
    }

    /// Closes half of the idle connections, for want of descriptors; whether there were any.
    #[cold]
    pub(crate) fn shed_pools(&self) -> bool {
        let mut shed = false;
        // Those that all workers share may have been kept by another one.
        for parked in self.snapshot.upstreams.iter().flat_map(|plan| plan.shared_pool.iter().flatten()) {
            shed |= parked.shed();
        }
        for server in self.used().flat_map(|(local, _)| local.servers.iter().filter_map(OnceCell::get)) {
            let mut idle = server.pool.borrow_mut();
            shed |= server.streams.get().is_some_and(|streams| streams.shed());
            if idle.shed() {
                shed = true;
                server.count_idle(&idle);
            }
        }
        shed
    }

    /// Counts a request towards the retries that the upstream may have.
    #[inline]
    pub(crate) fn count_towards_retries(&self, upstream: usize, now: Instant) {
        let local = &self.upstreams[upstream];
        let unreported = local.unreported.get() + 1;
        if unreported < REPORTED_AT_ONCE {
            local.unreported.set(unreported);
        } else {
            local.unreported.set(0);
            let plan = &self.snapshot.upstreams[upstream];
            plan.retry_budget.record_requests(unreported, plan.millis(now));
        }
    }

    /// Takes an idle connection to a server that is fit for use, closing those that are not or lead elsewhere by now.
    ///
    /// `thorough` asks the kernel whether the connection is quiet instead of trusting the event loop.
    pub(crate) fn take_pooled(
        plan: &UpstreamPlan,
        local: &LocalServer,
        server: usize,
        now: Instant,
        thorough: bool,
    ) -> Option<Box<ServerConnection>> {
        let stays = |taken: &ServerConnection| !plan.is_outdated(server, taken.opened_at);
        if let Some(shared) = &plan.shared_pool[server] {
            return std::iter::from_fn(|| shared.take(now, &local.shard)).find(|taken| stays(taken));
        }
        let mut idle = local.pool.borrow_mut();
        let taken = std::iter::from_fn(|| idle.take(now, thorough)).find(|taken| stays(taken));
        local.shard.connections_idle.set(idle.len() as i64);
        taken
    }

    /// Keeps a connection whose exchange ended cleanly; `announced` is the server's `Keep-Alive: timeout`.
    pub(crate) fn return_to_pool(
        &self,
        (plan, local): (&UpstreamPlan, &LocalServer),
        (upstream, server): (usize, usize),
        connection: Box<ServerConnection>,
        now: Instant,
        announced: Option<Duration>,
    ) {
        if plan.is_outdated(server, connection.opened_at) || local.is_closed.get() {
            return;
        }
        if permit_queue::is_awaited() {
            return self.return_to_waiting(upstream, server, connection, now, announced);
        }
        if let Some(shared) = &plan.shared_pool[server] {
            return shared.keep(connection, now, &plan.pool_limits, announced);
        }
        let mut idle = local.pool.borrow_mut();
        idle.keep(connection, now, &plan.pool_limits, announced);
        local.shard.connections_idle.set(idle.len() as i64);
    }

    /// The same while exchanges wait for descriptors: the connection is for one that wants this server. Where there is none it is closed,
    /// for its descriptor.
    #[cold]
    fn return_to_waiting(
        &self,
        upstream: usize,
        server: usize,
        connection: Box<ServerConnection>,
        now: Instant,
        announced: Option<Duration>,
    ) {
        let (plan, local) = (&self.snapshot.upstreams[upstream], self.server(upstream, server));
        let pool = self.pool_number(upstream, server);
        if !permit_queue::is_awaited_by(pool) {
            return;
        }
        let limits = PoolLimits { open_max: usize::MAX, ..plan.pool_limits };
        match &plan.shared_pool[server] {
            Some(shared) => shared.keep(connection, now, &limits, announced),
            None => local.pool.borrow_mut().keep(connection, now, &limits, announced),
        }
        permit_queue::wake_first_of(pool);
    }

    /// The number of the pool that connections to a server go back to, for those that wait for one.
    pub(crate) fn pool_number(&self, upstream: usize, server: usize) -> usize {
        match &self.snapshot.upstreams[upstream].shared_pool[server] {
            Some(shared) => Arc::as_ptr(shared).addr(),
            None => Rc::as_ptr(self.server(upstream, server)).addr(),
        }
    }
}

impl LocalServer {
    fn new(shard: Arc<ServerShard>, is_closed: bool, is_shared: bool) -> Rc<Self> {
        let (pool, streams) = (RefCell::default(), OnceCell::new());
        Rc::new(Self { pool, shard, is_closed: Cell::new(is_closed), is_shared, streams })
    }

    /// Its shared connections, made by `make` at their first use.
    #[inline]
    pub(crate) fn stream_pool(&self, make: impl FnOnce() -> Box<dyn StreamPool>) -> &dyn StreamPool {
        &**self.streams.get_or_init(|| {
            let pool = make();
            if self.is_closed() {
                pool.close();
            }
            pool
        })
    }

    /// Counts the idle connections.
    fn count_idle(&self, pool: &Pool) {
        let shared = self.streams.get().map_or(0, |streams| streams.idle());
        self.shard.connections_idle.set((pool.len() + shared) as i64);
    }

    /// Whether it keeps connections no more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// Closes the idle connections, and keeps none from now on.
    fn close(&self) {
        self.is_closed.set(true);
        *self.pool.borrow_mut() = Pool::default();
        if let Some(streams) = self.streams.get() {
            streams.close();
        }
        self.shard.connections_idle.set(0);
    }
}

impl LocalUpstream {
    fn new(plan: &UpstreamPlan, worker: usize, before: Option<&LocalUpstream>) -> Rc<Self> {
        let local = |index: usize| {
            let known = before.and_then(|before| before.servers.get(index)?.get());
            let stays = plan.keeps_pool[index] && plan.leaves_at[index].is_none();
            // One that had left and is back begins anew: what is still open from before leads to its last requests only.
            let is_shared = plan.shared_pool[index].is_some();
            let goes_on =
                |known: &&Rc<LocalServer>| stays && known.is_shared == is_shared && !known.is_closed.get();
            match known.filter(goes_on) {
                Some(known) => OnceCell::from(Rc::clone(known)),
                None => {
                    known.inspect(|known| known.close());
                    OnceCell::new()
                }
            }
        };
        let shard = match before.is_some_and(|before| before.shard.get().is_some()) {
            true => OnceCell::from(Arc::clone(plan.shards.of(worker))),
            false => OnceCell::new(),
        };
        before.inspect(|before| before.is_superseded.set(true));
        Rc::new(Self {
            shard,
            servers: (0..plan.config.servers.len()).map(local).collect(),
            unreported: Cell::new(before.map_or(0, |before| before.unreported.get())),
            is_superseded: Cell::new(false),
        })
    }
}
