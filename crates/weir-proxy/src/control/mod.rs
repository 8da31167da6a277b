//! What is not on the request path: certificates and authorities whose files change, names of servers, health checks, the
//! times of ejections, the writer of the access log, the admin listener.

pub(crate) mod access_log;
pub(crate) mod names;
pub(crate) mod certificates;
mod clients;
mod stapling;
pub(crate) mod trust;
pub(crate) mod health;
pub(crate) mod ejection;
pub(crate) mod slow_start;
mod history;
pub(crate) mod modes;
pub(crate) mod admin;
