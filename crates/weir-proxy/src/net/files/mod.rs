//! Files: opened below a root, read and kept for a while.

pub(crate) mod file;
pub(super) mod walk;
pub mod temporary_files;
