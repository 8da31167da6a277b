//! The memory that the kernel has for all TCP sockets of the machine (`net.ipv4.tcp_mem`), and how near its use is to that.
//!
//! At the third value of tcp_mem the kernel resets connections of all programs; at the second it begins to save. That one is the budget here. The
//! files are opened at start, before the root folder may change. Containers with a network of their own do not show tcp_mem: there is no budget then.

use std::fs::File;

use weir_observe::TcpMemoryStats;

use super::limits::text;

/// From which use on connections to servers get small buffers in the kernel, in thousandths of the budget.
const FILLING: u64 = 500;

/// From which use on slow clients are ended and new connections wait, and where that ends.
const SHORT: u64 = 900;
const ENOUGH: u64 = 850;

/// Where the sockets of Weir hold less than this part of it, ending clients of Weir would not help.
const OWN_ONE_IN: u64 = 8;

/// The files with the limit and the use.
#[derive(Debug, Default)]
pub(super) struct TcpMemoryFiles {
    limits: Option<File>,
    used: Option<File>,
}

impl TcpMemoryFiles {
    pub(super) fn open() -> Self {
        Self {
            limits: File::open("/proc/sys/net/ipv4/tcp_mem").ok(),
            used: File::open("/proc/net/sockstat").ok(),
        }
    }

    /// The use and the budget now.
    pub(super) fn read(&self) -> Option<TcpMemoryStats> {
        figures(&text(self.limits.as_ref()?)?, &text(self.used.as_ref()?)?, rustix::param::page_size() as u64)
    }
}

/// Reads both files: `limits` is `low pressure high` in pages, `used` has a line `TCP: ... mem PAGES`.
fn figures(limits: &str, used: &str, page: u64) -> Option<TcpMemoryStats> {
    let pressure: u64 = limits.split_whitespace().nth(1)?.parse().ok()?;
    let line = used.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let pages: u64 = line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()?;
    Some(TcpMemoryStats {
        used_bytes: pages.saturating_mul(page),
        max_bytes: pressure.saturating_mul(page).max(1),
    })
}

/// How short it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) enum TcpShortage {
    /// There is enough.
    #[default]
    None,
    /// Connections to servers get small buffers.
    Filling,
    /// Slow clients are ended, and new connections wait.
    Short,
}

impl TcpShortage {
    /// That after a look at the use, where the sockets of Weir hold `own` bytes.
    pub(super) fn next(self, stats: Option<TcpMemoryStats>, own: u64) -> Self {
        let Some(stats) = stats else { return Self::None };
        let used = stats.used_bytes.saturating_mul(1_000) / stats.max_bytes;
        let from = if self == Self::Short { ENOUGH } else { SHORT };
        if used >= from && own >= stats.used_bytes / OWN_ONE_IN {
            Self::Short
        } else if used >= FILLING {
            Self::Filling
        } else {
            Self::None
        }
    }
}

/// The use at which nothing is ended any more.
pub(super) fn wanted(max_bytes: u64) -> u64 {
    max_bytes / 1_000 * ENOUGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_value_of_tcp_mem_is_the_budget() {
        let used = "sockets: used 12\nTCP: inuse 1 orphan 0 tw 17220 alloc 1 mem 30\nUDP: inuse 0 mem 7\n";
        let stats = figures("100\t200\t300\n", used, 4_096).expect("both are there");
        assert_eq!((stats.used_bytes, stats.max_bytes), (30 * 4_096, 200 * 4_096));
        for (limits, used) in
            [("", used), ("100 x 300", used), ("1 2 3", "UDP: inuse 0 mem 7"), ("1 2 3", "TCP: mem")]
        {
            assert_eq!(figures(limits, used, 4_096), None, "{limits} {used}");
        }
    }

    #[test]
    fn a_shortage_begins_at_once_and_ends_below() {
        let mut shortage = TcpShortage::None;
        for (used, own, expected) in [
            (499, 499, TcpShortage::None),
            (500, 500, TcpShortage::Filling),
            (899, 800, TcpShortage::Filling),
            (900, 113, TcpShortage::Short),
            (850, 850, TcpShortage::Short),
            (849, 849, TcpShortage::Filling),
            // The memory of another program.
            (2_000, 249, TcpShortage::Filling),
            (2_000, 250, TcpShortage::Short),
            (0, 0, TcpShortage::None),
        ] {
            shortage = shortage.next(Some(TcpMemoryStats { used_bytes: used, max_bytes: 1_000 }), own);
            assert_eq!(shortage, expected, "{used} {own}");
        }
        assert_eq!(TcpShortage::Short.next(None, 1), TcpShortage::None);
    }
}
