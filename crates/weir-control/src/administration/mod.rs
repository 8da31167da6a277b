//! What operators ask and order: page, API and commands of the runtime socket.

pub(super) mod runtime_socket;
pub(super) mod admin;
pub(super) mod runtime_commands;
pub(super) mod admin_operations;
pub(super) mod reports;
pub(super) mod statistics;
pub(super) mod admin_access;
