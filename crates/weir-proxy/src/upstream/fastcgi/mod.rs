//! FastCGI to servers such as PHP-FPM: one request after the other on a connection, which is kept only where the pool says so.
//!
//! Parameters come from the exchange; records, errors and the end of a request are the matter of this folder.

mod stream;
mod error_lines;

pub(crate) use stream::{FastcgiServerStream, FastcgiServers};
