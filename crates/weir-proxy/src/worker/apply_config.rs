//! A worker applies another config: the update that it gets, and the steps of the change.
//!
//! Between two steps of its event loop, so that no exchange sees half of it. Requests under way keep the config that they began with,
//! connections stay where they are. Must not decide what changes: that is a reload in the control plane.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use super::Acceptor;
use super::accept::AcceptingSocket;
use crate::net::clock;
use crate::state::log_batches::WorkerLogs;
use crate::state::routes::static_files::OpenFileLimits;
use crate::state::snapshot::Snapshot;
use crate::state::worker_config::LocalListener;

/// How long connections have whose TCP handshake is under way when a stop begins: the last packet of it is underway for half of a round trip.
const HANDSHAKE_TIME: Duration = Duration::from_millis(200);

/// How long a worker that stops waits for others that are busy, since they could still hand connections over.
const CLOSING_TIME: Duration = Duration::from_secs(1);

/// How often a worker that stops looks how far the others are.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// How long after a change of servers the tasks that wait are woken, so that tunnels follow it: many changes in a row wake them once.
const FOLLOW_TIME: Duration = Duration::from_secs(1);

/// What a worker is to go over to.
pub enum WorkerChange {
    /// Another config.
    Config(Box<ConfigUpdate>),
    /// The same config with other servers in some upstreams.
    Servers(ServersUpdate),
}

/// The snapshot of other servers, and the sign that the worker uses it.
pub struct ServersUpdate {
    /// As the one before but for servers.
    pub snapshot: Arc<Snapshot>,
    /// Dropped when the worker has done it.
    pub done: Sender<()>,
}

/// The config that a worker goes over to.
pub struct ConfigUpdate {
    /// The config, ready for the data path.
    pub snapshot: Arc<Snapshot>,
    /// The access logs of its listeners and routes.
    pub logs: WorkerLogs,
    /// All addresses where it accepts from now on. A socket that is not here is closed.
    pub sockets: Vec<SocketAssignment>,
    /// Dropped when the worker has done it.
    pub done: Option<Sender<()>>,
}

/// Where a worker accepts.
#[derive(Debug, Clone)]
pub struct SocketAssignment {
    /// The id of the address in the process.
    pub id: u64,
    /// The place of its listener in the snapshot.
    pub listener: usize,
    /// None on a Unix socket.
    pub port: Option<u16>,
    /// Whether datagrams are received on it, and no connections accepted.
    pub receives_datagrams: bool,
    /// The socket, if the worker does not have it yet.
    pub socket: Option<Arc<OwnedFd>>,
}

impl ConfigUpdate {
    /// The same, for a worker that begins anew.
    pub(super) fn again(&self) -> Self {
        Self {
            snapshot: Arc::clone(&self.snapshot),
            logs: self.logs.emptied(),
            sockets: self.sockets.clone(),
            done: None,
        }
    }

    /// The update that has the effect of this one and of `next`: sockets that `next` expects to be open are part of it.
    fn followed_by(&self, next: &Self) -> Self {
        let mut both = next.again();
        for assignment in both.sockets.iter_mut().filter(|assignment| assignment.socket.is_none()) {
            let known = self.sockets.iter().find(|known| known.id == assignment.id);
            assignment.socket = known.and_then(|known| known.socket.clone());
        }
        both
    }
}

impl Acceptor {
    /// Begins with the first config, whose `WorkerConfig` it has already.
    pub(crate) fn begin(self: &Rc<Self>, change: ConfigUpdate) {
        let WorkerLogs { listeners: logs, routes, places } = change.logs;
        self.worker.take_route_logs(&self.worker.config.borrow(), routes, places);
        let plans = change.snapshot.listeners.iter().zip(logs).enumerate();
        let locals =
            plans.map(|(place, (plan, log))| LocalListener::new(plan, place, self.worker.index, log));
        self.worker.listeners.replace(locals.collect());
        self.open_sockets(change.sockets);
    }

    /// Goes over to other servers: requests that begin from now on may get them.
    pub(crate) fn apply_servers(self: &Rc<Self>, change: ServersUpdate) {
        let ServersUpdate { snapshot, done } = change;
        self.resources.config.borrow_mut().snapshot = Arc::clone(&snapshot);
        let config = self.worker.config.borrow().with_servers(&snapshot);
        self.worker.config.replace(Rc::new(config));
        drop(done);
        if !self.worker.is_waking.replace(true) {
            let worker = Rc::clone(&self.worker);
            self.worker.crash.spawn(async move {
                worker.timers.sleep(FOLLOW_TIME).await;
                worker.is_waking.set(false);
                worker.timers.wake_all();
            });
        }
    }

    /// Goes over to the next config.
    pub(crate) async fn apply(self: &Rc<Self>, change: ConfigUpdate) {
        // First: should this crash, the worker begins with the new config.
        self.resources.config.replace_with(|before| before.followed_by(&change));
        let ConfigUpdate { snapshot, logs, sockets, done } = change;
        let WorkerLogs { listeners: logs, routes, places } = logs;
        let before = Rc::clone(&self.worker.config.borrow());
        let config = Rc::new(before.succeeded_by(&snapshot));
        self.worker.take_route_logs(&config, routes, places);
        let mut known = self.worker.listeners.take();
        let mut locals = Vec::with_capacity(snapshot.listeners.len());
        for (place, (plan, log)) in snapshot.listeners.iter().zip(logs).enumerate() {
            let at = known.iter().position(|local| Arc::ptr_eq(&local.state, &plan.state));
            locals.push(match at {
                None => LocalListener::new(plan, place, self.worker.index, log),
                Some(at) => {
                    let local = known.swap_remove(at);
                    local.follow(plan, place, log);
                    local
                }
            });
        }
        let now = clock::now();
        for gone in known {
            gone.leave(&before, now, now + snapshot.process.reload_grace);
            self.worker.leaving.borrow_mut().push(gone);
        }
        self.worker.listeners.replace(locals);
        self.worker.config.replace(config);
        let workers = self.worker.shared.loads.len();
        self.worker.open_files.limit(OpenFileLimits::new(&snapshot.process, workers));
        drop(before);
        let is_wanted =
            |accepting: &AcceptingSocket| sockets.iter().any(|assignment| assignment.id == accepting.id);
        let (kept, closed): (Vec<_>, Vec<_>) = self.sockets.take().into_iter().partition(is_wanted);
        self.sockets.replace(kept);
        #[cfg(feature = "http3")]
        self.close_datagram_sockets(|id| sockets.iter().any(|assignment| assignment.id == id));
        self.open_sockets(sockets);
        for accepting in closed {
            accepting.close(self).await;
        }
        drop(done);
        // Wakes tunnels, so that they apply a new end time and release the old config.
        self.worker.timers.wake_all();
    }

    fn open_sockets(self: &Rc<Self>, assignments: Vec<SocketAssignment>) {
        let listeners = self.worker.listeners.borrow();
        let mut sockets = self.sockets.borrow_mut();
        for assignment in assignments {
            let listener = &listeners[assignment.listener];
            if assignment.receives_datagrams {
                #[cfg(feature = "http3")]
                self.open_datagram_socket(assignment.id, (assignment.socket, assignment.port), listener);
                continue;
            }
            let SocketAssignment { id, port, socket, .. } = assignment;
            match (sockets.iter().find(|accepting| accepting.id == id), socket) {
                (Some(accepting), _) => accepting.give_to(listener),
                (None, Some(socket)) => {
                    sockets.extend(AcceptingSocket::open(self, id, socket, port, listener));
                }
                // Another worker has the only socket of this address.
                (None, None) => {}
            }
        }
    }

    /// Accepts no new connections, but all that had begun when new ones were refused: a client whose `connect` succeeded gets its response.
    pub(crate) async fn close_all_sockets(self: &Rc<Self>) {
        // Handshakes under way on a socket that another process has, too, end there.
        if !self.sockets.borrow().is_empty() && !self.worker.is_replaced() {
            self.worker.timers.sleep(HANDSHAKE_TIME).await;
        }
        self.resources.config.borrow_mut().sockets.clear();
        #[cfg(feature = "http3")]
        self.close_datagram_sockets(|_| false);
        for accepting in self.sockets.take() {
            accepting.close(self).await;
        }
        self.worker.shared.closed.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until every connection of this worker has ended, those that others hand over included.
    pub(crate) async fn drain(&self) {
        let end = clock::now() + CLOSING_TIME;
        let is_drained = || {
            // In this order: a worker that has closed its sockets hands nothing over.
            let all_closed =
                self.worker.shared.closed.load(Ordering::SeqCst) == self.worker.shared.loads.len();
            (all_closed || clock::now() >= end)
                && self.worker.shared.loads[self.worker.index].0.load(Ordering::SeqCst) == 0
        };
        while !is_drained() {
            tokio::select! {
                () = self.worker.drained.notified() => {}
                () = self.worker.timers.sleep(STOP_LOOK) => {}
            }
        }
    }
}
