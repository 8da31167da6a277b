//! An upgrade, in the process that is replaced: has the program started anew, and hands everything over.
//!
//! The new process gets one end of a pair of sockets as its standard input and nothing else of what is open here. All of it happens on a
//! thread of its own, so that this process serves and takes signals meanwhile. Must not change the running proxy: that is for `serve`,
//! once the new process accepts connections.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use crate::lifecycle::upgrade::handover::{Handover, HandoverError, HandoverGiver, Takeover};
use crate::lifecycle::upgrade::launcher::UpgradeLauncher;
use crate::lifecycle::upgrade::running_requests::RunningRequests;

/// How long the new process may take until it accepts connections.
pub const UPGRADE_TIME_MAX: Duration = Duration::from_secs(60);

/// A process that accepts connections on the sockets of this one.
#[derive(Debug)]
pub(super) struct Successor {
    pub(super) process: u32,
    pub(super) takeover: Takeover,
    giver: HandoverGiver,
    launcher: Arc<UpgradeLauncher>,
}

impl Successor {
    /// Tells it that this process accepts no more. Until then a stop of this process ends it.
    pub(super) fn confirm(&self, running: Vec<RunningRequests>) {
        self.launcher.leave();
        self.giver.confirm(running);
    }

    /// Tells it what runs here still; whether it is there.
    pub(super) fn tell_running(&self, running: Vec<RunningRequests>) -> bool {
        self.giver.tell_running(running)
    }
}

/// Has the program started and hands everything over; `ended` gets the outcome, on another thread.
///
/// # Errors
/// When the system starts no process or thread.
pub(super) fn begin(
    launcher: &Arc<UpgradeLauncher>,
    handover: Handover,
    ended: impl FnOnce(Result<Successor, String>) + Send + 'static,
) -> Result<(), HandoverError> {
    let (ours, theirs) = UnixStream::pair()?;
    let giver = HandoverGiver::new(ours, UPGRADE_TIME_MAX)?;
    let process = launcher.launch(&OwnedFd::from(theirs))?;
    let launcher = Arc::clone(launcher);
    std::thread::Builder::new().name("weir-upgrade".into()).spawn(move || {
        let give = || {
            weir_tasks::strike("the upgrade");
            giver.give(&handover)
        };
        // Without an outcome this process would wait for it, and refuse reloads, for good.
        let outcome = catch_unwind(AssertUnwindSafe(give)).unwrap_or_else(|_panic| {
            let what = "the handover has ended by a defect of Weir, and this process goes on: see the log";
            Err(HandoverError::Refused(what.to_owned()))
        });
        drop(handover);
        ended(match outcome {
            Ok(takeover) => Ok(Successor { process, takeover, giver, launcher }),
            Err(error) => Err(explain(&error, launcher.end())),
        });
    })?;
    Ok(())
}

fn explain(error: &HandoverError, status: Option<String>) -> String {
    match (error, status) {
        (HandoverError::Channel(error), None) if error.kind() == io::ErrorKind::WouldBlock => {
            format!("it accepted no connections within {} seconds", UPGRADE_TIME_MAX.as_secs())
        }
        (HandoverError::Channel(_), Some(status)) => {
            format!("it ended with {status}; its messages are on standard error")
        }
        (error, _) => error.to_string(),
    }
}
