//! Memory of a process tree, from `smaps_rollup`, in bytes.
//!
//! `anonymous` is what the program itself allocated: heap, stacks, private copies, and shared mappings without a file.
//! Kernel memory (socket buffers, page tables) is in none of these figures.

use std::ops::{Add, Sub};

use procfs::process::Process;
use serde::{Deserialize, Serialize};

use crate::process::tree;

/// Memory of a tree at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident, pages shared between processes counted in each.
    pub rss: u64,
    /// Resident, shared pages divided among those that share them.
    pub pss: u64,
    /// The part of `pss` without a file behind it.
    pub anonymous: u64,
}

impl Add for Memory {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            rss: self.rss + other.rss,
            pss: self.pss + other.pss,
            anonymous: self.anonymous + other.anonymous,
        }
    }
}

impl Sub for Memory {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self {
            rss: self.rss.saturating_sub(other.rss),
            pss: self.pss.saturating_sub(other.pss),
            anonymous: self.anonymous.saturating_sub(other.anonymous),
        }
    }
}

/// Memory of the tree under `root`.
pub fn of_tree(root: i32) -> Memory {
    tree::members(root).into_iter().map(of_process).fold(Memory::default(), Memory::add)
}

/// Memory of one process; nothing when it has ended.
fn of_process(pid: i32) -> Memory {
    let Ok(rollup) = Process::new(pid).and_then(|process| process.smaps_rollup()) else {
        return Memory::default();
    };
    let sum = |key: &str| -> u64 {
        rollup.memory_map_rollup.0.iter().filter_map(|map| map.extension.map.get(key)).sum()
    };
    Memory { rss: sum("Rss"), pss: sum("Pss"), anonymous: sum("Pss_Anon") + sum("Pss_Shmem") }
}

#[cfg(test)]
mod tests {
    use super::of_tree;

    #[test]
    fn memory_that_is_touched_is_seen() {
        let me = std::process::id() as i32;
        let before = of_tree(me);
        let block = std::hint::black_box(vec![1_u8; 512 << 20]);
        let grown = of_tree(me) - before;
        drop(block);
        // Other tests of this process allocate and free meanwhile.
        assert!(grown.anonymous > 384 << 20 && grown.rss > 384 << 20, "{grown:?}");
        assert!(before.anonymous > 0 && before.anonymous <= before.rss, "{before:?}");
    }
}
