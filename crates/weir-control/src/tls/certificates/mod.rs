//! Certificates and authorities whose files change: for listeners and upstreams, read again while Weir runs.

mod listener;
mod upstream;
mod client_authorities;
mod ticket_keys;
mod ocsp_responses;
mod directory;
mod files;

pub(crate) use files::{FileStamp, stamp};
pub(crate) use listener::keep_current as keep_listener_current;
pub(crate) use upstream::keep_current as keep_upstream_current;
