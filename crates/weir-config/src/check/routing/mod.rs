//! Routes and what they do.

pub(super) mod route;
pub(super) mod route_order;
pub(super) mod rewrites;
pub(super) mod accel;
pub(super) mod access;
pub(super) mod action;
pub(super) mod grpc_web;
pub(super) mod mirror;
pub(super) mod access_log;
pub(super) mod static_files;
pub(super) mod headers;
pub(super) mod header_rules;
pub(super) mod expires;
pub(super) mod fastcgi;
pub(super) mod error_pages;
pub(super) mod redirect;
pub(super) mod match_groups;
pub(super) mod maps;
pub(super) mod rewriting;
