//! The watcher's own process: waits for signs of life, judges, and tells keepalived and BIRD.
//!
//! It reads nothing from the network and starts nothing. It ends with Weir, and what it tells last is that Weir does not serve.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use serde::{Deserialize, Serialize};

use super::availability::{Availability, Sign};
use super::bird::BirdProtocol;
use super::task::{TASK_BYTES_MAX, WatcherConfinement, WatcherTask};
use super::track_file::TrackFile;
use super::vitals::{SIGNS, SILENT_TURNS_MAX, Vitals};
use crate::lifecycle::privileges;
use weir_proxy::net::clock::{self, Instant};

/// How often all is told again: keepalived and BIRD may have been started anew, and the file may have been removed.
const TELL_AGAIN: Duration = Duration::from_secs(1);

/// What of the OOM killer's choice keeps the watcher alive for longer than Weir; without the privilege it stays as it is.
const OOM_SCORE: (&str, &str) = ("/proc/self/oom_score_adj", "-1000");

/// What the watcher says to Weir.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WatcherReport {
    /// Whom it has told, or could not tell.
    pub(crate) target: String,
    /// What it has told, or the error.
    pub(crate) outcome: Result<String, String>,
    /// Why Weir does not serve although it said so.
    pub(crate) reason: Option<String>,
}

/// A program that is told.
#[derive(Debug)]
enum Target {
    TrackFile(TrackFile),
    Bird(BirdProtocol),
}

impl Target {
    fn name(&self) -> String {
        match self {
            Self::TrackFile(file) => format!("keepalived, by {}", file.path.display()),
            Self::Bird(bird) => format!("BIRD, protocol {}", bird.protocol),
        }
    }

    /// Tells it, unless it knows.
    fn tell(&self, availability: Availability) -> io::Result<()> {
        match self {
            Self::TrackFile(file) => file.write(availability).map(drop),
            Self::Bird(bird) => bird.tell(availability).map(drop),
        }
    }

    /// What it is told, in words.
    fn text(&self, availability: Availability) -> String {
        match (self, availability) {
            (Self::TrackFile(file), _) => file.text(availability).trim().to_owned(),
            (Self::Bird(_), Availability::Available) => "enabled".to_owned(),
            (Self::Bird(_), _) => "disabled".to_owned(),
        }
    }
}

/// The process.
pub(super) struct WatcherProcess {
    /// Towards Weir.
    socket: OwnedFd,
    /// The kernel's figures of Weir.
    stat: PathBuf,
    targets: Vec<Target>,
    turn: Duration,
    vitals: Vitals,
    confinement: WatcherConfinement,
    told: Option<Availability>,
    told_at: Instant,
    reported: Vec<Option<WatcherReport>>,
}

/// What a turn has brought.
enum Turn {
    Goes,
    /// Another process announces from now on.
    Left,
    /// Weir has ended.
    Ended,
}

impl WatcherProcess {
    /// Waits for the task from the process at the other end of `socket`, which has made this one. `None`: it has ended, or has nothing to tell.
    pub(super) fn await_task(socket: OwnedFd) -> Option<Self> {
        let parent = rustix::process::getppid()?;
        let mut text = vec![0; TASK_BYTES_MAX];
        let len = loop {
            match recv(&socket, &mut text, RecvFlags::empty()) {
                Ok((_, len)) => break len,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        };
        let task: WatcherTask = serde_json::from_slice(text.get(..len)?).ok()?;
        let WatcherTask { track_file, bird, frozen_after, confinement } = task;
        let file = track_file.map(Target::TrackFile);
        let targets: Vec<Target> = file.into_iter().chain(bird.map(Target::Bird)).collect();
        Some(Self {
            socket,
            stat: PathBuf::from(format!("/proc/{}/stat", parent.as_raw_nonzero())),
            turn: frozen_after / SILENT_TURNS_MAX,
            vitals: Vitals::new(frozen_after / SIGNS),
            confinement,
            told: None,
            told_at: clock::now(),
            reported: vec![None; targets.len()],
            targets,
        })
    }

    /// Prepares what needs privileges, and gives them up.
    fn confine(&mut self) -> Result<(), WatcherReport> {
        let _without = std::fs::write(OOM_SCORE.0, OOM_SCORE.1);
        let account = self.confinement.account();
        let user = account.as_ref().and_then(|account| Some(account.user.as_ref()?.1));
        let mut folders = BTreeSet::new();
        for target in &self.targets {
            let Target::TrackFile(file) = target else { continue };
            folders.extend(file.path.parent().map(PathBuf::from));
            // Its folder may come up later; the attempts to write it report the error.
            let _not_yet = file.prepare(user);
        }
        privileges::give_up_beside(account.as_ref(), self.confinement.sandbox(), &folders).map_err(|error| {
            WatcherReport { target: "the watcher".to_owned(), outcome: Err(error.to_string()), reason: None }
        })
    }

    /// Runs until Weir has ended, or leaves.
    pub(super) fn run(mut self) {
        if let Err(report) = self.confine() {
            self.send(&report);
            return;
        }
        loop {
            let turn = self.turn();
            if matches!(turn, Turn::Left) {
                return;
            }
            let has_ended = matches!(turn, Turn::Ended);
            if let Some(verdict) = self.vitals.verdict() {
                self.tell(if has_ended { Availability::Unavailable } else { verdict });
            }
            if has_ended {
                return;
            }
        }
    }

    /// Waits for a sign of life, for one turn.
    fn turn(&mut self) -> Turn {
        let began = clock::now();
        let timeout = Timespec::try_from(self.turn).ok();
        let ready = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], timeout.as_ref());
        if matches!(ready, Ok(0)) {
            // Not where this process itself had no CPU time.
            if clock::now().saturating_duration_since(began) < self.turn * 2 {
                self.vitals.silence();
            }
            if is_stopped(&std::fs::read_to_string(&self.stat).unwrap_or_default()) {
                self.vitals.stopped();
            }
            return Turn::Goes;
        }
        let mut byte = [0];
        loop {
            match recv(&self.socket, &mut byte, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Turn::Ended,
                Ok(_) => match Sign::from_byte(byte[0]) {
                    Some(Sign::Alive(said)) => self.vitals.sign(said),
                    Some(Sign::Leave) => return Turn::Left,
                    None => {}
                },
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => return Turn::Goes,
                Err(_) => return Turn::Ended,
            }
        }
    }

    /// Tells every target, if it is time or something has changed, and reports what is new.
    fn tell(&mut self, availability: Availability) {
        let now = clock::now();
        if self.told == Some(availability) && now < self.told_at + TELL_AGAIN {
            return;
        }
        (self.told, self.told_at) = (Some(availability), now);
        for at in 0..self.targets.len() {
            let target = &self.targets[at];
            let told = target.tell(availability).map(|()| target.text(availability));
            let outcome = told.map_err(|error| error.to_string());
            let reason = self.vitals.reason().map(str::to_owned);
            let report = WatcherReport { target: target.name(), outcome, reason };
            if self.reported[at].as_ref() != Some(&report) {
                self.send(&report);
                self.reported[at] = Some(report);
            }
        }
    }

    /// Weir may be gone, or take nothing.
    fn send(&self, report: &WatcherReport) {
        if let Ok(text) = serde_json::to_vec(report) {
            let _gone = send(self.socket.as_fd(), &text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        }
    }
}

/// Whether a process does not run and will not soon, by its `proc_pid_stat(5)`: it was stopped, or it has ended.
fn is_stopped(stat: &str) -> bool {
    let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_none_or(|state| "TtZX".contains(state)) && !stat.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_says_that_a_process_is_stopped() {
        for (stat, stopped) in [
            ("42 (weir) S 1 42", false),
            ("42 (weir) R 1 42", false),
            ("42 (we) T ir) D 1 42", false),
            ("42 (weir) T 1 42", true),
            ("42 (weir) Z 1 42", true),
            ("", false),
        ] {
            assert_eq!(is_stopped(stat), stopped, "{stat:?}");
        }
    }
}
