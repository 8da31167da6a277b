//! An upgrade, in the process that replaces another: receives what that one hands over, and tells it how the start went.

use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

use weir_control::{Handover, HandoverReceiver, OccupiedSlots, Takeover, UPGRADE_VARIABLE};

use crate::error::CommandError;

/// The process that this one replaces.
#[derive(Debug)]
pub(crate) struct Predecessor {
    receiver: HandoverReceiver,
    stream: UnixStream,
}

impl Predecessor {
    /// The process that has started this one for an upgrade, if it was one.
    ///
    /// # Errors
    /// When standard input is not the socket that it should be.
    pub(crate) fn find() -> io::Result<Option<Self>> {
        if std::env::var_os(UPGRADE_VARIABLE).is_none() {
            return Ok(None);
        }
        let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
        let receiver = HandoverReceiver::new(stream.try_clone()?)?;
        Ok(Some(Self { receiver, stream }))
    }

    /// Everything that it hands over.
    pub(crate) fn receive(&self) -> Result<Handover, CommandError> {
        self.receiver.receive().map_err(|error| CommandError::Failed {
            error: error.into(),
            help: Some(format!("unset `{UPGRADE_VARIABLE}` if no running Weir was to be replaced")),
        })
    }

    /// This process accepts connections; returns when the other one does not any more. Requests that it still has take their `slots` until they end.
    pub(crate) fn tell_ready(self, takeover: Takeover, slots: Option<OccupiedSlots>) {
        let running = self.receiver.tell_ready(takeover);
        let Some(mut slots) = slots else {
            return self.end();
        };
        slots.follow(&running);
        let follow = move || {
            while let Some(running) = self.receiver.next_running() {
                slots.follow(&running);
            }
            drop(slots);
            self.end();
        };
        if let Err(error) = std::thread::Builder::new().name("weir-before".into()).spawn(follow) {
            tracing::warn!(%error, "requests of the process before do not count against `max_requests`");
        }
    }

    fn end(&self) {
        // Standard input stays open, and is a socket without another end from now on.
        let _gone = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// This process does not start.
    pub(crate) fn tell_failed(&self, error: &CommandError) {
        self.receiver.tell_failed(&error.line());
    }
}
