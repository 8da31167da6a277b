//! What a route may have: each folder or file is one feature, with all that it does to a request and its response.

pub(in crate::exchange) mod cache;
pub(crate) mod error_pages;
pub(in crate::exchange) mod buffering;
pub(in crate::exchange) mod files;
pub(crate) mod authentication;
pub(crate) mod mirror;
pub(in crate::exchange) mod access_lists;
pub(in crate::exchange) mod limits;
pub(in crate::exchange) mod rule_key;
pub(in crate::exchange) mod acme_challenge;
