//! The events of the main thread of `weir serve`: signals, commands of the admin API or the runtime socket, and the outcome of an upgrade,
//! in the order in which they come.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use signal_hook::iterator::Signals;
use weir_control::{AdminCommand, CommandSender};

use crate::successor::Successor;

/// An event.
pub(crate) enum ServeEvent {
    /// A signal, by its number.
    Signal(i32),
    /// Something that is wanted.
    Command(AdminCommand),
    /// How the start of the process went that is to replace this one.
    Upgraded(Result<Successor, String>),
    /// It is time to answer the watchdog of the supervisor.
    Watchdog,
}

/// Everything that comes.
pub(crate) struct ServeEvents {
    sender: Sender<ServeEvent>,
    inbox: Receiver<ServeEvent>,
}

/// Signals that are kept until they are handled.
pub(crate) struct ServeSignals(Signals);

impl ServeSignals {
    /// Begins to keep these signals.
    pub(crate) fn register(signals: &[i32]) -> io::Result<Self> {
        Signals::new(signals).map(Self)
    }
}

impl ServeEvents {
    /// Begins to listen for these signals, on a thread.
    pub(crate) fn start(ServeSignals(mut signals): ServeSignals) -> io::Result<Self> {
        let (sender, inbox) = channel();
        let to_main = sender.clone();
        std::thread::Builder::new().name("weir-signals".into()).spawn(move || {
            for signal in signals.forever() {
                let _ending = to_main.send(ServeEvent::Signal(signal));
            }
        })?;
        Ok(Self { sender, inbox })
    }

    /// Begins to report, on a thread, that it is time to answer the watchdog.
    pub(crate) fn watch(&self, interval: Duration) -> io::Result<()> {
        let to_main = self.sender.clone();
        std::thread::Builder::new().name("weir-watchdog".into()).spawn(move || {
            loop {
                crate::clock::pause(interval);
                if to_main.send(ServeEvent::Watchdog).is_err() {
                    return;
                }
            }
        })?;
        Ok(())
    }

    /// The sender of admin commands.
    pub(crate) fn commands(&self) -> CommandSender {
        let sender = self.sender.clone();
        CommandSender::new(move |command| sender.send(ServeEvent::Command(command)).is_ok())
    }

    /// Where the outcome of an upgrade is sent.
    pub(crate) fn upgrade_outcome(&self) -> impl FnOnce(Result<Successor, String>) + Send + 'static {
        let sender = self.sender.clone();
        move |outcome| {
            let _ending = sender.send(ServeEvent::Upgraded(outcome));
        }
    }

    /// Waits for what comes next.
    pub(crate) fn next(&self) -> ServeEvent {
        self.inbox.recv().expect("there is always a sender: this one")
    }

    /// Events that are not handled yet.
    pub(crate) fn pending(&self) -> impl Iterator<Item = ServeEvent> + '_ {
        self.inbox.try_iter()
    }
}
