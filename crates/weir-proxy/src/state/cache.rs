//! A cache in the form the data path uses: the store that all workers share, its counters, and what a route makes of it.
//!
//! The store goes on over reloads under the name of the cache, as long as its limits stay the same.

use std::sync::Arc;
use std::time::Duration;

use weir_cache::CacheTime;
use weir_cache::rules::{ClientRules, StatusTtl, StoreRules};
use weir_cache::store::{EvictionReason, KeySecret, PurgeMode, PurgeScope, Store, StoreLimits};
use weir_config::{CacheStore, RouteCache};
use weir_observe::prometheus::CacheHoldings;
use weir_observe::{CacheShard, PerWorker};

use crate::net::clock;

/// A cache.
#[derive(Debug)]
pub struct CachePlan {
    /// The cache in the config.
    pub config: Arc<CacheStore>,
    /// What goes on in the next config.
    pub state: Arc<CacheState>,
}

/// What a cache keeps over reloads.
#[derive(Debug)]
pub struct CacheState {
    /// The responses.
    pub store: Store,
    /// What each worker counts.
    pub shards: PerWorker<CacheShard>,
}

impl CachePlan {
    /// `before`: the cache of this name in the config of before.
    pub(super) fn new(config: &Arc<CacheStore>, workers: usize, before: Option<&CachePlan>) -> Self {
        let limits = StoreLimits { memory_max: config.memory, object_max: config.response_max };
        let kept = before.filter(|before| before.state.store.limits() == limits);
        let state = kept.map_or_else(
            || Arc::new(CacheState { store: Store::new(limits, secret()), shards: PerWorker::new(workers) }),
            |before| Arc::clone(&before.state),
        );
        Self { config: Arc::clone(config), state }
    }
}

impl CachePlan {
    /// What it holds now.
    pub fn holds(&self) -> CacheHoldings {
        let size = self.state.store.size();
        let evictions = EvictionReason::ALL.iter().map(|reason| reason.as_str()).zip(size.evictions);
        CacheHoldings {
            responses: size.objects,
            memory_bytes: size.bytes,
            memory_bytes_max: self.config.memory,
            evictions: evictions.collect(),
        }
    }

    /// Removes responses, or marks them stale; how many.
    pub fn purge(&self, purge: Purge<'_>) -> usize {
        let scope = match purge.part {
            PurgedPart::All => PurgeScope::All,
            PurgedPart::Key(key) => PurgeScope::Key(key),
            PurgedPart::Prefix(prefix) => PurgeScope::Prefix(prefix),
            PurgedPart::Tag(tag) => PurgeScope::Tag(tag),
        };
        let mode = if purge.is_soft { PurgeMode::Soft } else { PurgeMode::Hard };
        self.state.store.purge(scope, mode, cache_now())
    }
}

/// Which responses are removed, or marked stale.
#[derive(Debug, Clone, Copy)]
pub struct Purge<'a> {
    /// Which.
    pub part: PurgedPart<'a>,
    /// Whether they are only marked.
    pub is_soft: bool,
}

/// A part of a cache.
#[derive(Debug, Clone, Copy)]
pub enum PurgedPart<'a> {
    /// Everything.
    All,
    /// The response of a key, in all variants.
    Key(&'a [u8]),
    /// Those whose keys begin so.
    Prefix(&'a [u8]),
    /// Those with a tag.
    Tag(&'a [u8]),
}

/// Keeps clients from choosing keys that share a place in the store.
fn secret() -> KeySecret {
    let mut secret = [0; 16];
    // Without random bytes keys are only easier to guess.
    aws_lc_rs::rand::fill(&mut secret).ok();
    KeySecret(secret)
}

/// What a route stores, and how it uses that again.
#[derive(Debug)]
pub(crate) struct RouteCachePlan {
    pub(crate) plan: Arc<CachePlan>,
    pub(crate) rules: StoreRules,
    pub(crate) client: ClientRules,
}

impl RouteCachePlan {
    pub(super) fn new(config: &RouteCache, plans: &[Arc<CachePlan>]) -> Option<Box<Self>> {
        let plan = plans.iter().find(|plan| plan.config.name == config.store.name)?;
        let ttls = config.ttl.iter().flat_map(|ttl| {
            ttl.status.iter().map(|range| StatusTtl {
                statuses: range.bounds().0..=range.bounds().1,
                ttl_ms: millis(ttl.time),
                overrides: config.override_ttl,
            })
        });
        let obeys = config.obey_clients;
        Some(Box::new(Self {
            plan: Arc::clone(plan),
            rules: StoreRules {
                ttls: ttls.collect(),
                stale_while_revalidate_ms: config.stale_while_revalidate.map_or(0, millis),
                stale_if_error_ms: config.stale_if_error.map_or(0, millis),
                ignores_set_cookie: config.ignore_set_cookie,
                obeys_request_no_store: obeys,
                ..StoreRules::default()
            },
            client: ClientRules { no_cache: obeys, ages: obeys },
        }))
    }

    pub(crate) fn store(&self) -> &Store {
        &self.plan.state.store
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The time that responses are stored by.
pub(crate) fn cache_now() -> CacheTime {
    CacheTime::from_millis(millis(clock::unix_now()))
}
