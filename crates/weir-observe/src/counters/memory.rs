//! The memory of the process against its budget: how far Weir goes to free some, and by what the figures are named.
//!
//! Only words and numbers: what is measured, and what is done about it, is decided elsewhere.

use serde::{Serialize, Serializer};

/// How far Weir goes to free memory; each step includes the ones before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum MemoryStep {
    /// There is enough.
    #[default]
    Normal,
    /// Caches shrink, and freed memory is returned to the system.
    Caches,
    /// Idle connections are closed, to clients and to servers.
    Idle,
    /// Exchanges end whose clients make the slowest progress.
    Slow,
    /// New connections wait, then are refused.
    Refuse,
}

impl MemoryStep {
    /// Every step; `step as usize` is its index.
    pub const ALL: [Self; 5] = [Self::Normal, Self::Caches, Self::Idle, Self::Slow, Self::Refuse];

    /// Its name in metrics and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Caches => "caches",
            Self::Idle => "idle",
            Self::Slow => "slow",
            Self::Refuse => "refuse",
        }
    }

    /// What happens, for the status page and the log.
    pub const fn what(self) -> &'static str {
        match self {
            Self::Normal => "nothing has to be freed",
            Self::Caches => "caches shrink",
            Self::Idle => "caches shrink, idle connections are closed",
            Self::Slow => {
                "caches shrink, idle connections are closed, clients with the slowest progress are ended"
            }
            Self::Refuse => {
                "caches shrink, idle connections are closed, clients with the slowest progress are ended, new connections wait or are refused"
            }
        }
    }

    /// The step with this index, the last one for a greater number.
    pub const fn at(index: u8) -> Self {
        match index {
            0 => Self::Normal,
            1 => Self::Caches,
            2 => Self::Idle,
            3 => Self::Slow,
            _ => Self::Refuse,
        }
    }
}

impl Serialize for MemoryStep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// The memory of the process and its budget, in bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct MemoryStats {
    /// What the process uses, as far as it counts towards the budget.
    pub used_bytes: u64,
    /// The budget; `None`: none.
    pub max_bytes: Option<u64>,
    /// What all processes of the cgroup use that the kernel cannot take back, and their limit.
    pub cgroup: Option<CgroupStats>,
    /// What the kernel uses for all TCP sockets of the machine, and from where on it saves; `None`: it does not say.
    pub kernel_tcp: Option<TcpMemoryStats>,
    /// How far Weir goes now to free memory.
    pub step: MemoryStep,
    /// How often each step was entered, the first one left out.
    #[serde(skip)]
    pub entered: [u64; 4],
    /// What the memory is used for, in the order of the documentation.
    pub classes: Vec<MemoryClassStats>,
    /// What was done about it.
    #[serde(flatten)]
    pub freed: MemoryFreedStats,
}

/// The memory of the kernel for TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct TcpMemoryStats {
    /// What all TCP sockets of the machine use.
    pub used_bytes: u64,
    /// The second value of `net.ipv4.tcp_mem`.
    pub max_bytes: u64,
}

/// The memory of a cgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct CgroupStats {
    /// What cannot be taken back.
    pub used_bytes: u64,
    /// Its limit.
    pub max_bytes: u64,
}

/// What memory is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryClassStats {
    /// The class, in one word.
    pub name: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// What was given up for want of memory since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct MemoryFreedStats {
    /// Idle client connections that were closed.
    pub idle_closed: u64,
    /// Exchanges and connections that were ended since their clients made the slowest progress.
    pub slow_ended: u64,
    /// Connections that were refused.
    pub refused: u64,
}

#[cfg(test)]
mod tests {
    use super::MemoryStep;

    #[test]
    fn steps_are_in_their_order() {
        for (index, step) in MemoryStep::ALL.into_iter().enumerate() {
            assert_eq!((step as usize, MemoryStep::at(index as u8)), (index, step));
        }
        assert_eq!(MemoryStep::at(9), MemoryStep::Refuse);
        assert!(MemoryStep::ALL.is_sorted());
    }
}
