//! TLS on either side: `downstream` with clients, `upstream` with servers; `acme`: certificates that Weir obtains by itself.
//!
//! Certificates, versions, sessions, records and how a TLS connection ends. The exchanges inside are tested here only where TLS could
//! change them.

mod acme;
mod downstream;
mod upstream;
