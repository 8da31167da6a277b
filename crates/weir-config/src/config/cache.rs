//! `[cache.NAME]` and `cache` of a route: which responses are stored, where, and for how long.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use weir_traffic::route::{PathMatch, RouteMatch};

use super::{Route, RouteAction, SplitTarget};
use crate::value::{StatusRange, Template, TemplateValue};

/// A store of responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheStore {
    /// The name in the config, in logs and in metrics.
    pub name: Box<str>,
    /// Bytes of memory for all that is stored.
    pub memory: u64,
    /// Bytes of the largest response.
    pub response_max: u64,
    /// Files behind the memory.
    pub disk: Option<CacheDisk>,
}

/// The files of a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheDisk {
    /// The folder.
    pub folder: PathBuf,
    /// Bytes of all files together.
    pub size: u64,
}

/// Which responses of a route are stored, and how they are used again.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// How long requests wait for a response that one of them fetches.
    pub wait: Option<Duration>,
    /// Requests for which one of these comes to something have nothing to do with the cache.
    pub bypass: Vec<Template>,
    /// Whether responses that set cookies are stored, without them.
    pub ignore_set_cookie: bool,
    /// Whether `Cache-Control` of requests counts.
    pub obey_clients: bool,
}

/// The key of routes that name none.
pub(crate) const USUAL_KEY: &str = "{scheme}://{authority}{path}{query}";

impl RouteCache {
    /// Whether the key is the URL of the request.
    pub fn has_usual_key(&self) -> bool {
        self.key.to_string() == USUAL_KEY
    }

    /// The texts with placeholders.
    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.bypass.iter().chain([&self.key])
    }
}

/// A digest of what has chosen a response, as far as its key does not say that: routes with the same one have their responses in common. It is the same
/// in every process, since files of a cache outlive one.
pub type PartitionName = [u8; 16];

/// What a route keeps its responses apart by, without regard to `share`, for each target of its split. `upstream` has the names of upstreams.
///
/// Not in it: what decides about a request before the cache is asked (lists, limits, proofs), and settings that only a reload changes.
pub(crate) fn own_partitions(
    listener: &str,
    route: &Route,
    cache: &RouteCache,
    upstream: impl Fn(usize) -> String,
) -> Vec<PartitionName> {
    let names = |wanted: &[TemplateValue]| cache.key.values().any(|value| wanted.contains(value));
    let RouteMatch { hosts, path, methods, headers, query, sources, priority: _ } = &*route.matches;
    let rules = RouteMatch {
        hosts: match names(&[TemplateValue::Host, TemplateValue::Authority]) {
            true => Vec::new(),
            false => hosts.clone(),
        },
        path: match names(&[TemplateValue::Path, TemplateValue::Target]) {
            true => PathMatch::ANY,
            false => path.clone(),
        },
        methods: methods.clone(),
        headers: headers.clone(),
        query: query.clone(),
        sources: sources.clone(),
        priority: 0,
    };
    let (rules, key) = (rules.to_string(), cache.key.to_string());
    let of = |target: &str, own: &str| digest(&["route", listener, &key, &rules, target, own]);
    let of_target = |target: &SplitTarget| {
        let own = target
            .settings
            .as_ref()
            .map(|own| format!("{:?} {:?} {:?}", own.request_headers, own.forward_host, own.rewrite));
        of(&target.upstream().map_or_else(String::new, |index| upstream(index.0)), &own.unwrap_or_default())
    };
    match &route.action {
        RouteAction::Split(targets) => targets.iter().map(of_target).collect(),
        other => vec![of(&other.upstreams().next().map_or_else(String::new, |index| upstream(index.0)), "")],
    }
}

/// The partitions of a route: those of its own, or the one that it shares.
pub(crate) fn partitions(cache: &RouteCache, own: Vec<PartitionName>) -> Box<[PartitionName]> {
    match &cache.share {
        Some(name) => vec![digest(&["share", name, &cache.key.to_string()]); own.len()].into(),
        None => own.into(),
    }
}

fn digest(texts: &[&str]) -> PartitionName {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    }
    let whole: [u8; 32] = hash.finalize().into();
    std::array::from_fn(|index| whole[index])
}

/// How long responses with some statuses are fresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheTtl {
    /// The statuses.
    pub status: Vec<StatusRange>,
    /// The time.
    pub time: Duration,
}
