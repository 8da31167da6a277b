//! The program that is tried: started on a config, told to reload or to give way to its successor, and ended.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::Setting;
use crate::clock::{WATCHDOG, now, pause};

/// The variable by which a program with former faults is told which of them to have.
const FAULT: &str = "WEIR_FORMER_FAULT";

/// A running program; it ends with this value.
pub(crate) struct WeirProcess {
    child: Child,
    log: Arc<Mutex<String>>,
    following: Option<JoinHandle<()>>,
    successor: Option<Pid>,
    _folder: TempDir,
}

impl WeirProcess {
    /// Starts the program on `config`, with copies of the files beside it.
    pub(crate) fn start(setting: &Setting<'_>, config: &str) -> anyhow::Result<Self> {
        let Setting { program, files, fault, .. } = setting;
        let folder = tempfile::Builder::new().prefix("weir-matrix-").tempdir()?;
        for entry in std::fs::read_dir(files)? {
            let entry = entry?;
            std::fs::copy(entry.path(), folder.path().join(entry.file_name()))?;
        }
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, config)?;
        let mut child = Command::new(program)
            .arg("serve")
            .arg(&file)
            .envs(fault.map(|fault| (FAULT, fault)))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", program.display()))?;
        let stderr = child.stderr.take().context("its log is not piped")?;
        let log = Arc::new(Mutex::new(String::new()));
        let written = Arc::clone(&log);
        let following = thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let mut log = written.lock().unwrap_or_else(PoisonError::into_inner);
                log.push_str(&line);
                log.push('\n');
            }
        });
        Ok(Self { child, log, following: Some(following), successor: None, _folder: folder })
    }

    fn log(&self) -> String {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until `find` finds something in the log.
    fn wait<T>(&mut self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        let start = now();
        while start.elapsed() < WATCHDOG {
            if let Some(found) = find(&self.log()) {
                return Some(found);
            }
            if self.successor.is_none() && self.child.try_wait().ok().flatten().is_some() {
                return find(&self.log());
            }
            pause(Duration::from_millis(2));
        }
        None
    }

    /// The address of the listener `web`, once the program is ready.
    pub(crate) fn web(&mut self) -> Option<SocketAddr> {
        self.wait(|log| {
            let is_ready = log.lines().any(|line| line.trim() == "ready");
            let line = log.lines().find_map(|line| line.strip_prefix("listening listener=web address="));
            line.filter(|_| is_ready)?.trim().parse().ok()
        })
    }

    /// Has the config read again; says what goes wrong.
    pub(crate) fn reload(&mut self) -> Option<String> {
        self.signal(Signal::HUP);
        let reloaded = self.wait(|log| log.contains("the config was reloaded").then_some(()));
        reloaded.is_none().then(|| "the config is not reloaded".to_owned())
    }

    /// Has another process take over; says what goes wrong.
    pub(crate) fn upgrade(&mut self) -> Option<String> {
        self.signal(Signal::USR2);
        let successor = self.wait(|log| {
            let line = log.lines().find(|line| line.contains("another process serves now"))?;
            let digits = line.split_once("process=")?.1;
            let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
            Pid::from_raw(digits.parse().ok()?)
        });
        self.successor = successor;
        successor.is_none().then(|| "no other process takes over".to_owned())
    }

    fn signal(&self, signal: Signal) {
        // It may have ended, which the log tells.
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    fn kill(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(successor) = self.successor.take() {
            let _ = kill_process(successor, Signal::KILL);
        }
        if let Some(following) = self.following.take() {
            // It reads to the end, and never panics.
            let _ = following.join();
        }
    }

    /// Ends it; gives its log.
    pub(crate) fn end(mut self) -> String {
        self.kill();
        self.log()
    }
}

impl Drop for WeirProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
