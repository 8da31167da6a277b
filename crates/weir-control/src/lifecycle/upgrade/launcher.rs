//! The launcher: a process beside Weir that starts Weir's program anew for an upgrade, since Weir itself starts no program once it has given up its
//! privileges.
//!
//! It is a copy of the process from before the first thread and the first socket; what it does is in `launching`. Here is Weir's end.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::handover::{Channel, HandoverError};
use super::launching;
use super::launching::{Order, Outcome};
use crate::lifecycle::privileges;
use crate::system::sys::fork::{self, Forked};

pub use super::launching::UPGRADE_VARIABLE;

/// How long the launcher may take for what it is told: it makes a process, or ends one.
const PATIENCE: Duration = Duration::from_secs(20);

/// Weir's end.
#[derive(Debug)]
pub struct UpgradeLauncher {
    channel: Mutex<Channel>,
    /// The number of the last order.
    number: AtomicU64,
    program: PathBuf,
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
            Forked::Parent(_) => {
                let channel = Mutex::new(Channel::new(ours, Some(PATIENCE))?);
                Ok(Self { channel, number: AtomicU64::new(0), program })
            }
            Forked::Child => {
                drop(ours);
                fork::keep_only(theirs.as_fd(), launching::NAME);
                privileges::limit_launcher();
                if let Ok(channel) = Channel::new(theirs, None) {
                    launching::run(&channel, &program, arguments);
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
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        channel.send(&(number, order))?;
        if let Some(fd) = with {
            channel.send_descriptors(&[fd.as_fd()])?;
        }
        loop {
            // What has come too late for an earlier order is of no interest any more.
            let (answered, outcome): (u64, Outcome) = channel.receive()?;
            if answered == number {
                return Ok(outcome);
            }
        }
    }
}
