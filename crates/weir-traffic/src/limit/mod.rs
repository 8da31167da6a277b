//! Limits on connections and on request rates: pure counters.
//!
//! [`ConnectionLimit`] bounds connections of the process or of a listener, [`ClientLimit`] those of one
//! client, [`RateLimit`] the requests per second of one client. They say yes or no; what the client gets to
//! hear is decided elsewhere. Memory is bounded whatever clients do.

mod client;
mod connections;
mod rate;

pub use client::ClientKey;
pub use connections::{ClientLimit, ConnectionLimit, Refusal};
pub use rate::{Rate, RateError, RateLimit};

#[cfg(test)]
mod tests;
