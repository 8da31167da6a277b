//! The watcher: a process beside Weir that tells keepalived and BIRD whether Weir serves.
//!
//! A process that is killed or stopped can tell nothing itself. So the start makes a copy of the process, which waits for signs of life on a pair of
//! sockets and announces what they say; when they end, it announces that Weir does not serve. It has the user and the confinement of Weir.
//! It begins before the config is read, so that it does not keep what that takes, and learns by the sockets what it is to do.

mod process;
mod task;
mod vitals;
mod track_file;
mod bird;
mod availability;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use weir_config::Config;

use crate::system::sys::fork::{self, Forked};
pub(crate) use availability::Availability;
use availability::Sign;
use process::WatcherProcess;
pub(crate) use process::WatcherReport;
use task::WatcherTask;
use vitals::SIGNS;

/// The longest report.
const REPORT_BYTES_MAX: usize = 8 << 10;

/// Weir's end.
#[derive(Debug)]
pub struct NodeWatcher {
    socket: OwnedFd,
    interval: Duration,
}

/// The watcher has ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct WatcherEnded;

/// A watcher that waits for its task.
#[derive(Debug)]
pub struct WaitingWatcher {
    socket: OwnedFd,
    process: Pid,
}

impl WaitingWatcher {
    /// Makes the process. No thread may run yet; it ends when this one does.
    ///
    /// # Errors
    /// When a thread runs, or the system makes no process.
    pub fn start() -> io::Result<Self> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        match fork::fork()? {
            Forked::Parent(process) => Ok(Self { socket: ours, process }),
            Forked::Child => {
                drop(ours);
                fork::keep_only(theirs.as_fd(), c"weir-watcher");
                if let Some(watcher) = WatcherProcess::await_task(theirs) {
                    watcher.run();
                }
                fork::exit()
            }
        }
    }

    /// Has it watch, if `config` has something to tell; else it ends. It tells nothing before the first sign of life.
    ///
    /// # Errors
    /// When there is something to tell and no process: it was not made, or has ended by itself.
    pub fn begin(waiting: io::Result<Self>, config: &Config) -> io::Result<Option<NodeWatcher>> {
        let Some(task) = WatcherTask::new(config) else {
            waiting.into_iter().for_each(Self::end);
            return Ok(None);
        };
        let socket = waiting?.socket;
        send(&socket, &serde_json::to_vec(&task)?, SendFlags::NOSIGNAL)?;
        Ok(Some(NodeWatcher { socket, interval: task.frozen_after / SIGNS }))
    }

    fn end(self) {
        let _ended = kill_process(self.process, Signal::KILL);
        let _status = waitpid(Some(self.process), WaitOptions::empty());
    }
}

impl NodeWatcher {
    /// How often it expects a sign of life.
    pub(crate) const fn interval(&self) -> Duration {
        self.interval
    }

    /// Says that the process starts, and does not serve yet.
    pub fn tell_starting(&self) {
        let _ended = self.sign(Availability::Unavailable);
    }

    /// Gives a sign of life.
    ///
    /// # Errors
    /// When the watcher has ended. One that takes nothing for a moment misses a sign.
    pub(crate) fn sign(&self, availability: Availability) -> Result<(), WatcherEnded> {
        self.send(Sign::Alive(availability))
    }

    /// Lets the watcher end without a word, since another process announces from now on.
    pub(crate) fn leave(&self) {
        let _ended = self.send(Sign::Leave);
    }

    fn send(&self, sign: Sign) -> Result<(), WatcherEnded> {
        loop {
            match send(&self.socket, &[sign.to_byte()], SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => return Err(WatcherEnded),
                _ => return Ok(()),
            }
        }
    }

    /// What it has told since the last time, or failed to tell.
    pub(crate) fn reports(&self) -> impl Iterator<Item = WatcherReport> + '_ {
        std::iter::from_fn(|| {
            let mut text = [0; REPORT_BYTES_MAX];
            let (_, len) =
                recv(&self.socket, &mut text, RecvFlags::DONTWAIT).ok().filter(|(_, len)| *len > 0)?;
            serde_json::from_slice(text.get(..len)?).ok()
        })
    }
}
