//! What belongs to the operating system: threads by name, files that are replaced as a whole, and the unsafe code.

pub(crate) mod threads;
pub(crate) mod atomic_file;
pub(crate) mod sys;
