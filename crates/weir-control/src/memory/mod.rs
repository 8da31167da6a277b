//! The memory of the process against its budget (`process.memory_max`): measured, shown, and freed in a fixed order when it is short.
//!
//! `limits` says what there is, `usage` what is used, `steps` how far to go, `caches` and the workers free it; `thread` is the loop of these.
//! docs/memory.md describes it for operators, decision 111 says why.

mod thread;
mod plan;
mod classes;
mod caches;
mod steps;
mod usage;
mod kernel_tcp;
mod limits;

use std::sync::Arc;

use arc_swap::ArcSwap;
use weir_config::Process;
use weir_observe::MemoryStats;
use weir_proxy::net::memory::SocketBounds;

pub use plan::MemoryPlan;
pub(crate) use thread::{MemorySources, MemoryThread};

use self::kernel_tcp::TcpMemoryFiles;
use self::limits::CgroupFiles;
use self::usage::StatusFile;

/// The last measurement, for those who show it.
pub(crate) type MemoryView = Arc<ArcSwap<MemoryStats>>;

/// The files that are read again and again, opened before the root folder may change.
#[derive(Debug, Default)]
pub(crate) struct MemoryFiles {
    cgroups: CgroupFiles,
    status: StatusFile,
    tcp: TcpMemoryFiles,
}

impl MemoryFiles {
    pub(crate) fn open() -> Self {
        Self { cgroups: CgroupFiles::open(), status: StatusFile::open(), tcp: TcpMemoryFiles::open() }
    }

    /// What bounds the sockets of a process with these settings.
    pub(crate) fn socket_bounds(&self, process: &Process) -> SocketBounds {
        SocketBounds {
            budget: self.budget(process),
            kernel_max: self.tcp.read().map(|tcp| tcp.max_bytes),
            is_kernel_filling: false,
        }
    }

    /// The budget of a process with these settings; `None`: none.
    pub(crate) fn budget(&self, process: &Process) -> Option<u64> {
        let of_group = self.cgroups.read().map_or(u64::MAX, |group| group.max_bytes);
        limits::budget(process.memory_max, of_group.min(limits::machine_bytes()))
    }
}
