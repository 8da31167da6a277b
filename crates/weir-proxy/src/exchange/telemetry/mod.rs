//! What is kept and told of an exchange: log, traces, and the recorder.

pub(in crate::exchange) mod report;
pub(crate) mod trace;
pub(in crate::exchange) mod log;
pub(crate) mod recording;
