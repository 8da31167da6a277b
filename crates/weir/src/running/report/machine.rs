//! The parts of a report that the machine has: kernel, CPUs, memory, limits of the process and of its container, settings of the network.

use std::fs;

use super::Parts;

/// Bytes that are taken of one file.
const FILE_BYTES_MAX: usize = 64 * 1024;

/// Files of the machine, as the process sees them.
const OF_MACHINE: [&str; 24] = [
    "/etc/os-release",
    "/proc/version",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/net/sockstat",
    "/proc/net/netstat",
    "/proc/pressure/cpu",
    "/proc/pressure/memory",
    "/proc/pressure/io",
    "/proc/sys/fs/file-nr",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/net/core/somaxconn",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/ipv4/ip_local_port_range",
    "/proc/sys/net/ipv4/tcp_fastopen",
    "/proc/sys/net/ipv4/tcp_max_syn_backlog",
    "/proc/sys/net/ipv4/tcp_mem",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/ipv4/tcp_tw_reuse",
    "/proc/sys/net/ipv4/tcp_syncookies",
    "/proc/sys/vm/max_map_count",
];

/// Files of a process, below `/proc/NUMBER`. Not its environment and its command line: these may have secrets.
const OF_PROCESS: [&str; 6] = ["limits", "status", "stat", "cgroup", "schedstat", "io"];

/// Files of the cgroup of a process.
const OF_CGROUP: [&str; 6] =
    ["cpu.max", "cpu.stat", "memory.max", "memory.current", "memory.events", "pids.max"];

/// Adds them, for the process with this number where one runs.
pub(super) fn collect(parts: &mut Parts, process: Option<u64>) {
    let mut text =
        format!("CPUs: {}\n{}\n\n", std::thread::available_parallelism().map_or(0, usize::from), cpu_model());
    OF_MACHINE.iter().for_each(|file| add_file(&mut text, file));
    parts.add(
        "machine.txt",
        "the machine on which this command ran: kernel, memory, settings",
        Ok(text.into()),
    );
    let process = process.ok_or_else(|| "no process of Weir is known".to_owned());
    let process = process.and_then(|number| match fs::metadata(format!("/proc/{number}")) {
        Ok(_) => Ok(number),
        Err(error) => Err(format!("the process {number} is not to be seen from here: {error}")),
    });
    parts.add("process.txt", "limits and figures of the process, and its cgroup", process.map(of_process));
}

fn of_process(number: u64) -> Vec<u8> {
    let mut text = String::new();
    for file in OF_PROCESS {
        add_file(&mut text, &format!("/proc/{number}/{file}"));
    }
    let cgroup = fs::read_to_string(format!("/proc/{number}/cgroup")).unwrap_or_default();
    if let Some(path) = cgroup.lines().find_map(|line| line.strip_prefix("0::")) {
        for file in OF_CGROUP {
            add_file(&mut text, &format!("/sys/fs/cgroup{}/{file}", path.trim_end_matches('/')));
        }
    }
    text.into_bytes()
}

/// The first name of a model among the CPUs.
fn cpu_model() -> String {
    let cpus = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpus.lines().find(|line| line.starts_with("model name"));
    model.unwrap_or("model name: unknown").to_owned()
}

fn add_file(text: &mut String, file: &str) {
    let contents = match fs::read(file) {
        Ok(bytes) => String::from_utf8_lossy(&bytes[..bytes.len().min(FILE_BYTES_MAX)]).into_owned(),
        Err(error) => format!("({error})"),
    };
    text.push_str(&format!("== {file}\n{}\n\n", contents.trim_end()));
}
