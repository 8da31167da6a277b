//! The names of listeners, routes, upstreams and servers in earlier configs: entries of the recorder hold numbers only.
//!
//! For reports; workers never read it. An entry keeps no config alive.

use std::cell::LazyCell;
use std::collections::{HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_config::{Listener, Route, ServerAddress, Upstream, shown_conditions};
use weir_http::EncodedSlashRule;

use super::shared_runs::SharedRuns;
use weir_proxy::state::snapshot::{ListenerPlan, LiveSource, RoutePlan, Snapshot, UpstreamPlan};
use weir_proxy::state::tracing::recorder::RecordedPlace;

/// Configs whose names are kept; unchanged parts are kept once.
const GENERATIONS_MAX: usize = 128;

/// The names of one config.
#[derive(Debug, Clone)]
pub(crate) struct GenerationNames {
    pub(crate) generation: u64,
    listeners: Vec<Arc<KnownListener>>,
    upstreams: SharedRuns<KnownUpstream>,
    rules: Arc<[Box<str>]>,
}

#[derive(Debug)]
pub(crate) struct KnownListener {
    pub(crate) name: Box<str>,
    /// How the listener treats an encoded slash in a path.
    pub(crate) encoded_slash: EncodedSlashRule,
    routes: SharedRuns<KnownRoute>,
    /// The config that they were read from: as long as that is the same, so are they.
    config: Weak<Listener>,
}

#[derive(Debug)]
pub(crate) struct KnownUpstream {
    pub(crate) name: Box<str>,
    /// How it chooses.
    pub(crate) balance: &'static str,
    /// Whether its servers are spoken to with TLS.
    pub(crate) is_tls: bool,
    /// What names its servers, where the config does not.
    pub(crate) source: Option<Arc<LiveSource>>,
    places: Vec<ServerPlace>,
    config: Weak<Upstream>,
}

/// Servers that had a place of an upstream one after the other, the newest last, each with the first snapshot in which it had it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ServerPlace(Vec<(u64, KnownServer)>);

/// Servers of one place whose names are kept.
const NAMES_OF_PLACE_MAX: usize = 4;

impl ServerPlace {
    /// The server that had it in a snapshot.
    fn at(&self, revision: u64) -> Option<&KnownServer> {
        self.0.iter().rev().find(|(since, _)| *since <= revision).map(|(_, server)| server)
    }

    /// Adds the one that has it from a snapshot on, if it is another.
    fn given_to(&mut self, server: KnownServer, revision: u64) {
        if self.0.last().is_some_and(|(_, known)| *known == server) {
            return;
        }
        if self.0.len() == NAMES_OF_PLACE_MAX {
            self.0.remove(0);
        }
        self.0.push((revision, server));
    }

    /// The snapshots in which the servers of this name had it.
    fn revisions_of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = RangeInclusive<u64>> + 'a {
        let ends = self.0.iter().skip(1).map(|(next, _)| next - 1).chain([u64::MAX]);
        let held = self.0.iter().zip(ends).filter(move |((_, server), _)| *server.name == *name);
        held.map(|((since, _), end)| *since..=end)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownRoute {
    name: Arc<str>,
    /// The conditions of the route.
    rule: Box<str>,
    /// The common part of all paths that it takes, if it has a condition on paths.
    pub(crate) template: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KnownServer {
    name: Box<str>,
    pub(crate) address: ServerAddress,
}

/// What the names of the newest config were read from: as long as a route is the same there, so are its names.
#[derive(Debug, Default)]
struct NewestRoutes {
    /// Those of each listener, in the order of both.
    of_listeners: Vec<Vec<Weak<Route>>>,
}

impl NewestRoutes {
    fn new(snapshot: &Snapshot) -> Self {
        let weak = |route: &RoutePlan| Arc::downgrade(&route.config);
        let of_listener = |plan: &Arc<ListenerPlan>| plan.route_plans.iter().map(weak).collect();
        Self { of_listeners: snapshot.listeners.iter().map(of_listener).collect() }
    }
}

impl GenerationNames {
    fn new(snapshot: &Snapshot, before: Option<(&GenerationNames, &NewestRoutes)>) -> Self {
        let known = before.iter().flat_map(|(before, read)| before.listeners.iter().zip(&read.of_listeners));
        let known_listeners: HashMap<&str, _> = known.map(|known| (&*known.0.name, known)).collect();
        let listeners = snapshot.listeners.iter().map(|plan| {
            let known = known_listeners.get(&*plan.config.name).copied();
            let is_of_same =
                |(known, _): &(&Arc<KnownListener>, _)| known.config.as_ptr() == Arc::as_ptr(&plan.config);
            match known.filter(is_of_same) {
                Some((known, _)) => Arc::clone(known),
                None => Arc::new(KnownListener::new(plan, known.map(|(known, read)| (&**known, &read[..])))),
            }
        });
        let before = before.map(|(before, _)| before);
        let known = before.iter().flat_map(|before| before.upstreams.iter());
        let known_upstreams: HashMap<&str, _> = known.map(|names| (&*names.name, names)).collect();
        let upstreams = snapshot.upstreams.iter().map(|plan| {
            let known = known_upstreams.get(&*plan.config.name).copied();
            if let Some(known) = known.filter(|known| known.config.as_ptr() == Arc::as_ptr(&plan.config)) {
                return Arc::clone(known);
            }
            let names = KnownUpstream::new(plan, snapshot.revision, None);
            let is_same = |known: &&Arc<KnownUpstream>| {
                let of = |names: &KnownUpstream| {
                    (names.balance, names.is_tls, names.source.as_ref().map(Arc::as_ptr))
                };
                of(known) == of(&names) && known.has_servers_of(&names)
            };
            known.filter(is_same).cloned().unwrap_or_else(|| Arc::new(names))
        });
        let rules = before.map(|before| &before.rules).filter(|rules| rules[..] == snapshot.rule_names[..]);
        Self {
            generation: snapshot.generation,
            listeners: listeners.collect(),
            upstreams: SharedRuns::new(upstreams, before.map(|before| &before.upstreams)),
            rules: rules.map_or_else(|| snapshot.rule_names.as_slice().into(), Arc::clone),
        }
    }

    pub(crate) fn listener(&self, place: u32) -> Option<&KnownListener> {
        self.listeners.get(place as usize).map(|names| &**names)
    }

    /// A limit or a list, in words.
    pub(crate) fn rule(&self, place: u32) -> Option<&str> {
        self.rules.get(place as usize).map(|name| &**name)
    }

    pub(crate) fn upstream(&self, place: u32) -> Option<&KnownUpstream> {
        self.upstreams.get(place as usize).map(|names| &**names)
    }

    /// The places of an upstream, and of one of its servers, that are called so.
    pub(crate) fn places(&self, upstream: Option<&str>, server: Option<&str>) -> Vec<RecordedPlace> {
        let named = self
            .upstreams
            .iter()
            .enumerate()
            .filter(|(_, names)| upstream.is_none_or(|name| *names.name == *name));
        let mut places = Vec::new();
        for (place, names) in named {
            let of_server =
                |server| RecordedPlace { generation: self.generation, upstream: place as u32, server };
            match server {
                None => places.push(of_server(None)),
                Some(name) => {
                    for (at, held) in names.places.iter().enumerate() {
                        let revisions = held.revisions_of(name);
                        places.extend(revisions.map(|revisions| of_server(Some((at as u32, revisions)))));
                    }
                }
            }
        }
        places
    }
}

impl KnownListener {
    /// The names of a listener and its routes, which are those that it had before where they were read from the same.
    fn new(plan: &ListenerPlan, before: Option<(&KnownListener, &[Weak<Route>])>) -> Self {
        let known = before.iter().flat_map(|(before, read)| read.iter().zip(before.routes.iter()));
        let by_config: HashMap<*const Route, _> = known.map(|(read, names)| (read.as_ptr(), names)).collect();
        let known = before.iter().flat_map(|(before, _)| before.routes.iter());
        let by_name =
            LazyCell::new(|| known.map(|names| (&*names.name, names)).collect::<HashMap<&str, _>>());
        let routes = plan.route_plans.iter().map(|route| {
            if let Some(known) = by_config.get(&Arc::as_ptr(&route.config)) {
                return Arc::clone(known);
            }
            let names = KnownRoute::new(&route.config);
            let known = by_name.get(&*names.name).filter(|known| ****known == names);
            known.map_or_else(|| Arc::new(names), |known| Arc::clone(known))
        });
        Self {
            name: plan.config.name.clone(),
            encoded_slash: plan.head_limits.paths.encoded_slash,
            routes: SharedRuns::new(routes, before.map(|(before, _)| &before.routes)),
            config: Arc::downgrade(&plan.config),
        }
    }

    pub(crate) fn route_names(&self, place: u32) -> Option<&KnownRoute> {
        self.routes.get(place as usize).map(|names| &**names)
    }

    /// The name of a route and its conditions.
    pub(crate) fn route(&self, place: u32) -> Option<(&str, &str)> {
        self.route_names(place).map(|names| (&*names.name, &*names.rule))
    }
}

impl KnownRoute {
    fn new(config: &Route) -> Self {
        Self {
            name: config.name.clone(),
            rule: shown_conditions(&config.matches).into(),
            template: config.matches.path.template().map(String::into),
        }
    }
}

impl KnownUpstream {
    /// The names of an upstream in the snapshot `revision`, with those that its places had before.
    fn new(plan: &UpstreamPlan, revision: u64, before: Option<&Self>) -> Self {
        let mut places = before.map_or_else(Vec::new, |before| before.places.clone());
        places.resize(plan.config.servers.len(), ServerPlace(Vec::new()));
        for (place, server) in places.iter_mut().zip(&plan.config.servers) {
            let server = KnownServer { name: server.name.clone(), address: server.address.clone() };
            place.given_to(server, revision);
        }
        Self {
            name: plan.config.name.clone(),
            balance: plan.config.balance.name(),
            is_tls: plan.tls.is_some(),
            source: plan.config.discovery.is_some().then(|| Arc::clone(&plan.source)),
            places,
            config: Arc::downgrade(&plan.config),
        }
    }

    /// Whether both have the same servers in their places now.
    fn has_servers_of(&self, other: &Self) -> bool {
        let now = |names: &'_ Self| {
            names.places.iter().map(|place| place.at(u64::MAX).cloned()).collect::<Vec<_>>()
        };
        now(self) == now(other)
    }

    /// The server that had a place in the snapshot `revision`.
    pub(crate) fn server_names(&self, place: u32, revision: u64) -> Option<&KnownServer> {
        self.places.get(place as usize)?.at(revision)
    }

    pub(crate) fn server(&self, place: u32, revision: u64) -> Option<&str> {
        self.server_names(place, revision).map(|names| &*names.name)
    }
}

/// The names of the last configs.
#[derive(Debug, Default)]
pub(crate) struct ConfigNames(Mutex<KeptNames>);

#[derive(Debug, Default)]
struct KeptNames {
    /// The oldest first.
    generations: VecDeque<Arc<GenerationNames>>,
    newest: NewestRoutes,
}

impl ConfigNames {
    /// Adds a config before it is used.
    pub(crate) fn learn(&self, snapshot: &Snapshot) {
        let mut kept = self.lock();
        let before = kept.generations.back().map(|names| (&**names, &kept.newest));
        let names = GenerationNames::new(snapshot, before);
        kept.newest = NewestRoutes::new(snapshot);
        if kept.generations.len() == GENERATIONS_MAX {
            kept.generations.pop_front();
        }
        kept.generations.push_back(Arc::new(names));
    }

    /// Adds the servers of some upstreams of the newest config, each with its place there, before they are used.
    pub(crate) fn learn_servers(&self, revision: u64, upstreams: &[(usize, &Arc<UpstreamPlan>)]) {
        let mut kept = self.lock();
        let Some(newest) = kept.generations.back_mut() else { return };
        let newest = Arc::make_mut(newest);
        for (place, plan) in upstreams {
            let known = newest.upstreams.get(*place).map(|known| &**known);
            let names = KnownUpstream::new(plan, revision, known);
            newest.upstreams.set(*place, Arc::new(names));
        }
    }

    /// The known ones, the oldest first.
    pub(crate) fn all(&self) -> Vec<Arc<GenerationNames>> {
        self.lock().generations.iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, KeptNames> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> KnownServer {
        let address = "127.0.0.1:80".parse().expect("an address");
        KnownServer { name: name.into(), address: ServerAddress::Ip(address) }
    }

    #[test]
    fn a_place_knows_who_had_it_when() {
        let mut place = ServerPlace(Vec::new());
        for (name, revision) in [("a", 3), ("a", 4), ("b", 7), ("a", 9)] {
            place.given_to(server(name), revision);
        }
        let at = |revision| place.at(revision).map(|server| &*server.name);
        let expected =
            [(2, None), (3, Some("a")), (6, Some("a")), (7, Some("b")), (8, Some("b")), (9, Some("a"))];
        for (revision, name) in expected {
            assert_eq!(at(revision), name, "{revision}");
        }
        assert_eq!(place.revisions_of("a").collect::<Vec<_>>(), [3..=6, 9..=u64::MAX]);
        assert_eq!(place.revisions_of("b").collect::<Vec<_>>(), [7..=8]);
        assert_eq!(place.revisions_of("c").count(), 0);
        for revision in 10..20 {
            place.given_to(server(&format!("s{revision}")), revision);
        }
        assert_eq!(place.0.len(), NAMES_OF_PLACE_MAX);
        assert_eq!(place.at(12), None, "it is not known any more");
        assert_eq!(place.at(u64::MAX), Some(&server("s19")));
    }
}
