//! The upgrade of the running program: the process that starts the new one, and what that one is given.

pub(crate) mod launcher;
mod launching;
pub(crate) mod handover;
pub(crate) mod running_requests;
