//! Stored responses and pages, by their keys.

pub(crate) mod page_store;
pub(crate) mod cache;
pub(crate) mod cache_keys;
