//! Limits on connections and on request rates: pure counters.
//!
//! [`ConnectionCount`] bounds connections of the process or of a listener, [`ClientLimit`] those of one
//! client, [`RateLimit`] the requests per second of one client, [`TurnRate`] anything per second. They return yes or no, or a time; the answer to
//! the client is decided elsewhere. Memory is bounded whatever clients do.

mod connections;
mod rate;
mod client;
mod turns;

pub use client::ClientKey;
pub use connections::{ClientLimit, ClientLimitRefusal, ConnectionCount};
pub use rate::{RateError, RateLimit, TokenRate};
pub use turns::TurnRate;

#[cfg(test)]
mod tests;
