//! A configuration that cannot be applied for the sake of one owner: its listeners stay as they were last, and those of all others go on.
//!
//! One process may serve the Gateways of many tenants, and one Gateway the sets of listeners of many. What one of them writes must not keep the
//! changes of the others from taking effect, so a refusal is told to its cause alone: one port of one Gateway.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use weir_config::{
    Config, Listener, Route, RouteAction, RouteSettings, SplitAction, TokenKeys, Upstream, UpstreamIndex,
};
use weir_sort::CompactSort as _;

use crate::refusal::checked_route;
use crate::store::ObjectKey;

/// What the listeners of a configuration belong to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ListenerOwner {
    /// One port of a Gateway, with its own listeners there and those of its sets.
    GatewayPort(ObjectKey, u16),
    /// All Ingresses, which share their listeners.
    Ingresses,
}

impl ListenerOwner {
    /// The owner of a listener with this name: `NAMESPACE.GATEWAY.PORT`, where a namespace has no dot, or that of Ingresses.
    pub fn of_name(listener: &str) -> Self {
        let gateway = listener.split_once('.').and_then(|(namespace, rest)| {
            let (name, port) = rest.rsplit_once('.')?;
            Some(Self::GatewayPort(ObjectKey::new(namespace, name), port.parse().ok()?))
        });
        gateway.unwrap_or(Self::Ingresses)
    }

    fn gateway(&self) -> Option<&ObjectKey> {
        match self {
            Self::GatewayPort(gateway, _) => Some(gateway),
            Self::Ingresses => None,
        }
    }

    fn new(listener: &Listener) -> Self {
        Self::of_name(&listener.name)
    }
}

impl fmt::Display for ListenerOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GatewayPort(key, port) => write!(f, "Gateway {key}, port {port}"),
            Self::Ingresses => f.write_str("Ingresses"),
        }
    }
}

/// Why a configuration, or the part of one owner, is not in use.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Of everything.
    pub whole: Option<Box<str>>,
    /// Of these owners alone.
    pub held_back: BTreeMap<ListenerOwner, Box<str>>,
}

impl Refusals {
    /// That of a port of a Gateway.
    pub(crate) fn of_port(&self, gateway: &ObjectKey, port: u16) -> Option<&str> {
        let own = || self.held_back.get(&ListenerOwner::GatewayPort(gateway.clone(), port));
        match &self.whole {
            Some(whole) => Some(whole),
            None if self.held_back.is_empty() => None,
            None => own().map(|why| &**why),
        }
    }
}

/// The owners with a listener that the last configuration does not have.
pub fn changed_owners(config: &Config, last: Option<&Config>) -> Vec<ListenerOwner> {
    let is_known = |listener: &&Arc<Listener>| {
        last.is_some_and(|last| last.listeners.iter().any(|known| Arc::ptr_eq(known, listener)))
    };
    let mut owners: Vec<ListenerOwner> = (config.listeners.iter())
        .filter(|listener| !is_known(listener))
        .map(|listener| ListenerOwner::new(listener))
        .collect();
    owners.sort_compact();
    owners.dedup();
    owners
}

/// Whether an owner has the same listeners in both.
pub fn has_same_listeners(owner: &ListenerOwner, one: &Config, other: &Config) -> bool {
    let of = |config: &'_ Config| -> Vec<Arc<Listener>> {
        let own = config.listeners.iter().filter(|listener| ListenerOwner::new(listener) == *owner);
        own.cloned().collect()
    };
    let (one, other) = (of(one), of(other));
    one.len() == other.len() && one.iter().zip(&other).all(|(one, other)| Arc::ptr_eq(one, other))
}

/// A configuration in which the listeners of some owners are those of the last one; without a last one, they have none.
///
/// The upstreams keep their places; behind them are those that only the last configuration has. An upstream of both is the new one, since it
/// belongs to a Service and not to the owner that is held back. While a new port of a Gateway is held back, ports that it gives up stay: it may
/// have moved. A port `of_sets`, which has listeners of sets alone, keeps none of others.
pub fn hold_back(
    config: &Config,
    last: Option<&Config>,
    of_sets: &BTreeSet<Box<str>>,
    is_held: impl Fn(&ListenerOwner) -> bool,
) -> Config {
    let is_held = |listener: &Listener| is_held(&ListenerOwner::new(listener));
    let mut made = config.to_parts();
    made.listeners.retain(|listener| !is_held(listener));
    let Some(last) = last else { return Config::from_parts(made).unwrap_or_else(|_| config.clone()) };
    let mut places = UpstreamPlaces::new(std::mem::take(&mut made.upstreams), &last.upstreams);
    let has = |config: &Config, name: &str| config.listeners.iter().any(|known| *known.name == *name);
    let moving: Vec<ListenerOwner> = (config.listeners.iter())
        .filter(|new| is_held(new) && !of_sets.contains(&new.name) && !has(last, &new.name))
        .map(|new| ListenerOwner::new(new))
        .collect();
    let stays = |listener: &Listener| {
        let owner = ListenerOwner::new(listener);
        let moves = || owner.gateway().is_some() && moving.iter().any(|one| one.gateway() == owner.gateway());
        is_held(listener) || moves() && !has(config, &listener.name)
    };
    for listener in last.listeners.iter().filter(|listener| stays(listener)) {
        made.listeners.push(places.moved_listener(listener));
        if ListenerOwner::new(listener) == ListenerOwner::Ingresses {
            made.lists.clone_from(&last.lists);
            made.limits.clone_from(&last.limits);
        }
    }
    made.upstreams = places.upstreams;
    made.listeners.sort_compact_by(|one, other| one.name.cmp(&other.name));
    // Where upstreams have other places, all else holds as it did.
    Config::from_parts(made).unwrap_or_else(|_| last.clone())
}

/// The places of upstreams in a configuration, for routes that name those of another one.
struct UpstreamPlaces<'a> {
    upstreams: Vec<Arc<Upstream>>,
    by_name: HashMap<Box<str>, usize>,
    last: &'a [Arc<Upstream>],
}

impl<'a> UpstreamPlaces<'a> {
    fn new(upstreams: Vec<Arc<Upstream>>, last: &'a [Arc<Upstream>]) -> Self {
        let by_name =
            upstreams.iter().enumerate().map(|(place, upstream)| (upstream.name.clone(), place)).collect();
        Self { upstreams, by_name, last }
    }

    /// The place of an upstream of the other configuration.
    fn place(&mut self, index: UpstreamIndex) -> UpstreamIndex {
        let upstream = &self.last[index.0];
        if let Some(place) = self.by_name.get(&upstream.name) {
            return UpstreamIndex(*place);
        }
        let place = self.upstreams.len();
        self.by_name.insert(upstream.name.clone(), place);
        self.upstreams.push(Arc::clone(upstream));
        UpstreamIndex(place)
    }

    /// The same listener if nothing in it has another place.
    fn moved_listener(&mut self, listener: &Arc<Listener>) -> Arc<Listener> {
        let routes: Vec<Arc<Route>> = listener.routes.iter().map(|route| self.moved_route(route)).collect();
        if routes.iter().zip(&listener.routes).all(|(one, other)| Arc::ptr_eq(one, other)) {
            return Arc::clone(listener);
        }
        let mut parts = listener.to_parts();
        parts.routes = routes;
        Listener::from_parts(parts).map_or_else(|_| Arc::clone(listener), Arc::new)
    }

    fn moved_route(&mut self, route: &Arc<Route>) -> Arc<Route> {
        let mut moved = route.to_parts();
        match &mut moved.action {
            RouteAction::Upstream(index) => *index = self.place(*index),
            RouteAction::Split(targets) => {
                for target in targets {
                    if let SplitAction::Upstream(index) = &mut target.to {
                        *index = self.place(*index);
                    }
                    target.settings.iter_mut().for_each(|settings| self.move_settings(settings));
                }
            }
            RouteAction::Files(files) => {
                files.otherwise = files.otherwise.map(|index| self.place(index));
            }
            RouteAction::Redirect(_) | RouteAction::Respond(_) | RouteAction::Then(_) => {}
        }
        self.move_settings(&mut moved.settings);
        if moved == ***route {
            return Arc::clone(route);
        }
        checked_route(moved, &mut Vec::new())
    }

    fn move_settings(&mut self, settings: &mut Arc<RouteSettings>) {
        let names_none = settings.mirrors.is_empty()
            && settings.limited_by.is_empty()
            && settings.access.is_none()
            && settings.error_pages.iter().all(|page| page.remote.is_none());
        if names_none {
            return;
        }
        let settings = Arc::make_mut(settings);
        for mirror in &mut settings.mirrors {
            mirror.upstream = self.place(mirror.upstream);
        }
        for used in &mut settings.limited_by {
            used.upstream = used.upstream.map(|index| self.place(index));
        }
        for remote in settings.error_pages.iter_mut().filter_map(|page| page.remote.as_mut()) {
            remote.upstream = self.place(remote.upstream);
        }
        let Some(access) = &mut settings.access else { return };
        if let Some(forward) = &mut access.forward {
            forward.upstream = self.place(forward.upstream);
        }
        if let Some(jwt) = &mut access.jwt
            && let TokenKeys::Remote(keys) = &mut jwt.keys
        {
            keys.upstream = self.place(keys.upstream);
        }
    }
}
