//! Limits on connections and on request rates: pure counters.
//!
//! [`Gauge`] bounds connections of the process or of a listener, [`AddressGauge`] those of one client, [`RateLimit`] the
//! requests per second of one client. They say yes or no; what the client gets to hear is decided elsewhere. Memory is bounded whatever
//! clients do.

mod client;
mod gauge;
mod address;
mod rate;

pub use address::{AddressGauge, Refusal};
pub use client::ClientKey;
pub use gauge::Gauge;
pub use rate::{Rate, RateError, RateLimit};
