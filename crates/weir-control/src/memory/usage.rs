//! What memory the process uses, in the sense of its budget: its own pages, and what the kernel keeps for its sockets.
//!
//! Pages of the program that the kernel can read again from the file do not count. Sockets are a sample once there are many. Must not
//! decide anything.

use std::fs::File;

use super::limits::text;
use crate::system::sys::socket_memory::socket_memory;

/// Descriptors that are asked at each look; of more, every second, third and so on.
const SAMPLED: u64 = 2_048;

/// What the kernel keeps for an open socket beside its buffers: the socket, its file, its entry in the event loop (measured: docs/memory.md).
const SOCKET_BYTES: u64 = 4 * 1024;

/// The file with the figures of the process, open since the start: the root folder may be another one by now.
#[derive(Debug, Default)]
pub(crate) struct StatusFile(Option<File>);

impl StatusFile {
    pub(crate) fn open() -> Self {
        Self(File::open("/proc/self/status").ok())
    }
}

/// What is used now, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct MemoryUsage {
    /// Pages of the process that are its own.
    pub(super) own: u64,
    /// Sockets in the kernel.
    pub(super) sockets: u64,
}

impl MemoryUsage {
    pub(super) fn sum(self) -> u64 {
        self.own + self.sockets
    }
}

/// Reads the use, each time another part of the sockets.
#[derive(Debug)]
pub(super) struct UsageReader {
    status: StatusFile,
    turn: u64,
}

impl UsageReader {
    pub(super) fn new(status: StatusFile) -> Self {
        Self { status, turn: 0 }
    }

    /// The use now; a figure that cannot be read is 0. Files of memory are counted by the caller.
    pub(super) fn read(&mut self) -> MemoryUsage {
        let status = self.status.0.as_ref().and_then(text).unwrap_or_default();
        let StatusFigures { own, descriptors } = StatusFigures::new(&status);
        let step = descriptors.div_ceil(SAMPLED).max(1);
        self.turn += 1;
        let sampled = (self.turn % step..descriptors).step_by(step as usize);
        let found = sampled.filter_map(|fd| socket_memory(i32::try_from(fd).ok()?));
        let sockets = found.map(|bytes| bytes + SOCKET_BYTES).sum::<u64>() * step;
        MemoryUsage { own, sockets }
    }
}

/// Figures of proc_pid_status(5).
#[derive(Debug, PartialEq, Eq)]
struct StatusFigures {
    /// Anonymous pages and page tables, in bytes.
    own: u64,
    /// No descriptor has this number or a greater one.
    descriptors: u64,
}

impl StatusFigures {
    fn new(status: &str) -> Self {
        let number = |name: &str| -> u64 {
            let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let digits = value.and_then(|value| value.split_whitespace().next());
            digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
        };
        Self { own: (number("RssAnon") + number("VmPTE")) * 1024, descriptors: number("FDSize") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_files_do_not_count() {
        let status = "Name:\tweir\nFDSize:\t256\nVmRSS:\t   9000 kB\nRssAnon:\t    4000 kB\nRssFile:\t    5000 kB\nVmPTE:\t     100 kB\n";
        assert_eq!(StatusFigures::new(status), StatusFigures { own: 4100 * 1024, descriptors: 256 });
        assert_eq!(StatusFigures::new(""), StatusFigures { own: 0, descriptors: 0 });
    }

    #[test]
    fn this_process_uses_memory_and_so_do_its_sockets() {
        let mut reader = UsageReader::new(StatusFile::open());
        let before = reader.read();
        assert!(before.own > 100_000, "{before:?}");
        let pairs: Vec<_> = (0..50).map(|_| std::os::unix::net::UnixStream::pair().unwrap()).collect();
        let after = reader.read();
        assert!(after.sockets >= 100 * SOCKET_BYTES, "{before:?} {after:?}");
        drop(pairs);
    }
}
