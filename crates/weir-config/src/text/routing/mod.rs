//! Routes and what they do.

pub(super) mod route;
pub(super) mod rewrite;
pub(super) mod expires;
pub(super) mod header_rules;
pub(super) mod hsts;
pub(super) mod cors;
pub(super) mod mirror;
pub(super) mod compression;
pub(super) mod rewriting;
pub(super) mod access_log;
pub(super) mod cache;
pub(super) mod files;
pub(super) mod fastcgi;
pub(super) mod error_page;
pub(super) mod redirect_target;
pub(super) mod map;
pub(super) mod matching;
