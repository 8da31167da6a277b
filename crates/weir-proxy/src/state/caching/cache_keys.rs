//! What keys of a cache have beside their text: what keeps responses apart that one URL has by several ways, and where all of them are.
//!
//! Made of the config alone. Must not look at stored responses.

use std::sync::Arc;
use weir_cache::store::KeyPartition;
use weir_sort::CompactSort as _;

use weir_config::{
    Config, ErrorPage, Listener, PartitionName, Route, RouteAction, RouteCache, SplitTarget, TemplateValue,
    trail_name,
};

/// What tells requests of one route apart that their keys do not, since it is said by the connection, or believed of some peers alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestClass {
    /// Whether the client is authenticated: by the route, or by a certificate.
    pub(crate) is_proven: bool,
    /// What a trusted proxy says of the connection of its client.
    pub(crate) forwarded: ForwardedProto,
}

/// `X-Forwarded-Proto` as the server gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ForwardedProto {
    /// The peer is none of the trusted proxies: it is that of its own connection, which the key has.
    Own = 0,
    /// The proxy does not say.
    Unsaid = 1,
    Http = 2,
    Https = 3,
    Other = 4,
}

impl RequestClass {
    pub(crate) const fn number(self) -> u8 {
        self.is_proven as u8 | (self.forwarded as u8) << 1
    }
}

/// Fields that servers get with other values for each request, of which the request of the client says nothing: what depends on them has no variants.
/// What the key has, or the listener decides, is the same for all requests that find a response.
pub(in crate::state) fn fields_written_for(
    route: &Route,
    config: &RouteCache,
) -> impl Iterator<Item = Box<str>> {
    let is_leaf_known = |value: &TemplateValue| {
        let is_of_partition = matches!(value, TemplateValue::Scheme | TemplateValue::Listener);
        is_of_partition || config.key.values().any(|known| known == value)
    };
    let is_known =
        move |value: &TemplateValue| is_leaf_known(value) || value.leaves().iter().all(is_leaf_known);
    let changes = &route.request_headers;
    let with_values = changes.set.iter().chain(&changes.add);
    let with_values = with_values.filter(move |(_, template)| !template.values().all(is_known));
    let given = route.access.iter().filter_map(|access| access.forward.as_ref());
    let given = given.flat_map(|forward| &forward.response_headers);
    let of_rules = changes.rules.iter().filter(|rule| rule.when.is_some());
    let of_rules = of_rules.flat_map(|rule| rule.remove.iter().chain(rule.given().map(|(name, _)| name)));
    let names: Vec<Box<str>> = with_values
        .map(|(name, _)| name)
        .chain(of_rules)
        .chain(given)
        .map(|name| name.to_ascii_lowercase().into())
        .collect();
    names.into_iter()
}

/// The partition of the requests of a route whose headers these rules change, of those that depend on the request: a bit for each.
pub(in crate::state) fn under_rules(mut name: PartitionName, applied: u8) -> PartitionName {
    if let Some(last) = name.last_mut() {
        *last ^= applied;
    }
    name
}

/// The partition of requests that have come by way of other routes, in this order.
pub(in crate::state) fn by_way_of(
    mut name: PartitionName,
    trail: impl Iterator<Item = PartitionName>,
) -> PartitionName {
    for other in trail {
        name.rotate_left(1);
        name.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    }
    name
}

/// By what requests are told apart that have left a route of the listener, if it stores anything and they can leave one.
pub(in crate::state) fn trail_names(config: &Listener) -> Box<[Option<PartitionName>]> {
    let leaves = |route: &Arc<Route>| {
        let goes_on = |page: &ErrorPage| page.then.is_some();
        let has_fallback = matches!(&route.action, RouteAction::Files(files) if files.fallback.is_some());
        has_fallback || route.error_pages.iter().any(goes_on)
    };
    let stores = config.routes.iter().any(|route| route.cache.is_some());
    if !stores || !(config.looks_up_apart() || config.routes.iter().any(leaves)) {
        return Box::default();
    }
    config.routes.iter().map(|route| trail_name(&config.name, route)).collect()
}

/// How many of its rules change the headers of a request by what the request is.
fn rules_by_request(route: &Route, target: Option<&SplitTarget>) -> usize {
    let own = target.and_then(|target| target.settings.as_ref());
    let headers = own.map_or(&route.request_headers, |own| &own.request_headers);
    headers.rules_by_request().count()
}

/// What is stored under one text of a key: by listener and upstream, so that a change to what a URL means is seen wherever it may be stored.
#[derive(Debug, Default)]
pub(crate) struct CachePartitions(Vec<CachePartition>);

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CachePartition {
    cache: usize,
    listener: usize,
    upstream: Option<usize>,
    name: PartitionName,
}

impl CachePartitions {
    pub(in crate::state) fn new(config: &Config) -> Self {
        let mut all = Vec::new();
        for (listener, route) in config
            .listeners
            .iter()
            .enumerate()
            .flat_map(|(index, listener)| listener.routes.iter().map(move |route| (index, route)))
        {
            let Some(used) = route.cache.as_deref() else { continue };
            let Some(cache) = config.caches.iter().position(|one| one.name == used.store.name) else {
                continue;
            };
            let targets: Vec<Option<usize>> = match &route.action {
                RouteAction::Split(targets) => {
                    targets.iter().map(|target| target.upstream().map(|upstream| upstream.0)).collect()
                }
                other => vec![other.upstreams().next().map(|upstream| upstream.0)],
            };
            let named = targets.into_iter().zip(used.partitions.iter().copied());
            for (place, (upstream, name)) in named.enumerate() {
                let target = match &route.action {
                    RouteAction::Split(targets) => targets.get(place),
                    _ => None,
                };
                let rules = rules_by_request(route, target);
                let names = (0..1_u8 << rules).map(|applied| under_rules(name, applied));
                all.extend(names.map(|name| CachePartition { cache, listener, upstream, name }));
            }
        }
        all.sort_unstable();
        all.dedup();
        Self(all)
    }

    /// All keys with a text that may have a response of this upstream, or one by this listener, in a cache.
    pub(crate) fn keys(
        &self,
        text: &[u8],
        cache: usize,
        (listener, upstream): (usize, usize),
    ) -> Vec<Vec<u8>> {
        let concerns = |one: &&CachePartition| {
            one.cache == cache && (one.listener == listener || one.upstream == Some(upstream))
        };
        let mut names: Vec<PartitionName> = self.0.iter().filter(concerns).map(|one| one.name).collect();
        names.sort_compact();
        names.dedup();
        let classes = 0..KeyPartition::CLASSES;
        let keys = names.iter().flat_map(|name| classes.clone().map(|class| KeyPartition::new(*name, class)));
        let keys = keys.map(|partition| {
            let mut key = text.to_vec();
            partition.end(&mut key);
            key
        });
        keys.collect()
    }
}
