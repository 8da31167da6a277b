//! Connections in TIME_WAIT on this machine, from `/proc/net/sockstat`, and descriptors that a process tree has open.

use procfs::process::Process;

use crate::process::tree;

/// Number of connections in TIME_WAIT.
pub fn time_wait() -> u64 {
    read_time_wait(&std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default())
}

/// Descriptors open in the tree under `root`.
pub fn descriptors(root: i32) -> u64 {
    let count = |pid| Process::new(pid).and_then(|process| process.fd_count()).unwrap_or(0) as u64;
    tree::members(root).into_iter().map(count).sum()
}

fn read_time_wait(sockstat: &str) -> u64 {
    let mut words = sockstat
        .lines()
        .find_map(|line| line.strip_prefix("TCP:"))
        .unwrap_or_default()
        .split_whitespace()
        .skip_while(|word| *word != "tw");
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{descriptors, read_time_wait};

    #[test]
    fn a_descriptor_that_is_opened_is_counted() {
        let me = std::process::id() as i32;
        let open: Vec<_> = (0..200).map(|_| std::fs::File::open("/dev/null").unwrap()).collect();
        // Others come and go in the tests beside this one.
        assert!(descriptors(me) >= open.len() as u64);
        assert_eq!(descriptors(i32::MAX), 0);
    }

    #[test]
    fn the_kernels_line_is_read() {
        let text = "sockets: used 181\nTCP: inuse 14 orphan 2 tw 4711 alloc 20 mem 3\nUDP: inuse 2 mem 1\n";
        assert_eq!(read_time_wait(text), 4711);
        assert_eq!(read_time_wait("sockets: used 181\n"), 0);
    }
}
