//! Requests of Weir's own to servers: for an exchange, beside one, or without any.

pub(crate) mod key_fetch;
pub(crate) mod mirror;
pub(crate) mod remote_page;
pub(crate) mod background;
pub(crate) mod subrequest;
