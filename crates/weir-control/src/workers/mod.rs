//! Commands and questions to the workers.

pub(super) mod connections;
pub(super) mod worker_queries;
pub(super) mod commands;
