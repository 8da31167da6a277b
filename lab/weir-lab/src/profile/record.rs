//! Samples a process tree with `perf` while a load is on it.
//!
//! Stacks are unwound by the programs' own tables (`--call-graph dwarf`), which all of them have, optimised or not; frame pointers
//! most have not.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};

use super::{Profile, fold};
use crate::installed;
use crate::process::{Guarded, Job, Launcher, tree};

/// Samples per second and CPU: few enough that their cost does not matter, and no divisor of the kernel's ticks.
const PER_SECOND: u32 = 297;

/// Bytes of each stack that are kept for unwinding.
const STACK_LEN: u32 = 16 * 1024;

/// Longest time for perf to end, and to read its output.
const LIMIT: Duration = Duration::from_secs(120);

/// How to get perf.
pub const HOW_TO_GET: &str = "apt-get install linux-perf";

/// A recording under way.
#[derive(Debug)]
pub struct Recording {
    perf: Guarded,
    program: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

impl Recording {
    /// Begins to sample the tree under `pid`, for `length`; files go to `dir`.
    ///
    /// # Errors
    /// When perf is not installed or does not start.
    pub fn begin(launcher: &Launcher, pid: i32, length: Duration, dir: &Path) -> anyhow::Result<Self> {
        let installed =
            installed::find_tool("perf").with_context(|| format!("perf is not installed: {HOW_TO_GET}"))?;
        let (data, log) = (dir.join("perf.data"), dir.join("perf.log"));
        let pids: Vec<String> = tree::members(pid).iter().map(i32::to_string).collect();
        let args = [
            "record".to_owned(),
            format!("--event={}", event(&installed.program)),
            format!("--freq={PER_SECOND}"),
            format!("--call-graph=dwarf,{STACK_LEN}"),
            format!("--output={}", data.display()),
            format!("--pid={}", pids.join(",")),
            "--".to_owned(),
            "sleep".to_owned(),
            format!("{:.3}", length.as_secs_f64()),
        ];
        let program = installed.program;
        let job = Job { program: program.clone(), args: args.to_vec(), log: log.clone(), ..Job::default() };
        Ok(Self { perf: Guarded::start(launcher, &job)?, program, data, log })
    }

    /// Waits for its end and reads it.
    ///
    /// # Errors
    /// When perf was not allowed to sample, or wrote nothing that can be read.
    pub fn end(mut self, launcher: &Launcher, is_over: impl Fn() -> bool) -> anyhow::Result<Profile> {
        let how = self.perf.wait(LIMIT, &is_over).context("perf did not end")?;
        if !how.starts_with("exit status 0") {
            let said = std::fs::read_to_string(&self.log).unwrap_or_default();
            let first = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or(&how);
            bail!("perf was not able to sample: {first}");
        }
        let printed = self.log.with_extension("stacks");
        let args = ["script", "--no-inline", "-F", "comm,ip,sym", "-i"].map(str::to_owned);
        let args = args.into_iter().chain(std::iter::once(self.data.display().to_string())).collect();
        let job = Job { program: self.program.clone(), args, log: printed.clone(), ..Job::default() };
        let mut reading = Guarded::start(launcher, &job)?;
        reading.wait(LIMIT, &is_over).context("perf took too long to read its samples")?;
        let stacks = fold::fold(&String::from_utf8_lossy(&std::fs::read(&printed)?));
        if stacks.is_empty() {
            bail!("perf took no samples");
        }
        Ok(Profile::Stacks(stacks))
    }
}

/// What is sampled: cycles, or the CPU's time where the machine has no counters of its own to offer, as many virtual ones have not.
fn event(perf: &Path) -> &'static str {
    let counted = std::process::Command::new(perf)
        .args(["stat", "--field-separator=,", "--event=cycles", "--", "true"])
        .output()
        .map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    event_by_count(&counted.unwrap_or_default())
}

/// The same by what perf has counted, as fields between commas: the number is the first.
fn event_by_count(counted: &str) -> &'static str {
    let is_number = |field: &str| !field.is_empty() && field.bytes().all(|byte| byte.is_ascii_digit());
    let counts = counted.lines().any(|line| line.split(',').next().is_some_and(is_number));
    if counts { "cycles" } else { "cpu-clock" }
}

#[cfg(test)]
mod tests {
    use super::event_by_count;

    #[test]
    fn a_machine_without_counters_is_sampled_by_time() {
        for (counted, event) in [
            ("812345,,cycles,402233,100.00,,\n", "cycles"),
            ("<not supported>,,cycles,0,100.00,,\n", "cpu-clock"),
            ("<not counted>,,cycles,0,100.00,,\n", "cpu-clock"),
            ("Error: no permission to enable cycles event\n", "cpu-clock"),
            ("", "cpu-clock"),
        ] {
            assert_eq!(event_by_count(counted), event, "{counted}");
        }
    }
}
