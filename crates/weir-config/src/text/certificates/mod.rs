//! Certificates, of listeners and of clients.

pub(super) mod tls;
pub(super) mod internal;
pub(super) mod acme;
pub(super) mod dns_update;
pub(super) mod client_certificates;
