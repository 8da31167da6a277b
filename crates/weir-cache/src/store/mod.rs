//! Stored responses, shared by all workers: found, fetched once, bounded in bytes, purged.
//!
//! A hit takes one read lock of one shard and allocates nothing. What is decided here is where responses are and for how long they stay;
//! whether one may be used is decided in `rules`.

mod lookup;
mod fetch;
mod table;
mod pending;
mod purge;
mod slot;
mod stored;
mod body;
mod memory;
mod counters;
mod key;

#[cfg(test)]
mod tests;

pub use body::{BodyFailed, BodyReader, BodyStopped, CacheBody, FileBodyId, READ_WINDOW_BYTES};
pub use counters::{EvictionReason, StoreSize};
pub use fetch::{BodyWriter, FetchTicket, Storing};
pub use key::{CacheKey, KeyPartition, KeySecret, key_text};
pub(crate) use key::{KnownPartitions, SlotHasherBuilder, SlotKey};
pub use lookup::{FetchSlot, Found, Join, Store};
pub use memory::{BodyMemory, KeptBytes};
pub use pending::{FetchOutcome, FetchWait};
pub use purge::{PurgeMode, PurgeScope};
pub(crate) use stored::tags_of;
pub use stored::{NewResponse, StoredResponse};
pub use table::StoreLimits;
