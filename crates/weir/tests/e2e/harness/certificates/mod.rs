//! Certificates of clients and what goes with TLS: stapled responses, logged keys, greetings.

pub(crate) mod client_certificate;
pub(crate) mod ocsp;
pub(crate) mod key_log;
pub(crate) mod client_hello;
