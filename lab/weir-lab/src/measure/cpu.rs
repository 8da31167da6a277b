//! CPU time of a process tree between two snapshots.
//!
//! The total is the scheduler's nanosecond count of each thread (`schedstat`); it is divided into user and
//! system time in proportion to the tick-based figures of `stat`. The `schedstat` of a thread that ended in between is lost, but
//! its process keeps the ticks: when the ticks give clearly more, they are used.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use procfs::process::Process;

use crate::clock;
use crate::process::tree;

/// CPU time read at one moment.
#[derive(Debug, Clone)]
pub struct CpuSnapshot {
    /// When it was read.
    pub at: Instant,
    /// Nanoseconds on CPU of each thread.
    threads: HashMap<(i32, i32), u64>,
    /// Ticks in user and system mode, with children that have ended.
    user_ticks: u64,
    system_ticks: u64,
    /// Times a thread was taken off the CPU.
    switches: u64,
}

/// CPU time between two snapshots.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuSpent {
    /// Wall-clock time between them.
    pub wall: Duration,
    /// Time on CPU.
    pub total: Duration,
    /// Part of it in user mode, 0 to 1.
    pub user_share: f64,
    /// Context switches.
    pub switches: u64,
}

impl CpuSpent {
    /// CPUs kept busy: 1.0 is one whole CPU.
    pub fn cpus(&self) -> f64 {
        self.total.as_secs_f64() / self.wall.as_secs_f64()
    }
}

/// Reads the tree under `root`.
pub fn snapshot(root: i32) -> CpuSnapshot {
    snapshot_all(&[root])
}

/// Reads the trees under `roots` as if they were one.
pub fn snapshot_all(roots: &[i32]) -> CpuSnapshot {
    let mut snapshot = CpuSnapshot {
        at: clock::now(),
        threads: HashMap::new(),
        user_ticks: 0,
        system_ticks: 0,
        switches: 0,
    };
    for pid in roots.iter().flat_map(|root| tree::members(*root)) {
        // A process that has just ended is simply missing.
        let Ok(process) = Process::new(pid) else { continue };
        let Ok(stat) = process.stat() else { continue };
        snapshot.user_ticks += stat.utime + stat.cutime.max(0) as u64;
        snapshot.system_ticks += stat.stime + stat.cstime.max(0) as u64;
        for thread in process.tasks().into_iter().flatten().flatten() {
            note(&mut snapshot, pid, &thread);
        }
    }
    snapshot
}

fn note(snapshot: &mut CpuSnapshot, pid: i32, thread: &procfs::process::Task) {
    if let Ok(sched) = thread.schedstat() {
        snapshot.threads.insert((pid, thread.tid), sched.sum_exec_runtime);
    }
    if let Ok(status) = thread.status() {
        snapshot.switches += status.voluntary_ctxt_switches.unwrap_or(0);
        snapshot.switches += status.nonvoluntary_ctxt_switches.unwrap_or(0);
    }
}

/// The CPU time from `before` to `after`.
pub fn between(before: &CpuSnapshot, after: &CpuSnapshot) -> CpuSpent {
    let threads: u64 = after
        .threads
        .iter()
        .map(|(id, now)| now.saturating_sub(before.threads.get(id).copied().unwrap_or(0)))
        .sum();
    let user = after.user_ticks.saturating_sub(before.user_ticks);
    let system = after.system_ticks.saturating_sub(before.system_ticks);
    let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
    let ticks_ns = (user + system) * tick_ns;
    // Each of utime and stime of each snapshot is cut to whole ticks: up to four ticks say nothing.
    let believed = if ticks_ns > threads + threads / 20 + 4 * tick_ns { ticks_ns } else { threads };
    CpuSpent {
        wall: after.at.saturating_duration_since(before.at),
        total: Duration::from_nanos(believed),
        user_share: user as f64 / (user + system).max(1) as f64,
        switches: after.switches.saturating_sub(before.switches),
    }
}

#[cfg(test)]
mod tests {
    use super::{CpuSnapshot, CpuSpent, between, snapshot};
    use crate::clock;
    use std::time::Duration;

    fn made(threads: &[(i32, u64)], user_ticks: u64, system_ticks: u64) -> CpuSnapshot {
        let threads = threads.iter().map(|(tid, ns)| ((1, *tid), *ns)).collect();
        CpuSnapshot { at: clock::now(), threads, user_ticks, system_ticks, switches: 0 }
    }

    fn spent_ns(before: &CpuSnapshot, after: &CpuSnapshot) -> CpuSpent {
        between(before, after)
    }

    #[test]
    fn threads_are_summed_and_new_ones_count_from_zero() {
        let spent = spent_ns(&made(&[(1, 100), (2, 50)], 0, 0), &made(&[(1, 175), (2, 60), (3, 5)], 1, 3));
        assert_eq!(spent.total, Duration::from_nanos(90));
        assert!((spent.user_share - 0.25).abs() < 1e-9);
    }

    #[test]
    fn ticks_are_believed_when_a_busy_thread_has_gone() {
        let second = 1_000_000_000;
        let (before, after) = (made(&[(1, 5), (2, 5)], 0, 0), made(&[(1, second)], 150, 50));
        assert_eq!(spent_ns(&before, &after).total, Duration::from_secs(2));
    }

    #[test]
    fn work_of_this_process_is_seen() {
        let me = std::process::id() as i32;
        let before = snapshot(me);
        let start = clock::now();
        while clock::now() - start < Duration::from_millis(30) {
            std::hint::black_box(0);
        }
        let spent = between(&before, &snapshot(me));
        assert!(spent.total > Duration::ZERO && spent.wall >= Duration::from_millis(30), "{spent:?}");
    }
}
