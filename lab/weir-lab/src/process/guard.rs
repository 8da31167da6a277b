//! The guard: starts one program and ends its whole process tree when the line to the lab (standard input) closes.
//!
//! Being a child subreaper, it inherits the remaining children of the program, so daemons cannot slip away.
//! Reports `pid N`, then at the end `exit ...`, on standard output.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, WaitOptions};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Job, tree};
use crate::{clock, placement};

/// The lowest priority there is (`setpriority(2)`).
const PRIORITY_MIN: i32 = 19;

/// Starts `job` and stays until its whole tree is gone.
///
/// # Errors
/// When the program cannot be started.
pub fn run(job: &Job) -> anyhow::Result<()> {
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))?;
    placement::raise_descriptor_limit();
    if !job.cpus.is_empty() {
        placement::pin_to(&job.cpus)?;
    }
    let mut signals = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    let log = File::create(&job.log).with_context(|| format!("cannot create {}", job.log.display()))?;
    let child = Command::new(&job.program)
        .args(&job.args)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => {
            report(&format!("failed {error}"));
            return Ok(());
        }
    };
    // From now on it only waits. Reaping a process that others look at in /proc can keep the kernel busy for seconds (seen with
    // Linux 6.18), on the CPU of what is measured.
    let _ = rustix::process::setpriority_process(None, PRIORITY_MIN);
    report(&format!("pid {}", child.id()));
    std::thread::spawn(move || {
        // Any end of the line is the end, an error as much as a close.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        end_all(me);
    });
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            end_all(me);
        }
    });
    reap(child.id(), me);
    Ok(())
}

/// Reaps children, inherited ones too, until none is left.
fn reap(program: u32, me: Pid) {
    while let Ok(ended) = rustix::process::wait(WaitOptions::empty()) {
        let Some((pid, status)) = ended else { continue };
        if pid.as_raw_nonzero().get() as u32 != program {
            continue;
        }
        match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => report(&format!("exit status {code}")),
            (None, Some(signal)) => report(&format!("exit by signal {signal}")),
            (None, None) => report("exit"),
        }
        std::thread::spawn(move || end_all(me));
    }
}

/// Kills every descendant; new ones may appear meanwhile, so it looks again until there are none.
fn end_all(me: Pid) {
    clock::wait_until(Duration::from_secs(60), || {
        let descendants = tree::members(me.as_raw_nonzero().get());
        for pid in descendants[1..].iter().filter_map(|pid| Pid::from_raw(*pid)) {
            // It may be gone by now.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        descendants.len() == 1
    });
}

/// One line to the lab, which may have gone.
fn report(line: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
