//! A table of counters that nodes share in a store, as the control plane exchanges it: what was counted here, and what all have counted.
//!
//! The data path does not come here: it asks the table, which takes over what the store says.

use std::sync::Arc;
use std::time::Duration;

use weir_config::LimitStore;
use weir_traffic::hash_bytes;
use weir_traffic::table::{SharedCounts, TableCounter, ToldCounts};

use crate::net::clock;
use crate::state::tables::table::{TablePlan, TableState};

/// A table in a store.
#[derive(Debug)]
pub struct SharedTable {
    /// What the names of its keys begin with: the prefix of the store, the table, and a hash of what makes its counts comparable.
    pub prefix: String,
    /// How long a key is kept that no node uses.
    pub expire: Duration,
    /// The periods of its counters in milliseconds, in their order; 0 of a sum.
    pub periods_ms: Vec<u64>,
    state: Arc<TableState>,
}

impl SharedTable {
    pub(in crate::state) fn new(table: &TablePlan, store: &LimitStore) -> Self {
        let definition = &table.config.definition;
        let shape = hash_bytes(format!("{} {:?}", table.shape(), definition.expire).as_bytes());
        let stored = definition.stored.iter().filter(|stored| stored.counter != TableCounter::ConnectionsNow);
        Self {
            prefix: format!("{}table:{}:{shape:016x}:", store.prefix, definition.name),
            expire: definition.expire,
            periods_ms: stored.map(|stored| stored.period_ms).collect(),
            state: table.state(),
        }
    }

    pub(in crate::state) fn is_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.state, &other.state) && self.prefix == other.prefix
    }

    /// The key of the hash function of keys.
    pub fn hash_key(&self) -> [u64; 2] {
        self.state.hasher.key()
    }

    /// Takes over that of the other nodes. What is in the table is forgotten.
    pub fn adopt(&self, hash_key: [u64; 2]) {
        self.state.counts.forget_all();
        self.state.hasher.set_key(hash_key);
    }

    /// What keys have, for the first exchange; from now on, counts are kept for the next one.
    pub fn begin(&self) -> Vec<ToldCounts> {
        self.state.counts.begin_sharing(self.state.millis(clock::now()))
    }

    /// The first exchange is over: all nodes have one table now, by way of this master where sentinels name it.
    pub fn is_shared(&self, master: Option<&str>) {
        self.state.sharing.begin(master);
    }

    /// What was counted since the last exchange.
    pub fn take(&self) -> Vec<ToldCounts> {
        self.state.counts.take_untold(self.state.millis(clock::now()))
    }

    /// What all nodes have counted; `None`: the store does not know the key.
    pub fn learn(&self, counts: impl ExactSizeIterator<Item = (u64, Option<SharedCounts>)>) {
        self.state.sharing.count(counts.len() as u64);
        let now_ms = self.state.millis(clock::now());
        counts.for_each(|(key, shared)| self.state.counts.learn(key, shared.as_ref(), now_ms));
    }

    /// Nothing is exchanged any more, for this reason: each node has its table for itself.
    pub(in crate::state) fn fail(&self, error: &str) {
        self.state.counts.stop_sharing();
        self.state.sharing.fail(error);
    }
}
