//! The two programs, one at a time: started on their config, and ended with all processes that they have started.

use std::fs::File;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

use crate::clock::wait_until;
use crate::original::OriginalFacts;

/// How long a program may take until it listens.
const START: Duration = Duration::from_secs(20);

/// Rights of root that are for all of the machine, whatever namespace a process is in.
const GIVEN_UP: [CapabilitySet; 12] = [
    CapabilitySet::AUDIT_CONTROL,
    CapabilitySet::LINUX_IMMUTABLE,
    CapabilitySet::MAC_ADMIN,
    CapabilitySet::MKNOD,
    CapabilitySet::SYS_ADMIN,
    CapabilitySet::SYS_BOOT,
    CapabilitySet::SYS_MODULE,
    CapabilitySet::SYS_PTRACE,
    CapabilitySet::SYS_RAWIO,
    CapabilitySet::SYS_TIME,
    CapabilitySet::SYSLOG,
    CapabilitySet::WAKE_ALARM,
];

/// A program that runs.
pub(crate) struct ProofProgram {
    child: Child,
}

impl ProofProgram {
    /// Starts it, and waits until it accepts connections at any endpoint.
    pub(crate) fn start(mut command: Command, facts: &OriginalFacts, output: &Path) -> anyhow::Result<Self> {
        give_up_rights()?;
        let name = command.get_program().to_string_lossy().into_owned();
        let log = File::create(output)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let mut program = ProofProgram { child };
        let mut has_failed = false;
        let is_ready = wait_until(START, || {
            // One that goes into the background ends well.
            let end = program.child.try_wait().ok().flatten();
            has_failed = end.is_some_and(|status| !status.success());
            has_failed
                || facts.endpoints.iter().any(|endpoint| {
                    TcpStream::connect(SocketAddr::new(endpoint.address, endpoint.port)).is_ok()
                })
        });
        if has_failed || !is_ready {
            let said = std::fs::read_to_string(output).unwrap_or_default();
            let last: Vec<&str> = said.lines().rev().take(12).collect();
            let last: Vec<&str> = last.into_iter().rev().collect();
            let what = if has_failed { "refuses to start" } else { "accepts no connection" };
            bail!("{name} {what}, and says:\n{}", last.join("\n"));
        }
        Ok(program)
    }
}

/// Takes these rights from what is started from now on.
fn give_up_rights() -> anyhow::Result<()> {
    for capability in GIVEN_UP {
        remove_capability_from_bounding_set(capability).context("rights cannot be given up")?;
    }
    Ok(())
}

impl Drop for ProofProgram {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        // What it has yet to write to logs is written when it is told to end.
        let _ = kill_process(pid, Signal::TERM);
        wait_until(Duration::from_secs(3), || self.child.try_wait().ok().flatten().is_some());
        // It may have ended.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = self.child.wait();
        end_all();
    }
}

/// Ends what has left the group of a program. This process is the first one of its namespace: there are none but those that it has started.
fn end_all() {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    for pid in numbers.filter(|number| *number != 1).filter_map(Pid::from_raw) {
        // It may have ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// nginx on a file.
pub(crate) fn nginx(program: &Path, config: &Path, facts: &OriginalFacts, text: &str) -> Command {
    let mut options = String::new();
    if facts.is_daemon {
        options.push_str("daemon off; ");
    }
    let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
    if facts.has_stream && module.exists() && !text.contains("load_module") {
        options.push_str(&format!("load_module {}; ", module.display()));
    }
    let mut command = Command::new(program);
    command.arg("-c").arg(config);
    // Versions before 1.19.5 do not know it.
    if Command::new(program).args(["-e", "stderr", "-v"]).output().is_ok_and(|told| told.status.success()) {
        command.args(["-e", "stderr"]);
    }
    command.args(["-g", options.trim_end()]);
    command
}

/// HAProxy on a file, in the foreground.
pub(crate) fn haproxy(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("-db").arg("-f").arg(config);
    command
}

/// Weir on a file.
pub(crate) fn weir(program: &Path, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("serve").arg(config);
    command
}

/// The path of a program, also where daemons are.
pub(crate) fn find(name: &str) -> anyhow::Result<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    let folders = path.split(':').chain(["/usr/sbin", "/sbin", "/usr/local/sbin"]).map(PathBuf::from);
    folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .with_context(|| format!("{name} is not installed: give it with --program PATH"))
}
