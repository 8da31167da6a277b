//! The signals of `weir serve`: kept from the start on, and passed on once the loop is there to hear them.

use std::io;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use weir_control::ServeSignal;

/// Signals that are kept until they are handled.
pub(super) struct KeptSignals(Signals);

impl KeptSignals {
    /// Begins to keep them.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn register() -> io::Result<Self> {
        Signals::new([SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP]).map(Self)
    }

    /// Begins to pass them on, on a thread.
    ///
    /// # Errors
    /// When the system refuses the thread.
    pub(super) fn pass_to(mut self, send: impl Fn(ServeSignal) -> bool + Send + 'static) -> io::Result<()> {
        std::thread::Builder::new().name("weir-signals".into()).spawn(move || {
            for signal in self.0.forever() {
                let _ending = send(match signal {
                    SIGHUP => ServeSignal::Reload,
                    SIGUSR1 => ServeSignal::ReopenLogs,
                    SIGUSR2 => ServeSignal::Upgrade,
                    _ => ServeSignal::Stop,
                });
            }
        })?;
        Ok(())
    }
}
