//! Child processes that never outlive the lab, each on the CPUs it belongs on.
//!
//! Between the lab and each child stands a guard: the lab's own program again (`guard`), which kills the child's whole
//! process tree as soon as the lab lets go of it, whether by finishing, by Ctrl-C, by a panic or by SIGKILL.

pub mod guard;
pub mod tree;
pub mod stuck;

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::clock;

/// How to start the lab's own program again.
#[derive(Debug, Clone)]
pub struct Launcher {
    /// The executable.
    pub program: PathBuf,
    /// Arguments that come before the lab's own.
    pub prefix: Vec<String>,
}

/// The program to start.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, besides that of the lab.
    pub env: Vec<(&'static str, String)>,
    /// CPUs it may run on; empty leaves the choice to the kernel.
    pub cpus: Vec<usize>,
    /// File that takes its output and errors.
    pub log: PathBuf,
}

impl Job {
    /// The command line, as one would type it.
    pub fn command_line(&self) -> String {
        let mut line: String = self.env.iter().map(|(name, value)| format!("{name}={value} ")).collect();
        line.push_str(&self.program.display().to_string());
        for arg in &self.args {
            let quote = if arg.contains([' ', ';', '"']) { "'" } else { "" };
            line.push_str(&format!(" {quote}{arg}{quote}"));
        }
        line
    }
}

/// A child under guard; it ends, with all its descendants, when this is dropped.
#[derive(Debug)]
pub struct Guarded {
    guard: Child,
    /// Closing it makes the guard end everything.
    line: Option<ChildStdin>,
    reports: BufReader<ChildStdout>,
    pid: i32,
    log: PathBuf,
    /// How the program ended, once that has been read.
    how: Option<String>,
}

impl Guarded {
    /// Starts `job`.
    ///
    /// # Errors
    /// When the guard or the program cannot be started.
    pub fn start(launcher: &Launcher, job: &Job) -> anyhow::Result<Self> {
        let mut command = Command::new(&launcher.program);
        command.args(&launcher.prefix).arg("guard").arg("--log").arg(&job.log);
        for cpu in &job.cpus {
            command.arg("--cpu").arg(cpu.to_string());
        }
        command.arg("--").arg(&job.program).args(&job.args);
        // The guard hands its own environment on.
        command.envs(job.env.iter().map(|(name, value)| (name, value)));
        // A process group of its own: Ctrl-C in the terminal must not reach the guard before the lab has let go.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guard =
            command.spawn().with_context(|| format!("cannot start {}", launcher.program.display()))?;
        let line = guard.stdin.take();
        let reports = BufReader::new(guard.stdout.take().context("the guard's output was not piped")?);
        let mut guarded = Self { guard, line, reports, pid: 0, log: job.log.clone(), how: None };
        let mut report = String::new();
        guarded.reports.read_line(&mut report)?;
        match report.trim_end().split_once(' ') {
            Some(("pid", pid)) => guarded.pid = pid.parse().context("the guard reports a process id")?,
            _ => bail!("cannot start {}: {}", job.program.display(), report.trim_end()),
        }
        Ok(guarded)
    }

    /// Process id of the program.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// How the program ended, if it has.
    pub fn ended(&mut self) -> Option<String> {
        self.guard.try_wait().ok().flatten()?;
        if self.how.is_some() {
            return self.how.clone();
        }
        let mut report = String::new();
        // Whatever the pipe still holds; an empty report is one as well.
        let _ = self.reports.read_to_string(&mut report);
        let log = self.log_tail();
        self.how = Some(if log.is_empty() {
            report.trim_end().to_owned()
        } else {
            format!("{}: {log}", report.trim_end())
        });
        self.how.clone()
    }

    /// Waits until the program ends or `limit` has passed; says how it ended.
    pub fn wait(&mut self, limit: Duration, mut interrupted: impl FnMut() -> bool) -> Option<String> {
        clock::wait_until(limit, || interrupted() || matches!(self.guard.try_wait(), Ok(Some(_))));
        self.ended()
    }

    /// Waits until something listens at `addr`.
    ///
    /// # Errors
    /// When the program ends before that, or `limit` passes; with the end of its log.
    pub fn wait_listening(&mut self, addr: SocketAddr, limit: Duration) -> anyhow::Result<()> {
        let mut ended = None;
        let ready = clock::wait_until(limit, || {
            ended = self.ended();
            ended.is_some() || TcpStream::connect_timeout(&addr, Duration::from_secs(1)).is_ok()
        });
        if let Some(how) = ended {
            bail!("ended at once: {how}");
        }
        if !ready {
            bail!("does not listen on {addr} after {limit:?}: {}", self.log_tail());
        }
        Ok(())
    }

    /// Waits for a line in the log that begins with `start`; returns the rest of it.
    ///
    /// # Errors
    /// When the program ends before that, or `limit` passes.
    pub fn wait_for_line(&mut self, start: &str, limit: Duration) -> anyhow::Result<String> {
        let (mut found, mut ended) = (None, None);
        clock::wait_until(limit, || {
            ended = self.ended();
            let log = std::fs::read_to_string(&self.log).unwrap_or_default();
            let whole_lines = log.rsplit_once('\n').map_or("", |(lines, _)| lines);
            found = whole_lines.lines().find_map(|line| line.strip_prefix(start)).map(str::to_owned);
            found.is_some() || ended.is_some()
        });
        match (found, ended) {
            (Some(rest), _) => Ok(rest),
            (None, Some(how)) => bail!("ended at once: {how}"),
            (None, None) => bail!("did not say `{start}` within {limit:?}"),
        }
    }

    /// The last lines of the log, on one line.
    fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.line.take());
        // The guard ends when the last descendant is gone.
        let _ = self.guard.wait();
    }
}
