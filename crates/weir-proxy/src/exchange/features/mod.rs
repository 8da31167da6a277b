//! What a route may have: each folder or file is one feature, with all that it does to requests and responses.
//!
//! In which order they act is said by `weir_config::ORDER`. Two rooms are for several of them: answers of Weir's own, and requests of Weir's own.

pub(in crate::exchange) mod acme_challenge;
pub(in crate::exchange) mod cache;
pub(in crate::exchange) mod error_pages;
pub(in crate::exchange) mod buffering;
pub(in crate::exchange) mod files;
pub(crate) mod authentication;
pub(in crate::exchange) mod mirror;
pub(in crate::exchange) mod access_lists;
pub(in crate::exchange) mod limits;
pub(in crate::exchange) mod answer;
pub(in crate::exchange) mod subrequests;
pub(in crate::exchange) mod retries;
pub(in crate::exchange) mod conditions;
pub(in crate::exchange) mod tables;
pub(in crate::exchange) mod headers;
pub(in crate::exchange) mod affinity;
pub(in crate::exchange) mod compression;
pub(in crate::exchange) mod cors;
pub(in crate::exchange) mod grpc;
pub(in crate::exchange) mod forwarded;
