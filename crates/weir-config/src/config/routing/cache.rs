//! `[cache.NAME]` and `cache` of a route: which responses are stored, where, and for how long.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::config::RouteFault;
use crate::config::{Checked, CheckedParts, FoundFaults};
use crate::value::{HeaderName, Size, StatusRange, Template, WhenCondition};

/// A store of responses.
pub type CacheStore = Checked<CacheStoreParts>;

/// What makes up a [`CacheStore`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStoreParts {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// Bytes of memory for all that is stored.
    pub memory: u64,
    /// Bytes of the largest response.
    pub response_max: u64,
    /// Files behind the memory.
    pub disk: Option<CacheDisk>,
}

impl CacheStoreParts {
    /// Those of a store in memory alone.
    pub fn new(name: &str, memory: u64, response_max: u64) -> Self {
        Self { name: name.into(), memory, response_max, disk: None }
    }
}

impl CheckedParts for CacheStoreParts {
    fn place(&self) -> String {
        format!("cache `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        let (response, memory) = (Size::from_bytes(self.response_max), Size::from_bytes(self.memory));
        if response > memory {
            faults.add(RouteFault::ResponseAboveMemory { response, memory });
        }
    }
}

/// The files of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheDisk {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of all files together.
    pub size: u64,
}

/// Which responses of a route are stored, and how they are used again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteCache {
    /// Where.
    pub store: Arc<CacheStore>,
    /// What is one response: requests for which this comes to the same text.
    pub key: Template,
    /// Under which name routes have their responses in common; `None`: those of the route are for its own requests.
    pub share: Option<Box<str>>,
    /// What keeps its responses apart from those of other routes, for each target of a split.
    pub partitions: Box<[PartitionName]>,
    /// How long responses are fresh, by their status; the first entry that is for a status counts.
    pub ttl: Vec<CacheTtl>,
    /// Whether `ttl` counts even for responses that say something else.
    pub override_ttl: bool,
    /// How long a stale response is used while a new one is fetched.
    pub stale_while_revalidate: Option<Duration>,
    /// How long a stale response is used when there is no other.
    pub stale_if_error: Option<Duration>,
    /// The statuses of servers that are failures: a stale response is used in place of them.
    pub stale_if_error_status: Vec<StatusRange>,
    /// How long requests wait for a response that one of them fetches.
    pub wait: Option<Duration>,
    /// Requests for which one of these comes to something have nothing to do with the cache.
    pub bypass: Vec<Template>,
    /// Only requests for which it holds have to do with the cache.
    pub when: Option<WhenCondition>,
    /// Requests for which it holds have what is stored confirmed or fetched anew.
    pub refresh_when: Option<WhenCondition>,
    /// Only responses for which it holds are stored.
    pub store_when: Option<WhenCondition>,
    /// Whether responses that set cookies are stored, without them.
    pub ignore_set_cookie: bool,
    /// Fields of `Vary` that make no variants.
    pub ignore_vary: Vec<IgnoredVaryField>,
    /// Whether a HEAD for what is not stored has the server asked by GET, and the response stored.
    pub convert_head: bool,
    /// Whether `Cache-Control` of requests counts.
    pub obey_clients: bool,
}

/// The key of routes that name none.
pub(crate) const USUAL_KEY: &str = "{scheme}://{authority}{path}{query}";

impl RouteCache {
    /// What may not hold of it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = RouteFault> {
        cache_faults(&self.key, self.override_ttl && self.ttl.is_empty())
    }

    /// Whether the key is the URL of the request.
    pub fn has_usual_key(&self) -> bool {
        self.key.to_string() == USUAL_KEY
    }

    /// Whether a stale response is used in place of one with this status.
    pub fn is_failure(&self, status: u16) -> bool {
        self.stale_if_error_status.iter().any(|range| range.contains(status))
    }

    /// The texts with placeholders.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.bypass.iter().chain([&self.key])
    }
}

/// What may not hold of a cache of a route with this key; `overrides_nothing`: its `override_ttl` has no `ttl`.
pub(crate) fn cache_faults(key: &Template, overrides_nothing: bool) -> impl Iterator<Item = RouteFault> {
    let is_constant = key.values().next().is_none();
    let constant = is_constant.then_some(RouteFault::SameResponseForAll);
    constant.into_iter().chain(overrides_nothing.then_some(RouteFault::OverrideWithoutTtl))
}

/// A field that `Vary` may name without making variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IgnoredVaryField {
    /// This one.
    Named(HeaderName),
    /// All others but those of credentials.
    Others,
}

impl IgnoredVaryField {
    /// As it is written.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Others => "*",
        }
    }
}

/// A digest of what has chosen a response, as far as its key does not say that: routes with the same one have their responses in common. It is the same
/// in every process, since files of a cache outlive one.
pub type PartitionName = [u8; 16];

/// How long responses with some statuses are fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheTtl {
    /// The statuses.
    pub status: Vec<StatusRange>,
    /// The time.
    pub time: Duration,
}
