//! What the loop of commands leaves to the program that runs it, and to routes that come from elsewhere than a config file.

use weir_config::Config;

use crate::lifecycle::sockets::listening_sockets::BoundListener;
use crate::start_error::StartError;

/// What only the program does: it prints, tells its supervisor, and knows what its user can change.
pub trait ServingProgram {
    /// This listener takes connections.
    fn tell_listening(&self, listener: &BoundListener);
    /// The process is in this state now.
    fn tell_state(&self, state: ProcessState);
    /// What can be done about an error of a reload.
    fn advice(&self, error: &StartError) -> Option<String>;
}

/// What a supervisor is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    /// All addresses take connections; also at the end of a reload, whatever came of it.
    Ready,
    /// A reload has begun.
    Reloading,
    /// All threads make progress.
    Alive,
    /// The process with this number is the main one from now on.
    LeftTo(u32),
    /// The stop has begun.
    Stopping,
}

/// Routes and servers that come from elsewhere than a config file, as updates of the running proxy.
pub trait RoutesElsewhere {
    /// Reads again what is beside them.
    ///
    /// # Errors
    /// All errors, one line each; then nothing has changed.
    fn reload(&self) -> Result<Config, Vec<String>>;
    /// What the log says while none has come.
    fn none_known(&self) -> &'static str;
    /// Why the process is not replaced by another one in its place.
    fn no_upgrade(&self) -> &'static str;
    /// Sends no more.
    fn stop(self: Box<Self>);
}
