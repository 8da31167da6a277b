//! The fields of heads: which pass, which a route changes, and what placeholders in them come to.

pub(in crate::exchange) mod response;
pub(in crate::exchange) mod request;
pub(in crate::exchange) mod rewriting;
pub(in crate::exchange) mod cgi;
pub(in crate::exchange) mod rules;
pub(in crate::exchange) mod fields;
