//! The events of the loop: signals, commands of the admin API or the runtime socket, and the outcome of an upgrade,
//! in the order in which they come.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weir_proxy::net::clock::{self, Instant};

use super::successor::Successor;
use crate::proxy::Proxy;
use crate::workers::commands::{AdminCommand, CommandKind, CommandSender};

/// Has the proxy go over to other routes or servers, and tells the outcome to where they come from; whether it went well.
pub type RoutesUpdate = Box<dyn FnOnce(&mut Proxy) -> bool + Send>;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServeSignal {
    /// To end, and at the second one to end at once.
    Stop,
    /// To read the config again.
    Reload,
    /// To open the files of the access log again.
    ReopenLogs,
    /// To start the program anew, and to leave all connections to that process.
    Upgrade,
}

/// An event.
pub(super) enum ServeEvent {
    /// A signal.
    Signal(ServeSignal),
    /// Something that is wanted.
    Command(AdminCommand),
    /// How the start of the process went that is to replace this one.
    Upgraded(Result<Successor, String>),
    /// Routes or servers from elsewhere have changed.
    Routes(RoutesUpdate),
    /// It is time to answer the watchdog of the supervisor.
    Watchdog,
}

impl ServeEvent {
    /// Whether the process ends by it.
    fn ends_process(&self) -> bool {
        matches!(
            self,
            Self::Signal(ServeSignal::Stop)
                | Self::Command(AdminCommand { kind: CommandKind::GiveUp(_), .. })
        )
    }
}

/// How a wait for routes has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AwaitedRoutes {
    /// Some are in use.
    Applied,
    /// There are none yet.
    NotYet,
    /// The process is to end.
    Ended,
}

/// Everything that comes.
pub struct ServeEvents {
    sender: Sender<ServeEvent>,
    inbox: Receiver<ServeEvent>,
    /// Events that came while others were waited for.
    deferred: RefCell<VecDeque<ServeEvent>>,
}

impl Default for ServeEvents {
    fn default() -> Self {
        Self::new()
    }
}

impl ServeEvents {
    /// Nothing has come yet.
    pub fn new() -> Self {
        let (sender, inbox) = channel();
        Self { sender, inbox, deferred: RefCell::default() }
    }

    /// Where signals are sent; whether there is a receiver.
    pub fn signals(&self) -> impl Fn(ServeSignal) -> bool + Send + 'static {
        let sender = self.sender.clone();
        move |signal| sender.send(ServeEvent::Signal(signal)).is_ok()
    }

    /// Begins to report, on a thread, that it is time to answer the watchdog.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(super) fn watch(&self, interval: Duration) -> io::Result<()> {
        let to_main = self.sender.clone();
        std::thread::Builder::new().name("weir-watchdog".into()).spawn(move || {
            loop {
                clock::pause(interval);
                if to_main.send(ServeEvent::Watchdog).is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// The sender of admin commands.
    pub fn commands(&self) -> CommandSender {
        let sender = self.sender.clone();
        CommandSender::new(move |command| sender.send(ServeEvent::Command(command)).is_ok())
    }

    /// Where the outcome of an upgrade is sent.
    pub(super) fn upgrade_outcome(&self) -> impl FnOnce(Result<Successor, String>) + Send + 'static {
        let sender = self.sender.clone();
        move |outcome| {
            let _ending = sender.send(ServeEvent::Upgraded(outcome));
        }
    }

    /// Waits for what comes next.
    pub(super) fn next(&self) -> ServeEvent {
        let deferred = self.deferred.borrow_mut().pop_front();
        deferred.unwrap_or_else(|| self.inbox.recv().expect("there is always a sender: this one"))
    }

    /// Has `take` take what sources of servers and of routes say; it gives the time from `began` until when more is worth waiting for. Other events
    /// come later; a signal that ends the process ends the wait.
    pub(super) fn take_sources(
        &self,
        began: Instant,
        mut take: impl FnMut(Option<CommandKind>) -> Option<Duration>,
    ) {
        let mut wait = take(None);
        while let Some(time) = wait {
            let left = (began + time).saturating_duration_since(clock::now());
            match self.inbox.recv_timeout(left) {
                Err(_) => return,
                Ok(ServeEvent::Command(AdminCommand {
                    kind: kind @ (CommandKind::Servers(..) | CommandKind::Fragments(..)),
                    ..
                })) => wait = take(Some(kind)),
                Ok(event) => {
                    let ends = event.ends_process();
                    self.deferred.borrow_mut().push_back(event);
                    if ends {
                        return;
                    }
                }
            }
        }
    }

    /// Where updates of routes are sent.
    pub(super) fn routes(&self) -> impl Fn(RoutesUpdate) -> bool + Send + Sync + 'static {
        let sender = self.sender.clone();
        move |update| sender.send(ServeEvent::Routes(update)).is_ok()
    }

    /// Has `apply` take updates of routes until one is applied, for this time if there is one; a signal that ends the process, or a defect of it, ends
    /// the wait. Other events come later.
    pub(super) fn await_routes(
        &self,
        time: Option<Duration>,
        mut apply: impl FnMut(RoutesUpdate) -> bool,
    ) -> AwaitedRoutes {
        let end = time.map(|time| clock::now() + time);
        loop {
            let event = match end {
                None => self.inbox.recv().expect("there is always a sender: this one"),
                Some(end) => {
                    let left = end.saturating_duration_since(clock::now());
                    match self.inbox.recv_timeout(left) {
                        Ok(event) => event,
                        Err(_) => return AwaitedRoutes::NotYet,
                    }
                }
            };
            match event {
                ServeEvent::Routes(update) => {
                    if apply(update) {
                        return AwaitedRoutes::Applied;
                    }
                }
                event => {
                    let ends = event.ends_process();
                    self.deferred.borrow_mut().push_back(event);
                    if ends {
                        return AwaitedRoutes::Ended;
                    }
                }
            }
        }
    }

    /// Waits for what comes next, until `end`.
    pub(super) fn next_until(&self, end: Instant) -> Option<ServeEvent> {
        let deferred = self.deferred.borrow_mut().pop_front();
        deferred.or_else(|| self.inbox.recv_timeout(end.saturating_duration_since(clock::now())).ok())
    }

    /// Events that are not handled yet.
    pub(super) fn pending(&self) -> impl Iterator<Item = ServeEvent> + '_ {
        std::iter::from_fn(|| self.deferred.borrow_mut().pop_front()).chain(self.inbox.try_iter())
    }
}
