//! Which CPUs the process may use: affinity mask and cgroup quota, not the cores of the machine.

use std::path::{Path, PathBuf};

use rustix::thread::CpuSet;

/// The CPUs of the affinity mask, in the order in which workers take them.
pub fn usable() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        Err(_) => (0..std::thread::available_parallelism().map_or(1, usize::from)).collect(),
    }
}

/// How many CPUs the cgroup pays for, rounded up; a large number when it sets no limit (cgroups(7), `cpu.max`).
pub fn quota() -> usize {
    let Ok(groups) = std::fs::read_to_string("/proc/self/cgroup") else { return usize::MAX };
    let Some(group) = groups.lines().find_map(|line| line.strip_prefix("0::")) else { return usize::MAX };
    quota_below(Path::new("/sys/fs/cgroup"), group)
}

/// The smallest limit from a group up to the root: every level counts.
fn quota_below(root: &Path, group: &str) -> usize {
    let mut path: PathBuf = root.join(group.trim_start_matches('/'));
    let mut smallest = usize::MAX;
    loop {
        if let Ok(text) = std::fs::read_to_string(path.join("cpu.max")) {
            smallest = smallest.min(parse_cpu_max(&text).unwrap_or(usize::MAX));
        }
        if path == root || !path.pop() {
            return smallest;
        }
    }
}

/// `"150000 100000"` is one and a half CPUs, so 2; `"max 100000"` is no limit.
fn parse_cpu_max(text: &str) -> Option<usize> {
    let (quota, period) = text.trim().split_once(' ')?;
    let (quota, period): (usize, usize) = (quota.parse().ok()?, period.parse().ok()?);
    (period > 0).then(|| quota.div_ceil(period).max(1))
}

/// Binds the current thread to one CPU.
pub fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        tracing::warn!(%error, cpu, "a worker cannot be pinned to its CPU");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_max_is_rounded_up() {
        for (text, cpus) in [
            ("max 100000\n", None),
            ("100000 100000\n", Some(1)),
            ("150000 100000\n", Some(2)),
            ("1000 100000\n", Some(1)),
            ("nonsense", None),
        ] {
            assert_eq!(parse_cpu_max(text), cpus, "{text:?}");
        }
    }

    #[test]
    fn at_least_one_cpu_is_usable() {
        assert!(!usable().is_empty());
        assert!(quota() >= 1);
    }
}
