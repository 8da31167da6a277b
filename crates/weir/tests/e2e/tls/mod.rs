//! TLS on either side: `downstream` with clients, `upstream` with servers.
//!
//! Certificates, versions, sessions, records and how a TLS connection ends. What passes inside is tested here only where TLS could
//! change it.

mod downstream;
mod upstream;
