//! Which process runs on which CPU, and the limits of the process.
//!
//! Client and origin share one CPU, the target has another to itself: what it burns there is its own. On a machine
//! with hardware threads the two CPUs are taken from different cores.

use std::collections::BTreeSet;

use anyhow::ensure;
use rustix::process::{Resource, Rlimit};
use rustix::thread::CpuSet;
use serde::{Deserialize, Serialize};

/// The two CPUs of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// CPU of client and origin.
    pub client: usize,
    /// CPU of the target.
    pub target: usize,
    /// Both are hardware threads of one core: each slows the other.
    pub siblings: bool,
}

impl Placement {
    /// Chooses from the CPUs this process may use: the first, and the next one on another core.
    ///
    /// # Errors
    /// When it may use fewer than two.
    pub fn choose() -> anyhow::Result<Self> {
        let allowed = allowed();
        ensure!(allowed.len() >= 2, "needs two CPUs, one for client and origin, one for the target");
        let client = allowed[0];
        let other = allowed[1..].iter().copied().find(|cpu| !siblings_of(client).contains(cpu));
        Ok(Self::of(client, other.unwrap_or(allowed[1])))
    }

    /// The given CPUs.
    pub fn of(client: usize, target: usize) -> Self {
        Self { client, target, siblings: siblings_of(client).contains(&target) }
    }
}

/// Two CPU numbers.
pub(crate) fn read_cpus(text: &str) -> Result<(usize, usize), String> {
    let (client, target) = text.split_once(',').ok_or("two CPU numbers, such as 0,1")?;
    let read = |number: &str| number.trim().parse().map_err(|_| format!("`{number}` is no CPU number"));
    Ok((read(client)?, read(target)?))
}

/// CPUs this process may use, in order.
pub fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

/// Restricts the calling thread, and its children, to `cpus`.
///
/// # Errors
/// When there is no such CPU, or it is not allowed.
pub fn pin_to(cpus: &[usize]) -> std::io::Result<()> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|cpu| set.set(*cpu));
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Keeps the calling thread, and its children, on one CPU until dropped.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Pins to `cpu`.
    ///
    /// # Errors
    /// As [`pin_to`].
    pub fn to(cpu: usize) -> std::io::Result<Self> {
        let before = allowed();
        pin_to(&[cpu])?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // They were allowed before.
        let _ = pin_to(&self.before);
    }
}

/// Raises the limit of open descriptors to the maximum that the system allows this process.
pub fn raise_descriptor_limit() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    // Raising the soft limit to the hard one is always allowed.
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Descriptors this process may open.
pub fn descriptor_limit() -> u64 {
    rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Hardware threads of the core of `cpu`, itself included.
fn siblings_of(cpu: usize) -> BTreeSet<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    read_cpu_list(&std::fs::read_to_string(path).unwrap_or_default())
}

/// Reads a CPU list as the kernel writes it: `0-2,5`.
fn read_cpu_list(list: &str) -> BTreeSet<usize> {
    let mut cpus = BTreeSet::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            cpus.extend(first..=last);
        }
    }
    cpus
}

#[cfg(test)]
mod tests {
    use super::{allowed, read_cpu_list, read_cpus};

    #[test]
    fn kernel_cpu_lists_are_read() {
        for (list, cpus) in
            [("0\n", vec![0]), ("0-2,5\n", vec![0, 1, 2, 5]), ("1,17", vec![1, 17]), ("", vec![])]
        {
            assert_eq!(read_cpu_list(list).into_iter().collect::<Vec<_>>(), cpus, "{list}");
        }
    }

    #[test]
    fn this_process_may_use_some_cpu() {
        assert!(!allowed().is_empty());
    }

    #[test]
    fn two_cpus_are_read() {
        assert_eq!(read_cpus("0, 3"), Ok((0, 3)));
        assert!(read_cpus("0").is_err() && read_cpus("0,x").is_err());
    }
}
