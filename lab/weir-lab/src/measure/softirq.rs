//! The threads of the kernel that do deferred work (ksoftirqd), mostly network traffic, when there is too much of it to do at once.
//!
//! They belong to no process tree of the lab, so their CPU time would count as that of other programs. Must not be charged to a target: the
//! kernel does not record which process caused the work.

use std::sync::LazyLock;

/// Their numbers, one for each CPU; none where `/proc` shows only this process and its children.
pub fn threads() -> &'static [i32] {
    static THREADS: LazyLock<Vec<i32>> = LazyLock::new(find);
    &THREADS
}

fn find() -> Vec<i32> {
    let processes = procfs::process::all_processes().into_iter().flatten().flatten();
    let stats = processes.filter_map(|process| process.stat().ok());
    stats.filter(|stat| is_softirq(&stat.comm, stat.flags)).map(|stat| stat.pid).collect()
}

/// Whether a process of this name with these flags is one. The flag tells a thread of the kernel from a program that calls itself so.
fn is_softirq(name: &str, flags: u32) -> bool {
    const KERNEL_THREAD: u32 = 0x0020_0000;
    name.starts_with("ksoftirqd/") && flags & KERNEL_THREAD != 0
}

#[cfg(test)]
mod tests {
    use super::is_softirq;

    #[test]
    fn only_the_kernel_has_such_threads() {
        // As in /proc/PID/stat of Linux 6.18.
        assert!(is_softirq("ksoftirqd/0", 69_238_848));
        assert!(!is_softirq("kswapd0", 69_238_848));
        assert!(!is_softirq("ksoftirqd/0", 4_194_560), "a program");
    }
}
