//! The sources, each with its task: what they say is read here, and whether it is believed is decided elsewhere.

pub(crate) mod file_source;
mod file_format;
pub(crate) mod dns;
pub(crate) mod consul;
pub(crate) mod etcd;
pub(crate) mod xds;
mod source_client;
mod weights;
mod backoff;
