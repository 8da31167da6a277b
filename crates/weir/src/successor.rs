//! An upgrade, in the process that is replaced: starts the program anew, and hands everything over.
//!
//! The new process gets one end of a pair of sockets as its standard input and nothing else of what is open here. All of it happens on a
//! thread of its own, so that this process serves and takes signals meanwhile. Must not change the running proxy: that is for `serve`,
//! once the new process accepts connections.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_control::{Handover, HandoverError, HandoverGiver, Takeover};

/// The environment variable by which a process knows that it replaces another one.
pub(crate) const MARK: &str = "WEIR_UPGRADE";

/// How long the new process may take until it accepts connections.
pub(crate) const START_TIME_MAX: Duration = Duration::from_secs(60);

/// Variables that are for this process alone (sd_listen_fds(3), sd_watchdog_enabled(3)).
const OWN_VARIABLES: [&str; 4] = ["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID"];

/// What is started anew.
#[derive(Debug, Clone)]
pub(crate) struct Program(PathBuf);

impl Program {
    /// That of this process, by the path that it has now: an upgrade puts another file there.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        std::env::current_exe().map(Self)
    }
}

impl std::fmt::Display for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// A process that accepts connections on the sockets of this one.
#[derive(Debug)]
pub(crate) struct Successor {
    pub(crate) process: u32,
    pub(crate) takeover: Takeover,
    giver: HandoverGiver,
}

impl Successor {
    /// Tells it that this process accepts no more.
    pub(crate) fn confirm(&self) {
        self.giver.confirm();
    }
}

/// A process that is about to take over. Dropping this ends it.
#[derive(Debug)]
pub(crate) struct StartingSuccessor {
    child: Arc<Mutex<Option<Child>>>,
}

impl StartingSuccessor {
    /// Starts the program; `ended` gets the outcome, on another thread.
    ///
    /// # Errors
    /// When the system starts no process.
    pub(crate) fn begin(
        program: &Program,
        handover: Handover,
        ended: impl FnOnce(Result<Successor, String>) + Send + 'static,
    ) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let giver = HandoverGiver::new(ours, START_TIME_MAX)?;
        let mut command = Command::new(&program.0);
        command.args(std::env::args_os().skip(1)).env(MARK, "1").stdin(Stdio::from(OwnedFd::from(theirs)));
        OWN_VARIABLES.iter().for_each(|name| {
            command.env_remove(name);
        });
        let started = command.spawn()?;
        // Its end is closed here, so that its own end is noticed.
        drop(command);
        let process = started.id();
        let child = Arc::new(Mutex::new(Some(started)));
        let watched = Arc::clone(&child);
        std::thread::Builder::new().name("weir-upgrade".into()).spawn(move || {
            let outcome = giver.give(&handover);
            drop(handover);
            ended(match outcome {
                // It is not to be ended with this process.
                Ok(takeover) => {
                    lock(&watched).take();
                    Ok(Successor { process, takeover, giver })
                }
                Err(error) => Err(explain(&error, end(&watched))),
            });
        })?;
        Ok(Self { child })
    }
}

impl Drop for StartingSuccessor {
    fn drop(&mut self) {
        end(&self.child);
    }
}

fn lock(child: &Mutex<Option<Child>>) -> MutexGuard<'_, Option<Child>> {
    child.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends a process that does not serve; says how it had ended by itself.
fn end(child: &Mutex<Option<Child>>) -> Option<String> {
    let mut child = lock(child).take()?;
    let by_itself = child.try_wait().ok().flatten();
    let _ended_already = child.kill();
    let status = child.wait().ok();
    by_itself.or(status.filter(|status| status.code().is_some())).map(|status| status.to_string())
}

fn explain(error: &HandoverError, status: Option<String>) -> String {
    match (error, status) {
        (HandoverError::Channel(error), None) if error.kind() == io::ErrorKind::WouldBlock => {
            format!("it accepted no connections within {} seconds", START_TIME_MAX.as_secs())
        }
        (HandoverError::Channel(_), Some(status)) => {
            format!("it ended with {status}; its messages are on standard error")
        }
        (error, _) => error.to_string(),
    }
}
