//! The state of servers: their sources, names, health checks, ejection, slow start, and the mode that the operator gave them.

pub(crate) mod modes;
pub(crate) mod discovery;
pub(crate) mod health;
pub(crate) mod ejection;
pub(crate) mod slow_start;
pub(crate) mod outcome_history;
pub(crate) mod requested_names;
pub(crate) mod dns_names;
