//! The limits, the affinities and the tables of counters that nodes share in one store, as the control plane exchanges them: what was used here, and what all have used.
//!
//! The data path does not come here: it asks the tables, which are raised by what the store says.

use std::sync::Arc;
use std::time::Duration;

use weir_config::LimitStore;
use weir_traffic::hash_bytes;
use weir_traffic::limit::{KeyUse, RateLimit, SharedDebt, TokenRate};

use super::shared_table::SharedTable;
use crate::net::clock::{self, Instant};
use crate::state::limits::affinity_sharing::AffinitySharing;
use crate::state::limits::limit::{LimitPlan, LimitTable};
use crate::state::tables::table::TablePlan;

/// A store, and the limits in it.
#[derive(Debug)]
pub struct LimitStorePlan {
    /// The store in the config.
    pub config: Arc<LimitStore>,
    /// The limits that name it.
    pub limits: Vec<SharedLimit>,
    /// The affinities that name it.
    pub affinities: Vec<SharedAffinity>,
    /// The tables of counters that name it.
    pub tables: Vec<SharedTable>,
}

/// The affinity of an upstream, in a store.
#[derive(Debug, Clone)]
pub struct SharedAffinity {
    /// What the names of its keys begin with.
    pub prefix: String,
    /// How long a key is kept that no node uses.
    pub expire: Duration,
    /// What workers have for the store.
    pub sharing: Arc<AffinitySharing>,
}

/// A limit in a store.
#[derive(Debug)]
pub struct SharedLimit {
    /// Its rate.
    pub tokens: TokenRate,
    /// Whether what is beyond the burst is not counted.
    pub is_capped: bool,
    /// What the names of its keys begin with: the prefix of the store, the limit, and a hash of what makes its debts comparable.
    pub prefix: String,
    table: Arc<LimitTable>,
}

/// The stores of these limits and affinities; the plan of one whose tables are the same stays the same, and with it the connection.
pub(in crate::state) fn plans(
    (limits, tables): (&[Arc<LimitPlan>], &[Arc<TablePlan>]),
    affinities: Vec<(Arc<LimitStore>, SharedAffinity)>,
    before: &[Arc<LimitStorePlan>],
) -> Vec<Arc<LimitStorePlan>> {
    let mut plans: Vec<LimitStorePlan> = Vec::new();
    for limit in limits {
        let (Some(store), Some(rate)) = (&limit.config.shared, limit.config.rate) else { continue };
        let shape = hash_bytes(format!("{} {:?}", limit.shape(), limit.config.count_status).as_bytes());
        let shared = SharedLimit {
            tokens: rate.tokens,
            is_capped: limit.config.counts_responses(),
            prefix: format!("{}{}:{shape:016x}:", store.prefix, limit.config.name),
            table: limit.table(),
        };
        plan_of(&mut plans, store).limits.push(shared);
    }
    for (store, shared) in affinities {
        plan_of(&mut plans, &store).affinities.push(shared);
    }
    for table in tables {
        if let Some(store) = &table.config.shared {
            plan_of(&mut plans, store).tables.push(SharedTable::new(table, store));
        }
    }
    let kept = |plan: LimitStorePlan| {
        before.iter().find(|known| known.is_as(&plan)).map_or_else(|| Arc::new(plan), Arc::clone)
    };
    plans.into_iter().map(kept).collect()
}

/// The plan of this store among them.
fn plan_of<'a>(plans: &'a mut Vec<LimitStorePlan>, store: &Arc<LimitStore>) -> &'a mut LimitStorePlan {
    let known = plans.iter().position(|plan| plan.config == *store);
    let at = known.unwrap_or_else(|| {
        let config = Arc::clone(store);
        plans.push(LimitStorePlan { config, limits: Vec::new(), affinities: Vec::new(), tables: Vec::new() });
        plans.len() - 1
    });
    &mut plans[at]
}

impl LimitStorePlan {
    fn is_as(&self, other: &LimitStorePlan) -> bool {
        let same = |(one, other): (&SharedLimit, &SharedLimit)| {
            Arc::ptr_eq(&one.table, &other.table) && one.prefix == other.prefix
        };
        let same_affinity = |(one, other): (&SharedAffinity, &SharedAffinity)| {
            Arc::ptr_eq(&one.sharing, &other.sharing)
                && one.prefix == other.prefix
                && one.expire == other.expire
        };
        self.config == other.config
            && self.limits.len() == other.limits.len()
            && self.limits.iter().zip(&other.limits).all(same)
            && self.affinities.len() == other.affinities.len()
            && self.affinities.iter().zip(&other.affinities).all(same_affinity)
            && self.tables.len() == other.tables.len()
            && self.tables.iter().zip(&other.tables).all(|(one, other)| one.is_as(other))
    }

    /// Nothing is exchanged any more, for this reason: each node has its limits and tables for itself.
    pub fn fail(&self, error: &str) {
        for limit in &self.limits {
            limit.rate().stop_sharing();
            limit.table.sharing.fail(error);
        }
        self.tables.iter().for_each(|table| table.fail(error));
    }
}

impl SharedLimit {
    fn rate(&self) -> &RateLimit {
        self.table.rate.as_ref().expect("a limit without a rate is not shared")
    }

    fn nanos(&self, at: Instant) -> u64 {
        at.nanos_since(self.table.epoch)
    }

    /// The key of the hash function of keys.
    pub fn hash_key(&self) -> [u64; 2] {
        self.table.hasher.key()
    }

    /// Takes over that of the other nodes. What is in the table is forgotten.
    pub fn adopt(&self, hash_key: [u64; 2]) {
        self.rate().forget_all();
        self.table.hasher.set_key(hash_key);
    }

    /// What keys owe, for the first exchange; from now on, uses are kept for the next one.
    pub fn begin(&self) -> Vec<KeyUse> {
        self.rate().begin_sharing(self.nanos(clock::now()))
    }

    /// The first exchange is over: all nodes have one limit now, by way of this master where sentinels name it.
    pub fn is_shared(&self, master: Option<&str>) {
        self.table.sharing.begin(master);
    }

    /// What was used since the last exchange.
    pub fn take(&self) -> Vec<KeyUse> {
        self.rate().take_untold(self.nanos(clock::now()))
    }

    /// What all nodes have used, as asked for at this time.
    pub fn learn(&self, debts: impl ExactSizeIterator<Item = SharedDebt>, asked: Instant) {
        let (asked_ns, now_ns) = (self.nanos(asked), self.nanos(clock::now()));
        self.table.sharing.count(debts.len() as u64);
        debts.for_each(|debt| self.rate().learn(debt, asked_ns, now_ns));
    }
}
