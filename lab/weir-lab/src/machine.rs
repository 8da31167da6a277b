//! This machine: the lines a reader needs to compare a result with one of their own.

use serde::{Deserialize, Serialize};

use crate::placement;

/// The machine of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// CPU model.
    pub cpu: String,
    /// CPUs the lab may use.
    pub cpus: usize,
    /// Memory, bytes.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// Runs under a hypervisor.
    pub is_virtual: bool,
    /// Descriptors a process may open.
    pub descriptors: u64,
    /// Kernel settings that matter to connections.
    pub settings: Vec<(String, String)>,
    /// Load average over one minute when the run began.
    pub load: f64,
}

/// Settings that limit or shape many connections.
const SETTINGS: &[&str] = &[
    "net/core/somaxconn",
    "net/ipv4/tcp_max_syn_backlog",
    "net/ipv4/ip_local_port_range",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/tcp_congestion_control",
];

impl Machine {
    /// Reads the data of this machine.
    pub fn look() -> Self {
        let cpuinfo = read("/proc/cpuinfo");
        let kilobytes = value(&read("/proc/meminfo"), "MemTotal")
            .and_then(|text| text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok()));
        Self {
            cpu: value(&cpuinfo, "model name").unwrap_or_else(|| "unknown".to_owned()),
            cpus: placement::allowed().len(),
            memory: kilobytes.unwrap_or(0) * 1024,
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            is_virtual: value(&cpuinfo, "flags")
                .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
            descriptors: placement::descriptor_limit(),
            settings: SETTINGS
                .iter()
                .map(|name| {
                    (name.replace('/', "."), read(&format!("/proc/sys/{name}")).trim().replace('\t', " "))
                })
                .collect(),
            load: read("/proc/loadavg").split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        }
    }

    /// One sentence.
    pub fn sentence(&self) -> String {
        let kind = if self.is_virtual { ", virtual" } else { "" };
        let memory = self.memory as f64 / f64::from(1 << 30);
        let Self { cpu, cpus, kernel, load, .. } = self;
        format!(
            "{cpu}, {cpus} CPUs{kind}, {memory:.0} GiB, Linux {kernel}, load average {load:.2} at the start"
        )
    }
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The value of the first `name : value` line.
fn value(text: &str, name: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == name).then(|| value.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::{Machine, value};

    #[test]
    fn values_are_found_by_name() {
        let text = "processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmodel name\t: other\n";
        assert_eq!(value(text, "model name").as_deref(), Some("Fast CPU @ 3 GHz"));
        assert_eq!(value(text, "flags"), None);
    }

    #[test]
    fn this_machine_has_cpus_memory_and_a_kernel() {
        let machine = Machine::look();
        assert!(machine.cpus > 0 && machine.memory > 0 && machine.kernel.contains('.'), "{machine:?}");
    }
}
