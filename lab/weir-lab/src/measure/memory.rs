//! Memory of a process tree, from `smaps_rollup` and, by use, from `smaps`, in bytes.
//!
//! `anonymous` is memory that the program itself allocated: heap, stacks, private copies, and shared mappings without a file.
//! Kernel memory (socket buffers, page tables) is in none of these figures.

use std::ops::{Add, Sub};

use procfs::process::{MMPermissions, MMapPath, MemoryMap, Process};
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

/// The proportional part of a tree's memory by use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Allocated memory: the heap, and private mappings without a file.
    pub heap: u64,
    /// Stacks of all threads.
    pub stack: u64,
    /// Shared mappings without a file that lasts, shared by processes of one program.
    pub shared: u64,
    /// Pages of program, libraries and other files as they are in the page cache.
    pub file: u64,
    /// The rest: data of program and libraries that was written to.
    pub other: u64,
}

/// A guard page below a stack: glibc and Rust take one page, some take a few.
const GUARD_MAX: u64 = 64 * 1024;

/// Memory of the tree under `root` by use.
pub fn breakdown(root: i32) -> Breakdown {
    let mut sum = Breakdown::default();
    for pid in tree::members(root) {
        // A process that has just ended has none.
        if let Ok(maps) = Process::new(pid).and_then(|process| process.smaps()) {
            sum.add(&maps.0);
        }
    }
    sum
}

impl Breakdown {
    /// Adds the mappings of one process, in the order of their addresses.
    fn add(&mut self, maps: &[MemoryMap]) {
        let mut guard_end = None;
        for map in maps {
            let of = |key: &str| map.extension.map.get(key).copied().unwrap_or(0);
            let pss = of("Pss");
            // Since Linux 4.5 the kernel no longer says which mapping is the stack of a thread; the guard page below it does.
            let is_thread_stack =
                guard_end == Some(map.address.0) && map.perms.contains(MMPermissions::WRITE);
            let len = map.address.1 - map.address.0;
            let is_guard =
                !map.perms.intersects(MMPermissions::READ | MMPermissions::WRITE) && len <= GUARD_MAX;
            guard_end = is_guard.then_some(map.address.1);
            match &map.pathname {
                MMapPath::Stack | MMapPath::TStack(_) => self.stack += pss,
                MMapPath::Anonymous if is_thread_stack => self.stack += pss,
                _ if map.perms.contains(MMPermissions::SHARED) && !is_file(map) => self.shared += pss,
                MMapPath::Heap | MMapPath::Anonymous => self.heap += pss,
                // An allocator may have named its mapping: `[anon:...]`.
                MMapPath::Other(name) if name.starts_with("anon") => self.heap += pss,
                MMapPath::Path(_) => {
                    let written = of("Anonymous").min(pss);
                    self.other += written;
                    self.file += pss - written;
                }
                _ => self.other += pss,
            }
        }
    }
}

/// Whether a mapping is of a file that outlives its processes.
fn is_file(map: &MemoryMap) -> bool {
    let MMapPath::Path(path) = &map.pathname else { return false };
    let path = path.to_string_lossy();
    !["/dev/zero", "/dev/shm/", "/memfd:", "/SYSV"].iter().any(|start| path.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{Breakdown, breakdown, of_tree};
    use procfs::FromRead as _;
    use procfs::process::MemoryMaps;

    #[test]
    fn mappings_are_distinguished_by_their_use() {
        let entry = |range: &str, perms: &str, name: &str, pss: u64, anonymous: u64| {
            format!("{range} {perms} 00000000 00:00 0 {name}\nPss: {pss} kB\nAnonymous: {anonymous} kB\n")
        };
        let text = [
            entry("00100000-00200000", "r-xp", "/usr/sbin/proxy", 100, 0),
            entry("00200000-00300000", "rw-p", "/usr/sbin/proxy", 30, 20),
            entry("00400000-00500000", "rw-p", "[heap]", 1000, 1000),
            // A guard and the stack above it; the next mapping is none, nor is what lies above a large reserve.
            entry("10000000-10001000", "---p", "", 0, 0),
            entry("10001000-10801000", "rw-p", "", 16, 16),
            entry("10801000-10901000", "rw-p", "", 500, 500),
            entry("20000000-24000000", "---p", "", 0, 0),
            entry("24000000-24100000", "rw-p", "", 70, 70),
            entry("30000000-30100000", "rw-s", "/dev/zero (deleted)", 8, 0),
            entry("30200000-30300000", "rw-p", "[anon:mimalloc]", 4, 4),
            entry("7ffd0000-7ffe0000", "rw-p", "[stack]", 24, 24),
            entry("7fff0000-7fff1000", "r-xp", "[vdso]", 1, 0),
        ]
        .concat();
        let maps = MemoryMaps::from_read(text.as_bytes()).unwrap();
        let mut sum = Breakdown::default();
        sum.add(&maps.0);
        let kib = |count: u64| count * 1024;
        let expected =
            Breakdown { heap: kib(1574), stack: kib(40), shared: kib(8), file: kib(110), other: kib(21) };
        assert_eq!(sum, expected);
    }

    #[test]
    fn this_process_has_all_kinds_and_they_add_up() {
        let me = std::process::id() as i32;
        let Breakdown { heap, stack, shared, file, other } = breakdown(me);
        assert!(heap > 0 && stack > 0 && file > 0, "{heap} {stack} {file}");
        let (sum, pss) = (heap + stack + shared + file + other, of_tree(me).pss);
        // Other tests of this process allocate meanwhile, one of them half a GiB.
        assert!(sum.abs_diff(pss) < 700 << 20, "{sum} {pss}");
    }

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
