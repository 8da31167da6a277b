//! One worker: a thread with its own event loop, listening sockets, sessions, idle server connections and counters.
//!
//! Nothing on the request path takes a lock that another worker normally holds. What workers share stands in
//! [`Shared`]; everything else here belongs to one thread and is reached through an `Rc`.

pub(crate) mod apply_config;
pub(crate) mod room;

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use weir_observe::{Failure, WorkerShard};
use weir_traffic::limit::ConnectionLimit;

use crate::downstream::listener::OpenDoor;
use crate::downstream::session::Session;
use crate::exchange::carrier::Carrier;
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::descriptors::{self, ServerPlace};
use crate::net::memory::{self, Tide};
use crate::net::peer::Peer;
use crate::net::timers::Timers;
use crate::state::allowance::Allowance;
use crate::state::recorder::{Asked, Recorder};
use crate::state::running::Roll;
use crate::state::snapshot::{ListenerState, TracePlan};
use crate::state::view::{LocalListener, View};
use crate::worker::apply_config::Turn;
use crate::worker::room::{Displaced, RoomWanted};

/// Sessions by which a worker must be ahead of another before it hands one over: below that, evening out costs more
/// than it brings.
const HAND_OVER_LEAD: u32 = 4;

/// How often idle server connections are looked over for those that were closed or are over their time.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// How long after a vain search for idle connections the next one comes.
const SHED_AGAIN: Duration = Duration::from_millis(100);

/// Carriers kept for the next exchange; each holds a few KiB of warm memory.
const CARRIERS_KEPT_MAX: usize = 256;

/// What all workers share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Sessions per worker, counted from the moment they are assigned.
    pub(crate) loads: Box<[Load]>,
    /// How a worker reaches another to hand a connection over.
    pub(crate) hand_over: Box<[UnboundedSender<Accepted>]>,
    /// How workers ask each other for room.
    pub(crate) room_wanted: Box<[RoomWanted]>,
    /// Client connections of the process, with their limit.
    pub(crate) connections: ConnectionLimit,
    /// Whether it is known that the process stops soon; it goes on as before.
    pub(crate) stop_announced: AtomicBool,
    pub(crate) stopping: AtomicBool,
    /// Workers that accept no connections any more.
    pub(crate) closed: AtomicUsize,
}

/// The number of sessions of one worker, on its own cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Load(pub(crate) AtomicU32);

/// A connection on its way from the worker that accepted it to the one that will serve it.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) listener: Arc<ListenerState>,
    pub(crate) fd: OwnedFd,
    pub(crate) peer: Peer,
    /// The port it came in on; none on a Unix socket.
    pub(crate) port: Option<u16>,
}

/// What a worker thread is started with.
pub(crate) struct WorkerStart {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shard: Arc<WorkerShard>,
    /// The config that it begins with.
    pub(crate) first: Turn,
    pub(crate) turns: UnboundedReceiver<Turn>,
    pub(crate) handed_over: UnboundedReceiver<Accepted>,
    /// How much it keeps of exchanges that are over, and where it is asked about them and about what runs.
    pub(crate) recorder: weir_config::Recorder,
    pub(crate) asks: UnboundedReceiver<Asked>,
    pub(crate) stop: Arc<Notify>,
    pub(crate) random_seed: u64,
}

/// The state of one worker.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shard: Arc<WorkerShard>,
    pub(crate) stock: Rc<BufferStock>,
    pub(crate) view: RefCell<Rc<View>>,
    /// Its side of every listener, in the order of the config.
    pub(crate) listeners: RefCell<Vec<Rc<LocalListener>>>,
    /// Those that the config does not name any more and that something is left of.
    pub(crate) leaving: RefCell<Vec<Rc<LocalListener>>>,
    pub(crate) doors: RefCell<Vec<OpenDoor>>,
    /// One per session; through them they are also told that the worker stops.
    pub(crate) timers: Rc<Timers>,
    /// What is kept of exchanges that are over.
    pub(crate) recorder: Option<Recorder>,
    /// Where sessions tell what they do, when somebody asks.
    pub(crate) roll: Roll,
    /// That of the last one that was opened.
    session_number: Cell<u64>,
    carriers: RefCell<Vec<Carrier>>,
    /// Exchanges that may still begin before the buffers run out.
    exchanges: Allowance,
    /// Heard when a session ends.
    pub(crate) room: Notify,
    pub(crate) displaced: Displaced,
    /// Heard when a session ends while it stops.
    pub(crate) drained: Notify,
    /// When it heard of the stop.
    stopped_at: Cell<Option<Instant>>,
    random: Cell<u64>,
    /// When as many exchanges may be sampled again as in a second.
    sampling_full_at: Cell<Duration>,
    /// Until when it is no use to look for idle connections to close.
    nothing_idle_until: Cell<Option<Instant>>,
    /// The second that `date_text` names.
    date_second: Cell<u64>,
    date_text: Cell<[u8; 29]>,
}

/// Runs a worker until it is told to stop and its last session has ended.
///
/// # Errors
/// When the event loop cannot be made.
pub(crate) fn run(start: WorkerStart) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, as_task(serve(start)))
}

/// Runs `future` as a task of its own. What the event loop is started with is polled in each of its turns, a task only when it has news.
async fn as_task<T: 'static>(future: impl Future<Output = T> + 'static) -> T {
    let outcome = Rc::new(TaskOutput { output: Cell::new(None), waiting: OnceCell::new() });
    let guard = TaskGuard(Rc::clone(&outcome));
    tokio::task::spawn_local(async move {
        let output = future.await;
        guard.0.output.set(Some(output));
    });
    std::future::poll_fn(|cx| {
        if Rc::strong_count(&outcome) > 1 {
            outcome.waiting.get_or_init(|| cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(outcome.output.take().expect("the task did not panic"))
    })
    .await
}

/// What becomes of a task, and the one that waits for it.
struct TaskOutput<T> {
    output: Cell<Option<T>>,
    waiting: OnceCell<Waker>,
}

/// The task's side of its outcome, until it is over.
struct TaskGuard<T>(Rc<TaskOutput<T>>);

impl<T> Drop for TaskGuard<T> {
    fn drop(&mut self) {
        if let Some(waker) = self.0.waiting.get() {
            waker.wake_by_ref();
        }
    }
}

async fn serve(start: WorkerStart) -> std::io::Result<()> {
    let worker = Rc::new(Worker::new(&start)?);
    let WorkerStart { first, turns, handed_over, asks, stop, .. } = start;
    worker.begin(first);
    let turning = tokio::task::spawn_local(take_turns(Rc::clone(&worker), turns));
    let others = [
        tokio::task::spawn_local(take_sessions(Rc::clone(&worker), handed_over)),
        tokio::task::spawn_local(answer(Rc::clone(&worker), asks)),
        tokio::task::spawn_local(sweep(Rc::clone(&worker))),
        tokio::task::spawn_local(Rc::clone(&worker).make_room_for_others()),
        tokio::task::spawn_local(run_timers(Rc::clone(&worker.timers))),
    ];
    stop.notified().await;
    turning.abort();
    let _aborted = turning.await;
    worker.stopped_at.set(Some(clock::now()));
    worker.timers.wake_all();
    worker.close_all_doors().await;
    worker.drain().await;
    others.iter().for_each(tokio::task::JoinHandle::abort);
    worker.flush_logs();
    Ok(())
}

/// Takes up each config that follows.
async fn take_turns(worker: Rc<Worker>, mut turns: UnboundedReceiver<Turn>) {
    while let Some(turn) = turns.recv().await {
        worker.turn(turn).await;
    }
}

/// Takes the sessions that other workers have accepted for this one.
async fn take_sessions(worker: Rc<Worker>, mut handed_over: UnboundedReceiver<Accepted>) {
    while let Some(accepted) = handed_over.recv().await {
        worker.shard.sessions_handed_in.increment();
        worker.take_over(accepted);
    }
}

/// Answers those who ask what was, and what runs.
async fn answer(worker: Rc<Worker>, mut asks: UnboundedReceiver<Asked>) {
    while let Some(ask) = asks.recv().await {
        match ask {
            Asked::Kept(ask) => ask.answer(worker.recorder.as_ref()),
            Asked::Running(ask) => worker.roll.call(&worker.timers, ask).await,
        }
    }
}

async fn run_timers(timers: Rc<Timers>) {
    timers.run().await;
}

/// Buffers that one exchange may hold: one for what the client sends, one for what the server sends.
const BUFFERS_PER_EXCHANGE: u32 = 2;

async fn sweep(worker: Rc<Worker>) {
    let mut tide = Tide::default();
    loop {
        worker.timers.nap(SWEEP_INTERVAL).await;
        let view = Rc::clone(&worker.view.borrow());
        let now = clock::now();
        view.sweep_pools(now);
        if ServerPlace::are_scarce() {
            // Another worker may need their places.
            view.shed_pools();
        }
        worker.flush_logs();
        worker.take_stock();
        worker.leaving.borrow_mut().retain(|listener| listener.is_needed(now));
        if tide.has_fallen(worker.shared.loads[worker.index].0.load(Ordering::Relaxed)) {
            worker.stock.shrink();
            memory::give_back();
        }
    }
}

impl Worker {
    fn new(start: &WorkerStart) -> std::io::Result<Self> {
        let process = &start.first.snapshot.process;
        let exchanges_max = process.buffers_max / BUFFERS_PER_EXCHANGE / start.shared.loads.len() as u32;
        Ok(Self {
            index: start.index,
            shared: Arc::clone(&start.shared),
            shard: Arc::clone(&start.shard),
            stock: BufferStock::new(process.buffer_size.as_usize()),
            view: RefCell::new(Rc::new(View::new(&start.first.snapshot, start.index))),
            listeners: RefCell::default(),
            leaving: RefCell::default(),
            doors: RefCell::default(),
            timers: Timers::new()?,
            recorder: Recorder::new(&start.recorder),
            roll: Roll::default(),
            session_number: Cell::new(0),
            carriers: RefCell::new(Vec::new()),
            exchanges: Allowance::new(exchanges_max.max(1)),
            room: Notify::new(),
            displaced: Displaced::default(),
            drained: Notify::new(),
            stopped_at: Cell::new(None),
            random: Cell::new(start.random_seed | 1),
            sampling_full_at: Cell::new(Duration::ZERO),
            nothing_idle_until: Cell::new(None),
            date_second: Cell::new(0),
            date_text: Cell::new(weir_http::write::date(0)),
        })
    }

    /// 64 fresh random bits (xorshift64*): for spreading load, never for secrets.
    pub(crate) fn random(&self) -> u64 {
        let mut bits = self.random.get();
        bits ^= bits >> 12;
        bits ^= bits << 25;
        bits ^= bits >> 27;
        self.random.set(bits);
        bits.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Whether one more exchange may be sampled at `now`, which counts from the epoch of the snapshot; counts the answer.
    pub(crate) fn may_sample(&self, plan: &TracePlan, now: Duration) -> bool {
        let mut full_at = self.sampling_full_at.get();
        let may = plan.pace.try_take(&mut full_at, now);
        self.sampling_full_at.set(full_at);
        let counter = if may { &self.shard.traces_sampled } else { &self.shard.traces_limited };
        counter.increment();
        may
    }

    /// The number of a session that begins.
    pub(crate) fn next_session(&self) -> u64 {
        self.session_number.set(self.session_number.get() + 1);
        self.session_number.get()
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

    /// When it heard of the stop; while it has not, the present.
    pub(crate) fn stopped_at(&self) -> Instant {
        self.stopped_at.get().unwrap_or_else(clock::now)
    }

    /// Takes an accepted connection, or hands it to another worker that is clearly less busy.
    pub(crate) fn place(self: &Rc<Self>, listener: &Rc<LocalListener>, accepted: Accepted) {
        self.shard.sessions_accepted.increment();
        // Others may have ended when the process stops.
        let chosen = if self.is_stopping() { self.index } else { self.least_busy_of_two() };
        self.shared.loads[chosen].0.fetch_add(1, Ordering::Relaxed);
        if chosen == self.index {
            self.start_session(Rc::clone(listener), accepted);
            return;
        }
        match self.shared.hand_over[chosen].send(accepted) {
            Ok(()) => self.shard.sessions_handed_out.increment(),
            // The other worker has failed.
            Err(refused) => {
                self.shared.loads[chosen].0.fetch_sub(1, Ordering::Relaxed);
                self.shared.loads[self.index].0.fetch_add(1, Ordering::Relaxed);
                self.start_session(Rc::clone(listener), refused.0);
            }
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

    fn start_session(self: &Rc<Self>, listener: Rc<LocalListener>, accepted: Accepted) {
        let state = Arc::clone(&accepted.listener);
        match Session::open(Rc::clone(self), listener, accepted) {
            Some(session) => drop(tokio::task::spawn_local(session.run())),
            None => self.forget(self.index, &state),
        }
    }

    /// Takes a connection that another worker has accepted.
    fn take_over(self: &Rc<Self>, accepted: Accepted) {
        let is_its = |local: &&Rc<LocalListener>| Arc::ptr_eq(&local.state, &accepted.listener);
        let local = self.listeners.borrow().iter().find(is_its).cloned();
        let local = local.or_else(|| self.leaving.borrow().iter().find(is_its).cloned());
        match local {
            Some(local) => self.start_session(local, accepted),
            // Removed by a reload, and nothing has been left of it for long.
            None => self.forget(self.index, &accepted.listener),
        }
    }

    fn forget(&self, worker: usize, listener: &ListenerState) {
        self.shared.loads[worker].0.fetch_sub(1, Ordering::Relaxed);
        self.unreserve(listener);
    }

    /// Counts an accept that failed for want of descriptors or of memory in the kernel.
    pub(crate) fn count_exhausted(&self, listener: &LocalListener, errno: rustix::io::Errno) {
        self.shard.accept_errors.increment();
        let wanted = match errno {
            rustix::io::Errno::MFILE | rustix::io::Errno::NFILE => {
                "no file descriptor left for a new connection: raise the limit on open files (ulimit -n)"
            }
            _ => "the kernel has no memory left for a new connection: it waits in the backlog",
        };
        tracing::warn!(listener = &*listener.plan().config.name, "{wanted}");
    }

    /// Counts that something of this machine was wanting for a connection to a server.
    #[cold]
    pub(crate) fn count_wanting(&self, failure: Failure) {
        self.shard.local_failures.increment();
        descriptors::raise_alarm(failure);
    }

    /// Closes what is not in use, so that there are descriptors again; whether it found something. Not again at once where there was nothing.
    #[cold]
    pub(crate) fn free_descriptors(&self) -> bool {
        let now = clock::now();
        if self.nothing_idle_until.get().is_some_and(|until| now < until) {
            return false;
        }
        let view = Rc::clone(&self.view.borrow());
        let freed = view.shed_pools() | self.stock.close_pipes();
        self.nothing_idle_until.set((!freed).then(|| now + SHED_AGAIN));
        freed
    }

    /// Keeps a failure of a client connection on which there was no exchange.
    #[cold]
    pub(crate) fn record_session(
        &self,
        failure: Failure,
        peer: Peer,
        session: u64,
        listener: &LocalListener,
        opened_at: Instant,
    ) {
        let Some(recorder) = &self.recorder else { return };
        // Not while it is being replaced, which a connection that ends by a panic could come across.
        let Ok(present) = self.view.try_borrow() else { return };
        let (view, place) = listener.ground(&present);
        recorder.record_session(failure, peer, session, view.snapshot.generation, place, opened_at);
    }

    /// Counts a session that has ended. `entered` says whether it had begun to run.
    pub(crate) fn leave_session(&self, entered: bool, listener: &LocalListener) {
        if entered {
            self.shard.sessions_open.decrement();
        }
        self.forget(self.index, &listener.state);
        self.room.notify_one();
        if self.is_stopping() {
            self.drained.notify_one();
        }
    }

    /// A carrier for an exchange, from those that earlier ones left warm; waits while the buffers are used up.
    pub(crate) async fn begin_exchange(&self) -> Carrier {
        self.exchanges.wait().await;
        self.lend_carrier()
    }

    /// The same without waiting; `None` while the buffers are used up, or others wait for them.
    pub(crate) fn try_begin_exchange(&self) -> Option<Carrier> {
        self.exchanges.try_take().then(|| self.lend_carrier())
    }

    /// The same although the buffers are used up: for an answer that needs none.
    pub(crate) fn begin_exchange_beyond(&self) -> Carrier {
        self.exchanges.overdraw();
        self.lend_carrier()
    }

    fn lend_carrier(&self) -> Carrier {
        self.shard.exchanges_open.increment();
        self.carriers.borrow_mut().pop().unwrap_or_else(Carrier::new)
    }

    /// Whether exchanges give back what they took while they wait without a buffer.
    pub(crate) fn is_short_of_buffers(&self) -> bool {
        self.exchanges.is_scarce()
    }

    /// An exchange waits and holds no buffer: another one may begin meanwhile.
    #[cold]
    pub(crate) fn park_exchange(&self) {
        self.exchanges.give_back();
        self.call_thirsty();
    }

    /// Whether an exchange that has parked may take buffers again.
    #[cold]
    pub(crate) fn resume_exchange(&self) -> bool {
        self.exchanges.try_resume()
    }

    /// An exchange ends that has parked.
    #[cold]
    pub(crate) fn leave_parked(&self) {
        self.exchanges.overdraw();
    }

    #[inline]
    fn call_thirsty(&self) {
        if self.stock.has_thirsty() && self.exchanges.may_resume() {
            self.stock.wake_thirsty();
        }
    }

    /// Takes back the carrier of an exchange that is over; `None` when it must not be used again.
    pub(crate) fn end_exchange(&self, carrier: Option<Carrier>) {
        self.exchanges.give_back();
        self.call_thirsty();
        self.shard.exchanges_open.decrement();
        let mut kept = self.carriers.borrow_mut();
        if kept.len() < CARRIERS_KEPT_MAX {
            kept.extend(carrier);
        }
    }

    /// Shows what it holds.
    fn take_stock(&self) {
        let [in_use, free] = self.stock.counts();
        self.shard.buffers_in_use.set(in_use as i64);
        self.shard.buffers_free.set(free as i64);
        self.shard.exchanges_kept.set(self.carriers.borrow().len() as i64);
        self.shard.timers.set(self.timers.len() as i64);
    }

    fn flush_logs(&self) {
        for listener in self.listeners.borrow().iter().chain(self.leaving.borrow().iter()) {
            listener.flush_log();
        }
    }
}
