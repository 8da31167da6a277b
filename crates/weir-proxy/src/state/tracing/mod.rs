//! What is kept of exchanges, for traces and for `weir why`.

pub(super) mod traces;
pub mod trace_queue;
pub mod recorder;
