//! Routes and what they do.

pub(super) mod own_requests;
pub(super) mod cache_partition;
mod features;
pub(super) mod route;
pub(super) mod header_changes;
pub(super) mod expires;
pub(super) mod access_log;
pub(super) mod mirror;
pub(super) mod static_files;
pub(super) mod fastcgi;
pub(super) mod error_page;
pub(super) mod cors;
pub(super) mod rewriting;
pub(super) mod compression;
pub(super) mod cache;
pub(super) mod rewrite;
pub(super) mod accel;
