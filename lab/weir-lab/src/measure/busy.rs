//! How busy one CPU was between two moments, from `/proc/stat`, and how much the hypervisor took.

use procfs::CurrentSI as _;

/// Ticks of one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticks {
    /// Doing anything: user, nice, system, interrupts.
    pub busy: u64,
    /// Waiting for work.
    pub idle: u64,
    /// Taken by the hypervisor for others.
    pub stolen: u64,
}

/// The counters of a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CpuUse {
    /// Part of the time it was busy, 0 to 1.
    pub busy: f64,
    /// Part of the time the hypervisor took, 0 to 1.
    pub stolen: f64,
}

/// Reads one CPU; `None` when the kernel does not list it.
pub fn ticks(cpu: usize) -> Option<Ticks> {
    let stat = procfs::KernelStats::current().ok()?;
    let cpu = stat.cpu_time.get(cpu)?;
    Some(Ticks {
        busy: cpu.user + cpu.nice + cpu.system + cpu.irq.unwrap_or(0) + cpu.softirq.unwrap_or(0),
        idle: cpu.idle + cpu.iowait.unwrap_or(0),
        stolen: cpu.steal.unwrap_or(0),
    })
}

/// The use of the CPU from `before` to `after`.
pub fn between(before: Ticks, after: Ticks) -> CpuUse {
    let busy = after.busy.saturating_sub(before.busy) as f64;
    let idle = after.idle.saturating_sub(before.idle) as f64;
    let stolen = after.stolen.saturating_sub(before.stolen) as f64;
    let all = (busy + idle + stolen).max(1.0);
    CpuUse { busy: busy / all, stolen: stolen / all }
}

#[cfg(test)]
mod tests {
    use super::{CpuUse, Ticks, between, ticks};

    #[test]
    fn shares_are_of_the_time_between() {
        let before = Ticks { busy: 100, idle: 500, stolen: 10 };
        let after = Ticks { busy: 160, idle: 530, stolen: 20 };
        assert_eq!(between(before, after), CpuUse { busy: 0.6, stolen: 0.1 });
        assert_eq!(between(before, before), CpuUse { busy: 0.0, stolen: 0.0 });
    }

    #[test]
    fn a_cpu_of_this_machine_can_be_read() {
        assert!(ticks(crate::placement::allowed()[0]).is_some());
        assert_eq!(ticks(1_000_000), None);
    }
}
