//! The threads of a build without the feature `profiler`: there is nothing to register them for.

/// Held by a thread for as long as it runs.
#[derive(Debug)]
pub(crate) struct ThreadRegistration;

/// Does nothing.
pub(crate) const fn register() -> ThreadRegistration {
    ThreadRegistration
}
