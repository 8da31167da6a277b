//! The state of one worker: buffers, timers, counters, and its config.
//!
//! Nothing on the request path takes a lock that another worker normally holds. What workers share is in [`Shared`];
//! everything else here belongs to one thread and is reached through an `Rc`.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Notify;
use weir_access::SignedToken;
use weir_observe::{Failure, MemoryStep, WorkerShard};

use super::budgets::exchange_budget::ExchangeBudget;
use super::budgets::inbox_budget::InboxBudget;
use super::budgets::places::LimitReached;
use super::budgets::slow_heads::HeadPressure;
use super::connections::connection_list::ConnectionList;
use super::crashes::crash::CrashState;
use super::log_batches::{LogBatches, RouteLogs};
use super::node_hand_over::NodeHandOver;
use super::routes::access::password_checks::RecentVerdicts;
use super::routes::access::verdicts::Verdicts;
use super::routes::static_files::{OpenFileLimits, OpenFiles};
use super::shared::Shared;
use super::snapshot::{ListenerState, Snapshot, TracePlan};
use super::tracing::recorder::{Recorder, UnusedConnection};
use super::worker_config::{LocalListener, WorkerConfig};
use crate::compression::CodecStock;
use crate::net::buffer::BufferStock;
use crate::net::clock::{self, Instant};
use crate::net::descriptors;
use crate::net::timing::timers::Timers;

/// How long after a vain search for idle connections the next one comes.
const SHED_AGAIN: Duration = Duration::from_millis(100);

/// Buffers that one exchange may hold: one for what the client sends, one for what the server sends.
const BUFFERS_PER_EXCHANGE: u32 = 2;

/// Bytes of the claims of tokens that are remembered.
const TOKEN_BYTES_MAX: usize = 4 << 20;

/// Interval of the log lines about closed connections.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// What a worker is made from.
pub(crate) struct WorkerSeed<'a> {
    pub(crate) index: usize,
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) shard: &'a Arc<WorkerShard>,
    /// The config that it begins with.
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) recorder: &'a weir_config::RecorderSettings,
    pub(crate) random_seed: u64,
    pub(crate) crash: &'a Rc<CrashState>,
}

/// What one worker owns.
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shard: Arc<WorkerShard>,
    pub(crate) stock: Rc<BufferStock>,
    pub(crate) config: RefCell<Rc<WorkerConfig>>,
    /// Whether tasks that wait are about to be woken, since servers have changed.
    pub(crate) is_waking: Cell<bool>,
    /// Its side of every listener, in the order of the config.
    pub(crate) listeners: RefCell<Vec<Rc<LocalListener>>>,
    /// Those that the config does not name any more and that something is left of.
    pub(crate) leaving: RefCell<Vec<Rc<LocalListener>>>,
    /// The access logs of routes, those of earlier configs included that an exchange still has.
    route_logs: RefCell<Vec<Rc<LogBatches>>>,
    /// One per connection; through them connections are also woken when the worker stops.
    pub(crate) timers: Rc<Timers>,
    /// What is kept of exchanges that are over.
    pub(crate) recorder: Option<Recorder>,
    /// The query that the connections answer.
    pub(crate) connection_list: ConnectionList,
    /// That of the last one that was opened.
    connection_number: Cell<u64>,
    /// Exchanges that may still begin before the buffers run out.
    pub(crate) exchanges: ExchangeBudget,
    /// Requests of Weir's own that run in the background.
    pub(crate) background_open: Cell<u32>,
    /// Encoders and decoders of bodies.
    pub(crate) codecs: Rc<CodecStock>,
    /// Files that routes serve.
    pub(crate) open_files: OpenFiles,
    /// Bytes of bodies that wait for a reader.
    pub(crate) inbox: InboxBudget,
    /// Passwords that were verified lately.
    pub(crate) passwords: RefCell<RecentVerdicts>,
    /// Tokens whose signature was verified.
    pub(crate) tokens: RefCell<Verdicts<Rc<SignedToken>>>,
    pub(crate) evictions: EvictionLog,
    /// The same of clients without a whole request head.
    slow_heads_ended: EvictionLog,
    /// Whether these have to go for new connections.
    pub(crate) head_pressure: HeadPressure,
    /// Heard when a connection ends while it stops.
    pub(crate) drained: Notify,
    /// Whether it has crashed, so that all it has is lost.
    pub(crate) crash: Rc<CrashState>,
    /// When it noticed the stop.
    pub(crate) stopped_at: Cell<Option<Instant>>,
    random: Cell<u64>,
    /// When as many exchanges may be sampled again as in a second.
    sampling_full_at: Cell<Duration>,
    /// Until when the search for idle connections to close is paused.
    nothing_idle_until: Cell<Option<Instant>>,
    /// When the second ends that `date_text` names.
    date_until: Cell<Option<Instant>>,
    date_text: Cell<[u8; 29]>,
}

/// Connections that were closed to make room.
#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    /// Number since the last log line.
    unreported: Cell<u64>,
    reported_at: Cell<Option<Instant>>,
}

impl EvictionLog {
    /// Counts `more`; gives the number for a line of the log where one is due.
    fn count(&self, more: u64) -> Option<u64> {
        self.unreported.set(self.unreported.get() + more);
        let now = clock::now();
        if self.unreported.get() == 0 || self.reported_at.get().is_some_and(|at| now < at + REPORT_INTERVAL) {
            return None;
        }
        self.reported_at.set(Some(now));
        Some(self.unreported.take())
    }
}

impl Worker {
    pub(crate) fn new(start: &WorkerSeed<'_>) -> std::io::Result<Self> {
        let process = &start.snapshot.process;
        let exchanges_max = start.shared.buffers_max / BUFFERS_PER_EXCHANGE / start.shared.loads.len() as u32;
        Ok(Self {
            index: start.index,
            shared: Arc::clone(start.shared),
            shard: Arc::clone(start.shard),
            stock: BufferStock::new(process.buffer_size.as_usize()),
            config: RefCell::new(Rc::new(WorkerConfig::new(start.snapshot, start.index))),
            is_waking: Cell::new(false),
            listeners: RefCell::default(),
            leaving: RefCell::default(),
            route_logs: RefCell::default(),
            timers: Timers::new()?,
            recorder: Recorder::new(start.recorder),
            connection_list: ConnectionList::default(),
            connection_number: Cell::new(0),
            exchanges: ExchangeBudget::new(exchanges_max.max(1)),
            background_open: Cell::new(0),
            codecs: CodecStock::new(start.shard),
            open_files: OpenFiles::new(OpenFileLimits::new(process, start.shared.loads.len())),
            inbox: InboxBudget::new(exchanges_max as usize * process.buffer_size.as_usize()),
            passwords: RefCell::default(),
            tokens: RefCell::new(Verdicts::new(TOKEN_BYTES_MAX)),
            evictions: EvictionLog::default(),
            slow_heads_ended: EvictionLog::default(),
            head_pressure: HeadPressure::default(),
            drained: Notify::new(),
            crash: Rc::clone(start.crash),
            stopped_at: Cell::new(None),
            random: Cell::new(start.random_seed | 1),
            sampling_full_at: Cell::new(Duration::ZERO),
            nothing_idle_until: Cell::new(None),
            date_until: Cell::new(None),
            date_text: Cell::new(weir_http::date(0)),
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

    /// The number of a connection that begins.
    pub(crate) fn next_connection_number(&self) -> u64 {
        self.connection_number.set(self.connection_number.get() + 1);
        self.connection_number.get()
    }

    /// The value of `Date` (RFC 9110 section 6.6.1) at `now`, the present; the clock of the day is read once a second.
    pub(crate) fn date(&self, now: Instant) -> [u8; 29] {
        if self.date_until.get().is_none_or(|until| now >= until) {
            self.renew_date(now);
        }
        self.date_text.get()
    }

    #[cold]
    fn renew_date(&self, now: Instant) {
        let time = clock::unix_now();
        let rest = Duration::from_secs(1) - Duration::from_nanos(time.subsec_nanos().into());
        self.date_text.set(weir_http::date(time.as_secs()));
        self.date_until.set(Some(now + rest));
    }

    /// Whether the process is on its way down: no request is taken after the current ones.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stopping.load(Ordering::Relaxed)
    }

    /// Whether connections end with their next response: the process stops, or another node is about to take over.
    pub(crate) fn is_ending(&self) -> bool {
        self.shared.places.ends.load(Ordering::Relaxed)
    }

    /// Whether idle connections are closed, since another node is about to take over or has done so.
    pub(crate) fn closes_idle(&self) -> bool {
        self.shared.node_hand_over.load() >= NodeHandOver::ClosingIdle
    }

    /// Whether the stop has come because another process serves now.
    pub(crate) fn is_replaced(&self) -> bool {
        self.shared.replaced.load(Ordering::Relaxed)
    }

    /// How long tunnels may continue after the stop has begun.
    pub(crate) fn stop_grace(&self) -> Duration {
        let process = &self.config.borrow().snapshot.process;
        if self.is_replaced() { process.reload_grace } else { process.stop_grace }
    }

    /// When it noticed the stop; the current time before that.
    pub(crate) fn stopped_at(&self) -> Instant {
        self.stopped_at.get().unwrap_or_else(clock::now)
    }

    pub(crate) fn forget(&self, worker: usize, listener: &ListenerState) {
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
        self.shard.local_connect_errors.increment();
        descriptors::raise_alarm(failure);
    }

    /// Closes idle connections and pipes to free descriptors; whether there were any. Pauses after a search without result.
    #[cold]
    pub(crate) fn free_descriptors(&self) -> bool {
        let now = clock::now();
        if self.nothing_idle_until.get().is_some_and(|until| now < until) {
            return false;
        }
        let config = Rc::clone(&self.config.borrow());
        let freed = config.shed_pools() | self.stock.close_pipes();
        self.nothing_idle_until.set((!freed).then(|| now + SHED_AGAIN));
        freed
    }

    /// Keeps a failure of a client connection on which there was no exchange.
    #[cold]
    pub(crate) fn record_connection(
        &self,
        failure: Failure,
        connection: UnusedConnection,
        listener: &LocalListener,
    ) {
        let Some(recorder) = &self.recorder else { return };
        // Not while it is being replaced, which a connection that ends by a panic could come across.
        let Ok(present) = self.config.try_borrow() else { return };
        let (config, place) = listener.config_for_exchange(&present);
        recorder.record_connection(failure, connection, config.snapshot.generation, place);
    }

    /// Counts a connection that has ended. `entered` says whether it had begun to run.
    pub(crate) fn leave_connection(&self, entered: bool, listener: &LocalListener) {
        if entered {
            self.shard.connections_open.decrement();
        }
        self.forget(self.index, &listener.state);
        if self.is_stopping() {
            self.drained.notify_one();
        }
    }

    /// How many requests of Weir's own may run in the background.
    pub(crate) fn background_max(&self) -> u32 {
        let of_process = self.config.borrow().snapshot.process.background_requests_max;
        of_process.div_ceil(self.shared.loads.len() as u32)
    }

    /// Whether exchanges give back what they took while they wait without a buffer.
    pub(crate) fn is_short_of_buffers(&self) -> bool {
        self.exchanges.is_scarce()
    }

    /// An exchange waits and holds no buffer: another one may begin meanwhile.
    #[cold]
    pub(crate) fn park_exchange(&self) {
        self.exchanges.give_back();
        self.wake_waiting_for_buffers();
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
    pub(crate) fn wake_waiting_for_buffers(&self) {
        if self.stock.has_waiting() && self.exchanges.may_resume() {
            self.stock.wake_waiting();
        }
    }

    pub(crate) fn flush_logs(&self) {
        for listener in self.listeners.borrow().iter().chain(self.leaving.borrow().iter()) {
            listener.flush_log();
        }
        self.route_logs.borrow_mut().retain(|log| {
            log.flush();
            // Those of an earlier config are needed as long as an exchange has it.
            Rc::strong_count(log) > 1
        });
    }

    /// Gives `config` the access logs of its routes.
    pub(crate) fn take_route_logs(
        &self,
        config: &WorkerConfig,
        logs: Vec<LogBatches>,
        places: Vec<Arc<[Option<u32>]>>,
    ) {
        if logs.is_empty() {
            return;
        }
        let logs = RouteLogs::new(logs, places);
        self.route_logs.borrow_mut().extend(logs.iter().map(Rc::clone));
        config.set_route_logs(logs);
    }

    /// Reserves the place of one more connection on a listener, if process and listener may have one.
    pub(crate) fn try_reserve(&self, listener: &ListenerState) -> bool {
        self.reserve_now(listener).is_ok()
    }

    pub(crate) fn reserve_now(&self, listener: &ListenerState) -> Result<(), LimitReached> {
        if !self.shared.connections.try_acquire() {
            return Err(LimitReached::Process);
        }
        if !listener.connections.try_acquire() {
            self.shared.connections.release();
            return Err(LimitReached::Listener);
        }
        Ok(())
    }

    /// Gives back what [`Worker::try_reserve`] took.
    pub(crate) fn unreserve(&self, listener: &ListenerState) {
        self.shared.connections.release();
        listener.connections.release();
        if self.shared.places.ends.is_awaited() {
            self.shared.places.wake(listener.number);
        }
    }

    /// Counts a connection that was idle and ends so that another one has its place.
    #[cold]
    pub(crate) fn count_evicted(&self) {
        if self.shared.memory.step() >= MemoryStep::Idle {
            self.shared.memory.count_idle_closed();
            return;
        }
        self.shard.idle_connections_closed.increment();
        let Some(closed) = self.evictions.count(1) else { return };
        tracing::warn!(
            closed,
            "idle client connections were closed to make room for new ones: raise `connections_max` and the limit on open files, or lower \
             `listener.NAME.timeouts.idle`"
        );
    }

    /// Counts clients without a whole request head that were ended so that others have their places.
    #[cold]
    pub(crate) fn count_slow_heads_ended(&self, count: usize) {
        self.shard.slow_heads_ended.add(count as u64);
        let Some(ended) = self.slow_heads_ended.count(count as u64) else { return };
        tracing::warn!(
            ended,
            "clients without a whole request head were ended to make room for new connections: raise `connections_max` and the limit on open \
             files or, if they are hostile, set `listener.NAME.connections_per_client_max`"
        );
    }
}
