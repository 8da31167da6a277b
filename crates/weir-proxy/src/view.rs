//! One worker's own side of the snapshot: its idle connections and its counters for every listener, upstream and server.
//!
//! An exchange holds the view it began with, so a reload never changes the ground under it.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_observe::{ListenerShard, ServerShard, UpstreamShard, WorkerShard};

use crate::snapshot::{Snapshot, UpstreamPlan};
use crate::upstream::idle::{IdleConnections, ServerConnection};

/// The snapshot as one worker sees it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) listeners: Vec<Arc<ListenerShard>>,
    pub(crate) upstreams: Vec<LocalUpstream>,
}

/// One worker's side of an upstream.
#[derive(Debug)]
pub(crate) struct LocalUpstream {
    pub(crate) shard: Arc<UpstreamShard>,
    pub(crate) servers: Vec<LocalServer>,
    /// Requests that the retry budget, which all workers share, has not heard of yet.
    untold: Cell<u32>,
}

/// Requests after which the retry budget hears of them: few enough to be nothing against what it allows anyway.
const TOLD_AT_ONCE: u32 = 16;

/// One worker's side of a server.
#[derive(Debug)]
pub(crate) struct LocalServer {
    pub(crate) idle: RefCell<IdleConnections>,
    pub(crate) shard: Arc<ServerShard>,
}

impl View {
    /// A view without idle connections that counts into `shard`.
    pub(crate) fn new(snapshot: &Arc<Snapshot>, shard: &WorkerShard) -> Self {
        let local = |upstream: &Arc<UpstreamShard>| LocalUpstream {
            servers: upstream
                .servers
                .iter()
                .map(|shard| LocalServer { idle: RefCell::default(), shard: Arc::clone(shard) })
                .collect(),
            shard: Arc::clone(upstream),
            untold: Cell::new(0),
        };
        Self {
            snapshot: Arc::clone(snapshot),
            listeners: shard.listeners.to_vec(),
            upstreams: shard.upstreams.iter().map(local).collect(),
        }
    }

    /// Closes idle connections that the server closed or that are over their time.
    pub(crate) fn sweep_idle(&self, now: Instant) {
        for shared in
            self.snapshot.upstreams.iter().flat_map(|upstream| upstream.shared_idle.iter().flatten())
        {
            shared.sweep(now);
        }
        for server in self.upstreams.iter().flat_map(|upstream| &upstream.servers) {
            let mut idle = server.idle.borrow_mut();
            idle.sweep(now);
            server.shard.connections_idle.set(idle.len() as i64);
        }
    }
}

impl LocalUpstream {
    /// Counts a request towards the retries that the upstream may have.
    #[inline]
    pub(crate) fn count_towards_retries(&self, plan: &UpstreamPlan, now: Instant) {
        let untold = self.untold.get() + 1;
        if untold < TOLD_AT_ONCE {
            self.untold.set(untold);
        } else {
            self.untold.set(0);
            plan.retry_budget.record_requests(untold, plan.millis(now));
        }
    }

    /// Takes an idle connection to a server that is fit for use, closing those that are not or lead elsewhere by now.
    ///
    /// `thorough` asks the kernel whether the connection is quiet instead of trusting the event loop.
    pub(crate) fn take_idle(
        &self,
        plan: &UpstreamPlan,
        server: usize,
        now: Instant,
        thorough: bool,
    ) -> Option<ServerConnection> {
        let local = &self.servers[server];
        let stays = |taken: &ServerConnection| !plan.has_moved(server, taken.opened_at);
        if let Some(shared) = &plan.shared_idle[server] {
            return std::iter::from_fn(|| shared.take(now, &local.shard)).find(stays);
        }
        let mut idle = local.idle.borrow_mut();
        let taken = std::iter::from_fn(|| idle.take(now, thorough)).find(stays);
        local.shard.connections_idle.set(idle.len() as i64);
        taken
    }

    /// Keeps a connection whose exchange ended cleanly; `announced` is the server's `Keep-Alive: timeout`.
    pub(crate) fn keep_idle(
        &self,
        plan: &UpstreamPlan,
        server: usize,
        connection: ServerConnection,
        now: Instant,
        announced: Option<Duration>,
    ) {
        if plan.has_moved(server, connection.opened_at) {
            return;
        }
        if let Some(shared) = &plan.shared_idle[server] {
            return shared.keep(connection, now, &plan.idle, announced);
        }
        let local = &self.servers[server];
        let mut idle = local.idle.borrow_mut();
        idle.keep(connection, now, &plan.idle, announced);
        local.shard.connections_idle.set(idle.len() as i64);
    }
}
