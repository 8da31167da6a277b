//! Limits on open connections: of the process or a listener, and of one client.
//!
//! Asked once per connection, not per request. The table of clients is bounded and sharded, so that workers
//! that accept at the same moment rarely meet on one lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::ClientKey;
use crate::hash::mix;

/// How many connections a process or a listener has, and how many it may have.
#[derive(Debug)]
#[repr(align(128))]
pub struct ConnectionCount {
    count: AtomicU32,
    count_max: AtomicU32,
}

impl ConnectionCount {
    /// No connections yet, of at most `count_max`.
    pub fn new(count_max: u32) -> ConnectionCount {
        ConnectionCount { count: AtomicU32::new(0), count_max: AtomicU32::new(count_max) }
    }

    /// Adds one if there is room. The bound is never exceeded, however many threads call at once.
    #[must_use = "what was taken has to be released"]
    pub fn try_acquire(&self) -> bool {
        let count_max = self.count_max.load(Ordering::Relaxed);
        let add = |count: u32| (count < count_max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Removes one that was added before.
    pub fn release(&self) {
        let released =
            self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
        debug_assert!(released.is_ok(), "released more than was acquired");
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// How many there may be.
    pub fn count_max(&self) -> u32 {
        self.count_max.load(Ordering::Relaxed)
    }

    /// Changes the bound. Connections already open above a lowered bound stay.
    pub fn set_count_max(&self, count_max: u32) {
        self.count_max.store(count_max, Ordering::Relaxed);
    }
}

/// Shards of the table: many more than workers that accept at the same moment.
const SHARDS: usize = 64;

/// How many connections each client has.
#[derive(Debug)]
pub struct ClientLimit {
    shards: Box<[Mutex<Shard>]>,
    /// Mixed into every key, so that clients cannot choose addresses that fall into one shard.
    seed: u64,
    clients_per_shard_max: usize,
    count_max: AtomicU32,
}

/// The keys are mixed already.
type Shard = HashMap<u64, u32, BuildHasherDefault<MixedHasher>>;

/// Why a client gets no further connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClientLimitRefusal {
    /// It has as many as it may.
    ClientFull,
    /// The table has no room for one more client.
    TableFull,
}

impl ClientLimit {
    /// At most `count_max` connections for each of about `clients_max` clients. A client is in the table only
    /// while it has a connection, so the process's limit on connections is enough for `clients_max`. `seed`
    /// is 64 random bits.
    pub fn new(count_max: u32, clients_max: usize, seed: u64) -> ClientLimit {
        // Clients do not spread evenly over the shards: leave each half as much room again, and some.
        let clients_per_shard_max = clients_max.div_ceil(SHARDS) * 3 / 2 + 16;
        ClientLimit {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            seed,
            clients_per_shard_max,
            count_max: AtomicU32::new(count_max),
        }
    }

    /// Counts one more connection of `client`.
    ///
    /// # Errors
    /// When the client or the table is full; then nothing was counted.
    pub fn try_acquire(&self, client: ClientKey) -> Result<(), ClientLimitRefusal> {
        let count_max = self.count_max.load(Ordering::Relaxed);
        let key = self.mixed(client);
        let mut shard = self.shard(key);
        let clients = shard.len();
        match shard.get_mut(&key) {
            Some(count) if *count >= count_max => Err(ClientLimitRefusal::ClientFull),
            Some(count) => {
                *count += 1;
                Ok(())
            }
            None if count_max == 0 => Err(ClientLimitRefusal::ClientFull),
            None if clients >= self.clients_per_shard_max => Err(ClientLimitRefusal::TableFull),
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

    /// Changes how many connections a client may have. Connections already open above a lowered bound stay.
    pub fn set_count_max(&self, count_max: u32) {
        self.count_max.store(count_max, Ordering::Relaxed);
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

impl Hasher for MixedHasher {
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
