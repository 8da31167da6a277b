//! One worker: a thread with its own event loop, listening sockets, sessions, idle server connections and counters.
//!
//! Nothing on the request path takes a lock that another worker normally holds. What workers share stands in
//! [`Shared`]; everything else here belongs to one thread and is reached through an `Rc`.

use std::cell::{Cell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use weir_observe::WorkerShard;
use weir_traffic::limit::{ClientLimit, ConnectionLimit};

use crate::buffer::BufferStock;
use crate::clock;
use crate::control::access_log::LogBatches;
use crate::downstream::listener;
use crate::downstream::session::{Peer, Session};
use crate::exchange::carrier::Carrier;
use crate::snapshot::Snapshot;
use crate::timers::Timers;
use crate::view::View;

/// Sessions by which a worker must be ahead of another before it hands one over: below that, evening out costs more
/// than it brings.
const HAND_OVER_LEAD: u32 = 4;

/// How often idle server connections are looked over for those that were closed or are over their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// Carriers kept for the next exchange; each holds a few KiB of warm memory.
const CARRIERS_KEPT_MAX: usize = 256;

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) snapshot: Arc<Snapshot>,
    /// Sessions per worker, counted from the moment they are assigned.
    pub(crate) loads: Box<[Load]>,
    /// How a worker reaches another to hand a connection over.
    pub(crate) hand_over: Box<[UnboundedSender<Accepted>]>,
    /// Client connections of the process and of each listener, with their limits.
    pub(crate) connections: ConnectionLimit,
    pub(crate) listener_connections: Box<[ConnectionLimit]>,
    /// Sessions per client address, for each listener that limits them.
    pub(crate) clients: Box<[Option<ClientLimit>]>,
    pub(crate) stopping: AtomicBool,
}

/// The number of sessions of one worker, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Load(pub(crate) AtomicU32);

/// A connection on its way from the worker that accepted it to the one that will serve it.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) listener: usize,
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Peer,
    /// The port it came in on; none on a Unix socket.
    pub(crate) port: Option<u16>,
}

/// A listening socket given to a worker at its start.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: usize,
    pub(crate) port: Option<u16>,
    pub(crate) socket: OwnedFd,
}

/// What a worker thread is started with.
pub(crate) struct WorkerStart {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shard: Arc<WorkerShard>,
    pub(crate) listening: Vec<Listening>,
    pub(crate) handed_over: UnboundedReceiver<Accepted>,
    pub(crate) stop: Arc<Notify>,
    pub(crate) logs: Vec<Option<LogBatches>>,
    pub(crate) random_seed: u64,
}

/// The state of one worker.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shard: Arc<WorkerShard>,
    pub(crate) stock: Rc<BufferStock>,
    pub(crate) view: RefCell<Rc<View>>,
    pub(crate) logs: Vec<Option<LogBatches>>,
    /// One per session; through them they are also told that the worker stops.
    pub(crate) timers: Rc<Timers>,
    carriers: RefCell<Vec<Carrier>>,
    /// Exchanges that may still begin before the buffers run out.
    exchanges_left: Cell<u32>,
    exchange_over: Notify,
    room: Notify,
    drained: Notify,
    random: Cell<u64>,
    /// The second that `date_text` names.
    date_second: Cell<u64>,
    date_text: Cell<[u8; 29]>,
}

/// Runs a worker until it is told to stop and its last session has ended.
///
/// # Errors
/// When the event loop cannot be made.
pub(crate) fn run(start: WorkerStart) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, serve(start));
    Ok(())
}

async fn serve(start: WorkerStart) {
    let WorkerStart { index, shared, shard, listening, mut handed_over, stop, logs, random_seed } = start;
    let process = &shared.snapshot.process;
    let exchanges_max = process.buffers_max / BUFFERS_PER_EXCHANGE / shared.loads.len() as u32;
    let worker = Rc::new(Worker {
        index,
        stock: BufferStock::new(process.buffer_size.as_usize()),
        view: RefCell::new(Rc::new(View::new(&shared.snapshot, &shard))),
        logs,
        timers: Timers::new(),
        carriers: RefCell::new(Vec::new()),
        exchanges_left: Cell::new(exchanges_max.max(1)),
        exchange_over: Notify::new(),
        room: Notify::new(),
        drained: Notify::new(),
        random: Cell::new(random_seed | 1),
        date_second: Cell::new(0),
        date_text: Cell::new(weir_http::write::date(0)),
        shared,
        shard,
    });
    let mut accepting = Vec::new();
    for socket in listening {
        accepting.push(tokio::task::spawn_local(listener::accept(Rc::clone(&worker), socket)));
    }
    let inbox = tokio::task::spawn_local({
        let worker = Rc::clone(&worker);
        async move {
            while let Some(accepted) = handed_over.recv().await {
                worker.shard.sessions_handed_in.increment();
                worker.start_session(accepted);
            }
        }
    });
    let sweeper = tokio::task::spawn_local(sweep(Rc::clone(&worker)));
    let timers = Rc::clone(&worker.timers);
    let clockwork = tokio::task::spawn_local(async move { timers.run().await });
    stop.notified().await;
    for task in accepting {
        task.abort();
        let _aborted = task.await;
    }
    worker.timers.wake_all();
    while worker.timers.len() > 0 {
        worker.drained.notified().await;
    }
    inbox.abort();
    sweeper.abort();
    clockwork.abort();
    worker.flush_logs();
}

/// Buffers that one exchange may hold: one for what the client sends, one for what the server sends.
const BUFFERS_PER_EXCHANGE: u32 = 2;

async fn sweep(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(SWEEP_INTERVAL).await;
        let view = Rc::clone(&worker.view.borrow());
        view.sweep_idle(clock::now());
        worker.flush_logs();
    }
}

impl Worker {
    /// 64 fresh random bits (xorshift64*): for spreading load, never for secrets.
    pub(crate) fn random(&self) -> u64 {
        let mut bits = self.random.get();
        bits ^= bits >> 12;
        bits ^= bits << 25;
        bits ^= bits >> 27;
        self.random.set(bits);
        bits.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// The value of `Date` now (RFC 9110 section 6.6.1), written anew once a second.
    pub(crate) fn date(&self) -> [u8; 29] {
        let second = clock::unix_now().as_secs();
        if second != self.date_second.get() {
            self.date_second.set(second);
            self.date_text.set(weir_http::write::date(second));
        }
        self.date_text.get()
    }

    /// Whether the process is on its way down: no request is taken after the current ones.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Reserves the place of one more connection on a listener, if process and listener may have one.
    pub(crate) fn try_reserve(&self, listener: usize) -> bool {
        if !self.shared.connections.try_acquire() {
            return false;
        }
        let reserved = self.shared.listener_connections[listener].try_acquire();
        if !reserved {
            self.shared.connections.release();
        }
        reserved
    }

    /// Gives back what [`Worker::try_reserve`] took.
    pub(crate) fn unreserve(&self, listener: usize) {
        self.shared.connections.release();
        self.shared.listener_connections[listener].release();
    }

    /// Reserves the place of one more connection; those that come meanwhile wait in the backlog of the kernel.
    pub(crate) async fn reserve(&self, listener: usize) {
        while !self.try_reserve(listener) {
            // Sessions of other workers end without a word to this one: look again now and then.
            let _woken = tokio::time::timeout(Duration::from_millis(20), self.room.notified()).await;
        }
    }

    /// Takes an accepted connection, or hands it to another worker that is clearly less busy.
    pub(crate) fn place(self: &Rc<Self>, accepted: Accepted) {
        let listener = accepted.listener;
        self.shard.sessions_accepted.increment();
        let chosen = self.least_busy_of_two();
        self.shared.loads[chosen].0.fetch_add(1, Ordering::Relaxed);
        if chosen == self.index {
            self.start_session(accepted);
            return;
        }
        match self.shared.hand_over[chosen].send(accepted) {
            Ok(()) => self.shard.sessions_handed_out.increment(),
            // The other worker is gone already: the process stops.
            Err(_) => self.forget(chosen, listener),
        }
    }

    fn least_busy_of_two(&self) -> usize {
        let workers = self.shared.loads.len();
        if workers == 1 {
            return 0;
        }
        let other = (self.index + 1 + self.random() as usize % (workers - 1)) % workers;
        let mine = self.shared.loads[self.index].0.load(Ordering::Relaxed);
        let theirs = self.shared.loads[other].0.load(Ordering::Relaxed);
        if mine >= theirs.saturating_add(HAND_OVER_LEAD + theirs / 8) { other } else { self.index }
    }

    fn start_session(self: &Rc<Self>, accepted: Accepted) {
        let listener = accepted.listener;
        match Session::open(Rc::clone(self), accepted) {
            Some(session) => drop(tokio::task::spawn_local(session.run())),
            None => self.forget(self.index, listener),
        }
    }

    fn forget(&self, worker: usize, listener: usize) {
        self.shared.loads[worker].0.fetch_sub(1, Ordering::Relaxed);
        self.unreserve(listener);
    }

    /// Counts an accept that failed for want of descriptors.
    pub(crate) fn count_exhausted(&self, listener: usize) {
        self.shard.accept_errors.increment();
        tracing::warn!(
            listener = &*self.shared.snapshot.listeners[listener].config.name,
            "no file descriptor left for a new connection: raise the limit on open files (ulimit -n)"
        );
    }

    /// Counts a session that has ended. `entered` says whether it had begun to run.
    pub(crate) fn leave_session(&self, entered: bool, listener: usize) {
        if entered {
            self.shard.sessions_open.decrement();
        }
        self.forget(self.index, listener);
        self.room.notify_one();
        if self.is_stopping() && self.timers.len() == 0 {
            self.drained.notify_one();
        }
    }

    /// A carrier for an exchange, from those that earlier ones left warm; waits while the buffers are used up.
    pub(crate) async fn begin_exchange(&self) -> Carrier {
        loop {
            match self.try_begin_exchange() {
                Some(carrier) => return carrier,
                None => self.exchange_over.notified().await,
            }
        }
    }

    /// The same without waiting; `None` while the buffers are used up.
    pub(crate) fn try_begin_exchange(&self) -> Option<Carrier> {
        self.exchanges_left.set(self.exchanges_left.get().checked_sub(1)?);
        self.shard.exchanges_open.increment();
        Some(self.carriers.borrow_mut().pop().unwrap_or_else(Carrier::new))
    }

    /// Takes back the carrier of an exchange that is over; `None` when it must not be used again.
    pub(crate) fn end_exchange(&self, carrier: Option<Carrier>) {
        if self.exchanges_left.get() == 0 {
            self.exchange_over.notify_one();
        }
        self.exchanges_left.set(self.exchanges_left.get() + 1);
        self.shard.exchanges_open.decrement();
        let mut kept = self.carriers.borrow_mut();
        if kept.len() < CARRIERS_KEPT_MAX {
            kept.extend(carrier);
        }
    }

    fn flush_logs(&self) {
        for log in self.logs.iter().flatten() {
            log.flush();
        }
    }
}
