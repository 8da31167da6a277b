//! TLS on either side: `downstream` with clients, `upstream` with servers.
//!
//! Certificates, versions, sessions, records and how a TLS connection ends. The exchanges inside are tested here only where TLS could
//! change them.

mod downstream;
mod upstream;
