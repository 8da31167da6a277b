//! Counters by key, which all workers share: a table of bounded size (stick tables of HAProxy).
//!
//! `counter` says what can be counted, `sliding_rate` how much came in a period, `entries` which keys have an entry, `sharing` and
//! `shared_table` what other nodes are told and tell. Must not know what a key is.

mod shared_table;
mod counter_table;
mod sharing;
mod entries;
mod sliding_rate;
mod counter;
#[cfg(test)]
mod sharing_tests;
#[cfg(test)]
mod tests;

pub use counter::{RATE_PERIOD_MAX, RATE_PERIOD_MIN, StoredCounter, StoredCounterError, TableCounter};
pub use counter_table::{CounterTable, ExchangeResult, TableEntry};
pub use sharing::{CountsMerge, SharedCounts, ToldCounts};
