//! The kernel's figures of this process: CPU time, memory, descriptors, when it was started, and the limit on open files.
//!
//! Read for each request that shows it.

use std::fs;

use weir_observe::ProcessStats;

use super::panics;
use super::privileges;
use weir_proxy::net::files::temporary_files;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// The figures now; a figure that cannot be read is 0.
pub(crate) fn figures() -> ProcessStats {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let mut figures =
        of_stat(&stat, rustix::param::clock_ticks_per_second(), rustix::param::page_size() as u64);
    // It is counted from the start of the machine.
    let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
    figures.started_micros += started(&machine).unwrap_or(0) * SECOND;
    figures.temporary_file_bytes = temporary_files::bytes();
    figures.landlock_abi = privileges::landlock_abi();
    figures.filters_system_calls = privileges::filters_system_calls();
    figures.denied_system_calls = privileges::denied_calls();
    figures.framing_violations = weir_proxy::state::crashes::framing_violations::count();
    figures.panics = panics::count();
    figures.task_restarts = weir_tasks::restarts();
    figures.open_fds = open_files();
    figures.max_fds = Some(open_files_max()).filter(|max| *max != u64::MAX);
    figures
}

/// Open file descriptors.
fn open_files() -> u64 {
    // Without the one that the folder is read through.
    fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count().saturating_sub(1) as u64)
}

/// Raises the soft limit on open files to the hard one: the soft default of 1 024 is too low for a proxy.
pub(crate) fn raise_open_files() {
    let resource = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(resource);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(resource, limit) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

/// How many files the process may open.
pub(crate) fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The fields of `proc_pid_stat(5)`; the name in parentheses may hold anything, so they are counted behind it.
fn of_stat(stat: &str, ticks_per_second: u64, page_bytes: u64) -> ProcessStats {
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
    // The first behind the name is number 3.
    let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse().ok()).unwrap_or(0_u64);
    let micros = |ticks: u64| ticks.saturating_mul(SECOND) / ticks_per_second.max(1);
    ProcessStats {
        cpu_micros: micros(field(14) + field(15)),
        started_micros: micros(field(22)),
        virtual_bytes: field(23),
        resident_bytes: field(24).saturating_mul(page_bytes),
        ..ProcessStats::default()
    }
}

/// When the machine was started, in seconds since 1970.
fn started(machine: &str) -> Option<u64> {
    machine.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_those_of_the_manual() {
        let stat = "42 (we) ir 7) S 1 42 42 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 4 0 12345 1073741824 2560 18446744073709551615";
        let figures = of_stat(stat, 100, 4096);
        assert_eq!((figures.cpu_micros, figures.started_micros), (3_000_000, 123_450_000));
        assert_eq!((figures.virtual_bytes, figures.resident_bytes), (1 << 30, 2560 * 4096));
        assert_eq!(of_stat("", 100, 4096), ProcessStats::default());
        assert_eq!(started("cpu 1 2\nbtime 1800000000\nprocesses 5\n"), Some(1_800_000_000));
        assert_eq!(started(""), None);
    }

    #[test]
    fn this_process_has_all_of_it() {
        let figures = figures();
        assert!(
            figures.open_fds > 2 && figures.resident_bytes > 0 && figures.virtual_bytes > 0,
            "{figures:?}"
        );
        assert!(figures.started_micros > 1_500_000_000 * SECOND, "{figures:?}");
    }
}
