//! Deadlines of connections, how slow they may be, and the timer that wakes a worker for them.

pub mod deadline;
pub(crate) mod pace;
pub(crate) mod timers;
pub(crate) mod idleness;
pub(crate) mod alarm;
pub(crate) mod wheel;
