//! The launcher: a process beside Weir that starts Weir's program anew for an upgrade, since Weir itself starts no program once it has given up its
//! privileges.
//!
//! It is a copy of the process from before the first thread and the first socket, with the privileges of the start. It does one thing, for the
//! one process that has made it: execute the program and the arguments that it was made with. It ends when that process does.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::handover::{Channel, HandoverError};
use crate::sys::fork::{self, Forked};

/// The environment variable by which a process knows that it was started for an upgrade: its standard input is the socket to the one before.
pub const UPGRADE_VARIABLE: &str = "WEIR_UPGRADE";

/// Variables that are for one process alone (sd_listen_fds(3), sd_watchdog_enabled(3)).
const OF_ONE_PROCESS: [&str; 4] = ["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID"];

/// Weir's end.
#[derive(Debug)]
pub struct UpgradeLauncher {
    channel: Mutex<Channel>,
    program: PathBuf,
}

/// What the launcher is to do.
#[derive(Debug, Serialize, Deserialize)]
enum Order {
    /// Start the program; its standard input follows.
    Start,
    /// End the program that was started last.
    End,
    /// Leave that program alone: it serves.
    Leave,
}

/// What has come of it.
#[derive(Debug, Serialize, Deserialize)]
enum Outcome {
    Started(u32),
    /// With the status of a program that had ended by itself.
    Ended(Option<String>),
    Left,
    Failed(String),
}

impl UpgradeLauncher {
    /// Makes the launcher, for `program` with `arguments`. No thread may run yet; descriptors that are open now are closed there, except for
    /// standard input, output and error.
    ///
    /// # Errors
    /// When a thread runs, or the system makes no process.
    pub fn start(program: PathBuf, arguments: &[OsString]) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        match fork::fork()? {
            Forked::Parent(_) => Ok(Self { channel: Mutex::new(Channel::new(ours, None)?), program }),
            Forked::Child => {
                drop(ours);
                fork::keep_only(theirs.as_fd(), c"weir-launcher");
                if let Ok(channel) = Channel::new(theirs, None) {
                    obey(&channel, &program, arguments);
                }
                fork::exit()
            }
        }
    }

    /// The program.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Starts the program with this as its standard input; gives the number of the process.
    ///
    /// # Errors
    /// When the system does not start it, or the launcher has ended.
    pub fn launch(&self, stdin: &OwnedFd) -> Result<u32, HandoverError> {
        match self.order(&Order::Start, Some(stdin))? {
            Outcome::Started(process) => Ok(process),
            Outcome::Failed(error) => Err(HandoverError::Refused(error)),
            other => Err(HandoverError::Invalid(format!("{other:?}"))),
        }
    }

    /// Ends the process that was started last; gives its status if it had ended by itself.
    pub fn end(&self) -> Option<String> {
        match self.order(&Order::End, None) {
            Ok(Outcome::Ended(status)) => status,
            _ => None,
        }
    }

    /// The process that was started last is not ended any more.
    pub fn leave(&self) {
        let _launcher_ended = self.order(&Order::Leave, None);
    }

    fn order(&self, order: &Order, with: Option<&OwnedFd>) -> Result<Outcome, HandoverError> {
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(order)?;
        if let Some(fd) = with {
            channel.send_descriptors(&[fd.as_fd()])?;
        }
        channel.receive()
    }
}

/// Carries out orders until the other end is closed.
fn obey(channel: &Channel, program: &Path, arguments: &[OsString]) {
    let mut started: Option<Child> = None;
    while let Ok(order) = channel.receive() {
        let outcome = match order {
            Order::Start => match channel.receive_descriptors(1).map(|mut fds| fds.pop()) {
                Ok(Some(stdin)) => match start(program, arguments, stdin) {
                    Ok(child) => Outcome::Started(started.insert(child).id()),
                    Err(error) => Outcome::Failed(format!("{}: {error}", program.display())),
                },
                _ => return,
            },
            Order::End => Outcome::Ended(started.take().and_then(end)),
            Order::Leave => {
                started = None;
                Outcome::Left
            }
        };
        if channel.send(&outcome).is_err() {
            return;
        }
    }
}

fn start(program: &Path, arguments: &[OsString], stdin: OwnedFd) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(arguments).env(UPGRADE_VARIABLE, "1").stdin(Stdio::from(stdin));
    for name in OF_ONE_PROCESS {
        command.env_remove(name);
    }
    command.spawn()
}

/// Ends a process; gives its status if it had ended by itself.
fn end(mut child: Child) -> Option<String> {
    let by_itself = child.try_wait().ok().flatten();
    let _ended_already = child.kill();
    let status = child.wait().ok();
    by_itself.or(status.filter(|status| status.code().is_some())).map(|status| status.to_string())
}
