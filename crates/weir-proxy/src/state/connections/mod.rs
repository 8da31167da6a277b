//! The open connections, and what each does.

pub mod connection_list;
pub(crate) mod activity;
