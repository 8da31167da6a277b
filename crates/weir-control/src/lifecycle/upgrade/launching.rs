//! The launcher's side: a process that executes one program with one list of arguments, for the process that has made it, and ends when that
//! process does.
//!
//! A second process, in reserve, does nothing but wait for the end of the first, whose place it takes: Weir itself can make none any more.
//! Both have the few capabilities that `privileges` leaves them. Orders that a process could be made to give, should it fall to an attacker,
//! come to no more than a start of that program now and then, one at a time. Must not read anything but orders.

use std::ffi::{CStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions};
use serde::{Deserialize, Serialize};
use weir_proxy::net::clock::{self, Instant};

use super::handover::{Channel, HandoverError};
use crate::system::sys::fork::{self, Forked};

/// The name of the process that takes orders, and of the one in reserve.
pub(super) const NAME: &CStr = c"weir-launcher";
const RESERVE_NAME: &CStr = c"weir-reserve";

/// The environment variable by which a process knows that it was started for an upgrade: its standard input is the socket to the one before.
pub const UPGRADE_VARIABLE: &str = "WEIR_UPGRADE";

/// Variables that are for one process alone (sd_listen_fds(3), sd_watchdog_enabled(3)).
const OF_ONE_PROCESS: [&str; 4] = ["LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID"];

/// Bytes of an order.
const ORDER_BYTES_MAX: usize = 256;

/// How many programs, and how many processes in reserve, are started in this time at most.
const STARTS_MAX: usize = 16;
const STARTS_TIME: Duration = Duration::from_secs(60);

/// When something was started lately.
#[derive(Debug, Default)]
struct Starts(Vec<Instant>);

impl Starts {
    /// Whether there may be one more now, which is counted then.
    fn admit(&mut self, now: Instant) -> bool {
        self.0.retain(|start| now.saturating_duration_since(*start) < STARTS_TIME);
        let is_admitted = self.0.len() < STARTS_MAX;
        if is_admitted {
            self.0.push(now);
        }
        is_admitted
    }
}

/// What the launcher is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Order {
    /// Start the program; its standard input follows.
    Start,
    /// End the program that was started last.
    End,
    /// Leave that program alone: it serves.
    Leave,
}

/// What has come of it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Outcome {
    Started(u32),
    /// With the status of a program that had ended by itself.
    Ended(Option<String>),
    Left,
    Failed(String),
}

/// Carries out orders until the other end is closed, in this process or in one that takes its place.
pub(super) fn run(channel: &Channel, program: &Path, arguments: &[OsString]) {
    let mut launcher = ProgramStarter { program, arguments, started: None, starts: Starts::default() };
    let mut reserves = Starts::default();
    // Its end of a pair of sockets is closed when it is gone.
    let mut reserve = None;
    while !is_closed(channel) {
        if reserve.is_none() && reserves.admit(clock::now()) {
            reserve = match begin_reserve() {
                Ok(ForkedRole::Launcher(reserve)) => Some(reserve),
                Ok(ForkedRole::Reserve(launcher_end)) => {
                    fork::set_name(RESERVE_NAME);
                    let _gone = wait_for(&[&launcher_end]);
                    // What it has started is another's child.
                    launcher.started = None;
                    fork::set_name(NAME);
                    continue;
                }
                // Without one it goes on; after the next order it is tried again.
                Err(_) => None,
            };
        }
        match wait_for_order(channel, reserve.as_ref()) {
            Ok(true) if launcher.obey_one(channel).is_ok() => {}
            Ok(false) => {
                if let Some(ended) = reserve.take() {
                    ended.reap();
                }
            }
            _ => return,
        }
    }
}

/// The process in reserve.
struct Reserve {
    /// This process's end of the pair of sockets between the two.
    socket: UnixStream,
    process: Pid,
}

impl Reserve {
    /// Takes the status of one that has ended.
    fn reap(&self) {
        while matches!(rustix::process::waitpid(Some(self.process), WaitOptions::empty()), Err(Errno::INTR)) {
        }
    }
}

/// Which of the two processes this is.
enum ForkedRole {
    Launcher(Reserve),
    /// With its end of the pair of sockets between the two.
    Reserve(UnixStream),
}

fn begin_reserve() -> io::Result<ForkedRole> {
    let (ours, theirs) = UnixStream::pair()?;
    Ok(match fork::fork()? {
        Forked::Parent(process) => ForkedRole::Launcher(Reserve { socket: ours, process }),
        Forked::Child => ForkedRole::Reserve(theirs),
    })
}

/// Waits for an order; `false` when the process in reserve is gone first.
fn wait_for_order(channel: &Channel, reserve: Option<&Reserve>) -> io::Result<bool> {
    match reserve {
        Some(reserve) => Ok(wait_for(&[channel, &reserve.socket])? == 0),
        None => Ok(wait_for(&[channel])? == 0),
    }
}

/// Whether the process that gives orders is gone.
fn is_closed(channel: &Channel) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::empty())];
    let polls = rustix::event::poll(&mut polled, Some(&Timespec::default()));
    polls.is_ok() && polled[0].revents().contains(PollFlags::HUP)
}

/// Waits until one of these can be read or is closed; gives the first.
fn wait_for(sockets: &[&dyn AsFd]) -> io::Result<usize> {
    let mut polled: Vec<PollFd<'_>> =
        sockets.iter().map(|socket| PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)).collect();
    loop {
        match rustix::event::poll(&mut polled, None) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => {
                if let Some(first) = polled.iter().position(|socket| !socket.revents().is_empty()) {
                    return Ok(first);
                }
            }
        }
    }
}

/// What carries out orders.
struct ProgramStarter<'a> {
    program: &'a Path,
    arguments: &'a [OsString],
    /// The program that was started last, until it serves or is ended.
    started: Option<Child>,
    starts: Starts,
}

impl ProgramStarter<'_> {
    fn obey_one(&mut self, channel: &Channel) -> Result<(), HandoverError> {
        let (number, order): (u64, Order) = channel.receive_up_to(ORDER_BYTES_MAX)?;
        let outcome = match order {
            Order::Start => {
                let Some(stdin) = channel.receive_descriptors(1)?.pop() else { return Ok(()) };
                match self.start(stdin) {
                    Ok(process) => Outcome::Started(process),
                    Err(error) => Outcome::Failed(error),
                }
            }
            Order::End => Outcome::Ended(self.started.take().and_then(end)),
            Order::Leave => {
                self.started = None;
                Outcome::Left
            }
        };
        channel.send(&(number, outcome))
    }

    fn start(&mut self, stdin: OwnedFd) -> Result<u32, String> {
        if !self.starts.admit(clock::now()) {
            return Err(format!("{STARTS_MAX} upgrades within {} seconds", STARTS_TIME.as_secs()));
        }
        // There is one at a time: what has neither come to serve nor was ended has no purpose any more.
        self.started.take().and_then(end);
        let child = start(self.program, self.arguments, stdin);
        let child = child.map_err(|error| format!("{}: {error}", self.program.display()))?;
        Ok(self.started.insert(child).id())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_have_a_rate() {
        let (mut starts, now) = (Starts::default(), clock::now());
        let admitted = (0..100).filter(|_| starts.admit(now)).count();
        assert_eq!(admitted, STARTS_MAX);
        assert!(starts.admit(now + STARTS_TIME));
    }
}
