//! Limits on connections and on request rates: pure counters.
//!
//! [`ConnectionCount`] bounds connections of the process or of a listener, [`ClientLimit`] those of one
//! client, [`RateLimit`] the requests per time of one key, [`BandwidthLimit`] its bytes, [`TurnRate`] anything per second. They return yes or no, or a time; the answer to
//! the client is decided elsewhere. [`AddressTable`] says what is known of an address, [`TopKeys`] which keys are refused most. Memory is bounded
//! whatever clients do.

mod address_table;
mod top_keys;
mod connections;
mod rate;
mod bandwidth;
mod sharing;
mod buckets;
mod client;
mod turns;

pub use address_table::AddressTable;
pub use bandwidth::BandwidthLimit;
pub use client::ClientKey;
pub use connections::{ClientLimit, ClientLimitRefusal, ConnectionCount};
pub use rate::{BucketLevel, KeyDebt, RateError, RateLimit, TokenRate};
pub use sharing::{KeyUse, SharedDebt};
pub use top_keys::{TOP_KEY_TEXT_MAX, TOP_KEYS_MAX, TopKey, TopKeys};
pub use turns::TurnRate;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod sharing_tests;
