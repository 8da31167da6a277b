//! The thread that watches the memory: a look every quarter of a second, and more often when it is short.
//!
//! On a thread of its own, since the control thread may be busy with a page of 10 MB at the moment when it matters. It allocates little, and
//! waits for a worker no longer than a moment.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;
use weir_observe::{MemoryStats, MemoryStep, WorkerShard};

use super::caches::{self, CacheBounds};
use super::classes::classes;
use super::kernel_tcp::{self, TcpShortage};
use super::limits::{budget_of_cgroup, machine_bytes};
use super::steps::{BEGINS, MemorySteps, count_to_free};
use super::usage::{MemoryUsage, UsageReader};
use super::{MemoryFiles, MemoryPlan, MemoryView, limits};
use crate::system::threads;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::memory::{self, SocketBounds};
use weir_proxy::state::crashes::faults::{self, ControlFault};
use weir_proxy::state::shared::Shared;
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot};

/// The time between two looks, and the same from `BUSY` thousandths of the budget on.
const LOOK: Duration = Duration::from_millis(250);
const LOOK_BUSY: Duration = Duration::from_millis(50);
const BUSY: u64 = 700;

/// How long freed memory may take to show, before more connections are closed.
const PAUSE: Duration = Duration::from_millis(200);

/// Time between two lines of the log while memory stays short.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// Of the exchanges that a worker may have, so many slow ones end at once where requests wait for buffers.
const STARVED_ONE_IN: usize = 8;

/// What the thread looks at and tells.
pub(crate) struct MemorySources {
    pub(crate) files: MemoryFiles,
    pub(crate) plan: MemoryPlan,
    pub(crate) current: CurrentSnapshot,
    pub(crate) shared: Arc<Shared>,
    pub(crate) shards: Vec<Arc<WorkerShard>>,
    pub(crate) queries: Arc<WorkerQueries>,
    pub(crate) view: MemoryView,
}

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub(crate) struct MemoryThread {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryThread {
    /// Starts it.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub(crate) fn start(sources: MemorySources) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-memory".into()).spawn(move || {
            let _registration = threads::register();
            // What it has seen outlives a panic: the steps, and when connections were last closed.
            let watch = tokio::sync::Mutex::new(MemoryWatch::new(sources));
            runtime.block_on(async {
                tokio::select! {
                    () = weir_tasks::keep("the watch of the memory", || async { watch.lock().await.run().await }) => {}
                    () = stopped.notified() => {}
                }
            });
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for MemoryThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

/// What is used of what there is.
struct MemoryReading {
    usage: MemoryUsage,
    /// The budget; `None`: none.
    max: Option<u64>,
    /// The most of the budgets that is used, in thousandths.
    permille: u64,
    /// The stats without classes.
    stats: MemoryStats,
}

struct MemoryWatch {
    sources: MemorySources,
    reader: UsageReader,
    steps: MemorySteps,
    tcp: TcpShortage,
    caches: CacheBounds,
    /// When connections were last closed.
    freed_at: Option<Instant>,
    /// The greatest step since memory was last enough, and when the log last told.
    reported: (MemoryStep, Option<Instant>),
    /// When the log last told that the kernel is short of memory for TCP, and when it last was, until the log says that there is enough.
    tcp_reported: Option<(Instant, Instant)>,
}

impl MemoryWatch {
    fn new(mut sources: MemorySources) -> Self {
        let reader = UsageReader::new(std::mem::take(&mut sources.files.status));
        Self {
            sources,
            reader,
            steps: MemorySteps::default(),
            tcp: TcpShortage::default(),
            caches: CacheBounds::default(),
            freed_at: None,
            reported: (MemoryStep::Normal, None),
            tcp_reported: None,
        }
    }

    async fn run(&mut self) {
        loop {
            faults::strike_control(ControlFault::Memory);
            let permille = self.look().await;
            let is_quiet = permille < BUSY && self.tcp == TcpShortage::None;
            tokio::time::sleep(if is_quiet { LOOK } else { LOOK_BUSY }).await;
        }
    }

    /// Measures, frees and shows; gives the use in thousandths of the budget.
    async fn look(&mut self) -> u64 {
        let snapshot = self.sources.current.load_full();
        let MemoryReading { usage, max, permille, mut stats } = self.measure(&snapshot);
        let now = clock::now();
        let guard = &self.sources.shared.memory;
        self.tcp = self.tcp.next(stats.kernel_tcp, usage.sockets);
        memory::bound_sockets_by(SocketBounds {
            budget: max,
            kernel_max: stats.kernel_tcp.map(|tcp| tcp.max_bytes),
            is_kernel_filling: self.tcp >= TcpShortage::Filling,
        });
        let step = self.steps.look(permille, now);
        let room = if self.tcp == TcpShortage::Short { Some(0) } else { max.map(|_| room(&stats, step)) };
        guard.set(step, room, self.steps.refuses(now));
        let is_starved = self.steps.is_short_of_buffers(guard.take_starved(), now);
        if let Some(max) = max {
            self.caches.adapt(&snapshot.caches, permille, max, step >= MemoryStep::Caches, now);
        }
        self.free(step, &stats, usage.sockets, is_starved, now).await;
        self.report(step, &stats, now);
        self.report_tcp(&stats, now);
        stats.step = step;
        stats.entered = self.steps.entered;
        stats.freed = self.sources.shared.memory.freed();
        stats.classes = classes(usage, &snapshot, &self.sources.shards, self.sources.plan.recorder);
        self.sources.view.store(Arc::new(stats));
        permille
    }

    fn measure(&mut self, snapshot: &Snapshot) -> MemoryReading {
        let mut usage = self.reader.read();
        usage.own += caches::file_bytes(snapshot);
        let cgroup = self.sources.files.cgroups.read();
        let limit = cgroup.map_or(u64::MAX, |group| group.max_bytes).min(machine_bytes());
        let max = limits::budget(snapshot.process.memory_max, limit);
        let share = |used: u64, max: u64| used.saturating_mul(1000) / max.max(1);
        let of_cgroup = cgroup.map_or(0, |group| share(group.used_bytes, budget_of_cgroup(group.max_bytes)));
        let permille = max.map_or(0, |max| share(usage.sum(), max).max(of_cgroup));
        let stats = MemoryStats {
            used_bytes: usage.sum(),
            max_bytes: max,
            cgroup,
            kernel_tcp: self.sources.files.tcp.read(),
            ..MemoryStats::default()
        };
        MemoryReading { usage, max, permille, stats }
    }

    /// Has the workers free memory, as far as `step` goes; for requests that wait for buffers slow clients are ended in any case.
    /// The same where the kernel is short of memory for TCP, of which the sockets of Weir hold so much.
    async fn free(
        &mut self,
        step: MemoryStep,
        stats: &MemoryStats,
        sockets: u64,
        is_starved: bool,
        now: Instant,
    ) {
        let is_due = self.freed_at.is_none_or(|at| now.saturating_duration_since(at) >= PAUSE);
        let is_tcp_short = self.tcp == TcpShortage::Short;
        if !is_due || (step < MemoryStep::Caches && !is_starved && !is_tcp_short) {
            return;
        }
        let sum = |of: fn(&WorkerShard) -> i64| {
            u64::try_from(self.sources.shards.iter().map(|shard| of(shard)).sum::<i64>()).unwrap_or(0)
        };
        let connections = sum(|shard| shard.connections_open.value());
        let (used, max) = most_used(stats);
        // To where the step ends.
        let to_free = |step: MemoryStep| {
            count_to_free(connections, used, used, max / 1000 * (BEGINS[step as usize] - 50))
        };
        let idle = if step >= MemoryStep::Idle { to_free(MemoryStep::Idle) } else { 0 };
        let mut slow = if step >= MemoryStep::Slow { to_free(MemoryStep::Slow) } else { 0 };
        let workers = self.sources.shards.len();
        if is_starved {
            let exchanges = self.sources.shared.buffers_max as usize / 2;
            slow = slow.max((exchanges / STARVED_ONE_IN).max(workers));
        }
        if let Some(tcp) = stats.kernel_tcp.filter(|_| is_tcp_short) {
            let wanted = kernel_tcp::wanted(tcp.max_bytes);
            slow = slow.max(count_to_free(connections, sockets, tcp.used_bytes, wanted));
        }
        self.freed_at = Some(now);
        let each = |count: usize| count.div_ceil(workers);
        self.sources.queries.free_memory(each(idle), step >= MemoryStep::Idle, each(slow)).await;
    }

    /// Logs while the kernel is short of memory for TCP, and when it has enough again.
    fn report_tcp(&mut self, stats: &MemoryStats, now: Instant) {
        let Some(tcp) = stats.kernel_tcp else { return };
        let is_long_ago = |at: Instant| now.saturating_duration_since(at) >= REPORT_INTERVAL;
        if self.tcp < TcpShortage::Short {
            // It comes and goes while clients are being ended.
            if self.tcp_reported.take_if(|(_, last)| is_long_ago(*last)).is_some() {
                tracing::info!(
                    used = tcp.used_bytes,
                    max = tcp.max_bytes,
                    "the kernel has enough memory for TCP again"
                );
            }
            return;
        }
        if let Some((at, last)) = &mut self.tcp_reported {
            *last = now;
            if !is_long_ago(*at) {
                return;
            }
        }
        self.tcp_reported = Some((now, now));
        tracing::warn!(
            used = tcp.used_bytes,
            max = tcp.max_bytes,
            slow_ended = self.sources.shared.memory.freed().slow_ended,
            "the sockets of this machine are near the memory that the kernel has for TCP: clients with the slowest progress are ended and new \
             connections wait. Raise `net.ipv4.tcp_mem`, or limit clients (`listener.NAME.connections_per_client_max`)"
        );
    }

    /// Logs when memory gets short, how it goes on, and when there is enough again.
    fn report(&mut self, step: MemoryStep, stats: &MemoryStats, now: Instant) {
        let (greatest, at) = self.reported;
        let (used, max) = most_used(stats);
        let freed = self.sources.shared.memory.freed();
        let is_due = at.is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if step == MemoryStep::Normal {
            if greatest > MemoryStep::Normal {
                tracing::info!(used, max, "there is enough memory again");
                self.reported = (MemoryStep::Normal, at);
            }
            return;
        }
        if step <= greatest && (!is_due || step <= MemoryStep::Caches) {
            return;
        }
        self.reported = (step.max(greatest), Some(now));
        tracing::warn!(
            used,
            max,
            step = step.name(),
            idle_closed = freed.idle_closed,
            slow_ended = freed.slow_ended,
            refused = freed.refused,
            "memory is short, near `process.memory_max` or the limit of the cgroup: {}",
            step.what()
        );
    }
}

/// What is used, and the budget, where most of it is used: its own or that of the cgroup.
fn most_used(stats: &MemoryStats) -> (u64, u64) {
    let own = (stats.used_bytes, stats.max_bytes.unwrap_or(u64::MAX));
    let Some(group) = stats.cgroup else { return own };
    let of_group = (group.used_bytes, budget_of_cgroup(group.max_bytes));
    let is_more = u128::from(of_group.0) * u128::from(own.1) > u128::from(own.0) * u128::from(of_group.1);
    if is_more { of_group } else { own }
}

/// Bytes that new connections may take before the next look: up to the step at which they wait.
fn room(stats: &MemoryStats, step: MemoryStep) -> u64 {
    if step == MemoryStep::Refuse {
        return 0;
    }
    let (used, max) = most_used(stats);
    (max / 1000 * BEGINS[MemoryStep::Refuse as usize]).saturating_sub(used)
}

#[cfg(test)]
mod tests {
    use weir_observe::CgroupStats;

    use super::*;

    #[test]
    fn the_budget_that_is_used_most_counts() {
        let group = |used_bytes, max_bytes| Some(CgroupStats { used_bytes, max_bytes });
        let stats =
            |cgroup| MemoryStats { used_bytes: 800, max_bytes: Some(1000), cgroup, ..MemoryStats::default() };
        assert_eq!(most_used(&stats(None)), (800, 1000));
        assert_eq!(most_used(&stats(group(1000, 1600))), (800, 1000));
        assert_eq!(most_used(&stats(group(1300, 1600))), (1300, 1500));
    }

    #[test]
    fn room_ends_where_new_connections_wait() {
        let stats = MemoryStats { used_bytes: 900_000, max_bytes: Some(1_000_000), ..MemoryStats::default() };
        assert_eq!(room(&stats, MemoryStep::Slow), 50_000);
        assert_eq!(room(&stats, MemoryStep::Refuse), 0);
    }
}
