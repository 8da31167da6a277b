//! Responses of Weir itself: a failure page, a fixed answer, a redirect.
//!
//! Each gives an [`Answer`], a head and a body without a protocol; the exchange sends it as it sends the response of a server.

pub(crate) mod failure_page;
pub(crate) mod grpc_failure;
pub(crate) mod fixed;
pub(crate) mod redirect;
pub(crate) mod files;
pub(crate) mod ranges;
pub(crate) mod error_page;
pub(crate) mod last_hop;
mod answer;

pub(crate) use answer::Answer;
