//! Requests of Weir's own to servers: for an exchange, beside one, or without any.

pub(crate) mod background;
pub(crate) mod subrequest;
