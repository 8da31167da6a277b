//! Connections per client: a bounded table of counts.
//!
//! Sharded, so that workers that accept at the same moment rarely meet on one lock. Asked once per connection, not per request.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ClientKey;
use crate::hash::mix;

/// Shards of the table: many more than workers that accept at the same moment.
const SHARDS: usize = 64;

/// How many connections each client has.
#[derive(Debug)]
pub struct AddressGauge {
    shards: Box<[Mutex<Shard>]>,
    /// Mixed into every key, so that nobody can choose addresses that fall into one shard.
    seed: u64,
    clients_per_shard_max: usize,
}

/// The keys are mixed already.
type Shard = HashMap<u64, u32, BuildHasherDefault<MixedHasher>>;

/// Why a client gets no further connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// It has as many as it may.
    ClientFull,
    /// The table has no room for one more client.
    TableFull,
}

impl AddressGauge {
    /// A table for about `clients_max` clients with at least one connection. A client is only in the table while it has one, so the
    /// limit of connections of the process is enough. `seed` is 64 random bits.
    pub fn new(clients_max: usize, seed: u64) -> AddressGauge {
        // Clients do not spread evenly over the shards: leave each half as much room again, and some.
        let clients_per_shard_max = clients_max.div_ceil(SHARDS) * 3 / 2 + 16;
        AddressGauge { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), seed, clients_per_shard_max }
    }

    /// Counts one more connection of `client`, of which it may have `count_max`.
    ///
    /// # Errors
    /// When the client or the table is full; then nothing was counted.
    pub fn try_acquire(&self, client: ClientKey, count_max: u32) -> Result<(), Refusal> {
        let key = self.mixed(client);
        let mut shard = self.shard(key);
        let clients = shard.len();
        match shard.get_mut(&key) {
            Some(count) if *count >= count_max => Err(Refusal::ClientFull),
            Some(count) => {
                *count += 1;
                Ok(())
            }
            None if count_max == 0 => Err(Refusal::ClientFull),
            None if clients >= self.clients_per_shard_max => Err(Refusal::TableFull),
            None => {
                shard.insert(key, 1);
                Ok(())
            }
        }
    }

    /// Takes away a connection of `client` that was counted.
    pub fn release(&self, client: ClientKey) {
        let key = self.mixed(client);
        let mut shard = self.shard(key);
        match shard.get_mut(&key) {
            Some(1) => {
                shard.remove(&key);
            }
            Some(count) => *count -= 1,
            None => debug_assert!(false, "released more than was acquired"),
        }
    }

    /// How many connections `client` has.
    pub fn count(&self, client: ClientKey) -> u32 {
        let key = self.mixed(client);
        self.shard(key).get(&key).copied().unwrap_or(0)
    }

    /// How many clients have a connection.
    pub fn clients(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    fn mixed(&self, client: ClientKey) -> u64 {
        mix(client.0 ^ self.seed)
    }

    fn shard(&self, key: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[(key >> 58) as usize])
    }
}

/// The table is consistent after every step, so a panic elsewhere while it was locked spoils nothing.
fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct MixedHasher(u64);

impl std::hash::Hasher for MixedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        self.0 = key;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
