//! What is written into heads, and read from them.

pub(in crate::exchange) mod cgi;
mod conditions;
pub(in crate::exchange) mod placeholders;
pub(crate) mod fields;
pub(in crate::exchange) mod cors;
pub(in crate::exchange) mod compression;
pub(in crate::exchange) mod affinity;
pub(in crate::exchange) mod grpc;
