//! `[process]`, `[log]` and `[dns]`: what concerns the process as a whole.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::Size;

/// `[process]`: workers, limits and the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// How many workers run. Default: one per CPU that the process may use.
    pub workers: WorkerCount,
    /// Whether each worker is bound to one CPU. Default: no.
    pub pin_workers: bool,
    /// Client connections over all listeners; more wait in the backlog. Default: as many as the limit on open files allows.
    pub connections_max: ConnectionLimit,
    /// Size of one buffer. Default 16 KiB: a usual head and a small answer fit in one.
    pub buffer_size: Size,
    /// Buffers over all workers; an exchange that finds none waits for one. Default 65 536: 1 GiB of buffers of the default size.
    pub buffers_max: u32,
    /// How long running exchanges may take to finish after SIGTERM. Default 30 s.
    pub stop_grace: Duration,
    /// What Weir calls itself in `Via`. Default `None`: a name made at start, so that two Weirs in a row are no loop.
    pub name: Option<Box<str>>,
}

impl Default for Process {
    fn default() -> Self {
        Self {
            workers: WorkerCount::Auto,
            pin_workers: false,
            connections_max: ConnectionLimit::Auto,
            buffer_size: Size::from_kib(16),
            buffers_max: 65_536,
            stop_grace: Duration::from_secs(30),
            name: None,
        }
    }
}

/// How many workers run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerCount {
    /// One per CPU that the process may use: affinity mask and cgroup quota count, not the cores of the machine.
    Auto,
    /// Exactly so many, at most 1024.
    Exactly(NonZeroUsize),
}

/// How many client connections the process takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLimit {
    /// What the limit on open files leaves: see [`ConnectionLimit::resolve`].
    Auto,
    /// Exactly so many.
    Exactly(u32),
}

impl ConnectionLimit {
    /// Files kept back for logs, listening sockets, event queues and the like.
    const FILES_RESERVED: u64 = 256;

    /// The limit in connections, given how many files the process may open (`RLIMIT_NOFILE`).
    ///
    /// Each client connection may need a server connection, so `Auto` is half of the files that are not reserved.
    pub const fn resolve(self, open_files_max: u64) -> u32 {
        match self {
            Self::Exactly(connections) => connections,
            Self::Auto => {
                let half = open_files_max.saturating_sub(Self::FILES_RESERVED) / 2;
                if half == 0 {
                    1
                } else if half > u32::MAX as u64 {
                    u32::MAX
                } else {
                    half as u32
                }
            }
        }
    }
}

/// `[log]`: Weir's own log, written to standard error.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Log {
    /// The least important level that is written. Default: info.
    pub level: LogLevel,
    /// How a line looks. Default: text.
    pub format: LogFormat,
}

/// A level of Weir's own log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogLevel {
    /// Something is broken and needs a person.
    Error,
    /// Something is odd and may need one.
    Warn,
    /// Start, reload, stop and changes of state.
    #[default]
    Info,
    /// For the search of a mistake.
    Debug,
    /// Everything.
    Trace,
}

/// How a line of Weir's own log looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// `[dns]`: how names of servers are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns {
    /// The resolvers asked. Default: empty, which means those of the system (`/etc/resolv.conf`, after `/etc/hosts`).
    pub resolvers: Vec<SocketAddr>,
    /// How long one answer may take. Default 2 s: the next resolver gets its turn before a client notices.
    pub timeout: Duration,
    /// Shortest time after which a name is asked for again, whatever its TTL says. Default 1 s: TTL 0 must not become a flood.
    pub ttl_min: Duration,
    /// Longest time, whatever its TTL says. Default 5 min: a record with a TTL of a day still moves today.
    pub ttl_max: Duration,
}

impl Default for Dns {
    fn default() -> Self {
        Self {
            resolvers: Vec::new(),
            timeout: Duration::from_secs(2),
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(300),
        }
    }
}
