//! Certificates, of listeners and of clients, and keys that nodes share.

pub(super) mod tls;
pub(super) mod certificate_sources;
pub(super) mod acme;
pub(super) mod dns_update;
pub(super) mod internal;
pub(super) mod client_certificates;
pub(super) mod http3_keys;
