//! Lines on their way to files and to standard error, without a worker that waits.

pub(crate) mod access_log;
pub(crate) mod own_log;
mod whole_lines;
