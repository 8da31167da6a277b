//! What routes and listeners are to do, ready for the data path.

pub(super) mod listener;
mod access_logs;
pub mod mirror;
pub(crate) mod static_files;
pub(crate) mod stripped_fields;
pub(crate) mod wait_limits;
pub mod access;
