//! The names of listeners, routes, upstreams and servers in earlier configs: entries of the recorder hold numbers only.
//!
//! For reports; workers never read it. An entry keeps no config alive.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use weir_config::{Listener, ServerAddress, Upstream};
use weir_http::EncodedSlashRule;

use weir_proxy::state::snapshot::Snapshot;

/// Configs whose names are kept; unchanged parts are kept once.
const GENERATIONS_MAX: usize = 32;

/// The names of one config.
#[derive(Debug, Clone)]
pub(crate) struct GenerationNames {
    pub(crate) generation: u64,
    listeners: Vec<Arc<KnownListener>>,
    upstreams: Vec<Arc<KnownUpstream>>,
    rules: Vec<Box<str>>,
}

#[derive(Debug)]
pub(crate) struct KnownListener {
    pub(crate) name: Box<str>,
    /// How the listener treats an encoded slash in a path.
    pub(crate) encoded_slash: EncodedSlashRule,
    routes: Vec<KnownRoute>,
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
    servers: Vec<KnownServer>,
    config: Weak<Upstream>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownRoute {
    name: Box<str>,
    /// The conditions of the route.
    rule: Box<str>,
    /// The common part of all paths that it takes, if it has a condition on paths.
    pub(crate) template: Option<Box<str>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct KnownServer {
    name: Box<str>,
    pub(crate) address: ServerAddress,
}

impl GenerationNames {
    fn of(snapshot: &Snapshot, before: Option<&GenerationNames>) -> Self {
        let known = before.map_or(&[][..], |before| &before.listeners);
        let known_listeners: HashMap<&str, _> = known.iter().map(|names| (&*names.name, names)).collect();
        let known = before.map_or(&[][..], |before| &before.upstreams);
        let known_upstreams: HashMap<&str, _> = known.iter().map(|names| (&*names.name, names)).collect();
        let listeners = snapshot.listeners.iter().map(|plan| {
            let known = known_listeners.get(&*plan.config.name).copied();
            if let Some(known) = known.filter(|known| known.config.as_ptr() == Arc::as_ptr(&plan.config)) {
                return Arc::clone(known);
            }
            let routes = plan.route_plans.iter().map(|route| KnownRoute {
                name: route.config.name.clone(),
                rule: route.config.matches.to_string().into(),
                template: route.config.matches.path.template().map(String::into),
            });
            let names = KnownListener {
                name: plan.config.name.clone(),
                encoded_slash: plan.head_limits.paths.encoded_slash,
                routes: routes.collect(),
                config: Arc::downgrade(&plan.config),
            };
            let is_same = |known: &&Arc<KnownListener>| {
                known.encoded_slash == names.encoded_slash && known.routes == names.routes
            };
            known.filter(is_same).cloned().unwrap_or_else(|| Arc::new(names))
        });
        let upstreams = snapshot.upstreams.iter().map(|plan| {
            let known = known_upstreams.get(&*plan.config.name).copied();
            if let Some(known) = known.filter(|known| known.config.as_ptr() == Arc::as_ptr(&plan.config)) {
                return Arc::clone(known);
            }
            let servers = plan
                .config
                .servers
                .iter()
                .map(|server| KnownServer { name: server.name.clone(), address: server.address.clone() });
            let balance = plan.config.balance.name();
            let names = KnownUpstream {
                name: plan.config.name.clone(),
                balance,
                is_tls: plan.tls.is_some(),
                servers: servers.collect(),
                config: Arc::downgrade(&plan.config),
            };
            let is_same = |known: &&Arc<KnownUpstream>| {
                let of = |names: &KnownUpstream| (names.balance, names.is_tls);
                of(known) == of(&names) && known.servers == names.servers
            };
            known.filter(is_same).cloned().unwrap_or_else(|| Arc::new(names))
        });
        Self {
            generation: snapshot.generation,
            listeners: listeners.collect(),
            upstreams: upstreams.collect(),
            rules: snapshot.rule_names.clone(),
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
    pub(crate) fn places(&self, upstream: Option<&str>, server: Option<&str>) -> Vec<(u32, Option<u32>)> {
        let named = self
            .upstreams
            .iter()
            .enumerate()
            .filter(|(_, names)| upstream.is_none_or(|name| *names.name == *name));
        let mut places = Vec::new();
        for (place, names) in named {
            match server {
                None => places.push((place as u32, None)),
                Some(server) => {
                    let found = names.servers.iter().enumerate().filter(|(_, names)| *names.name == *server);
                    places.extend(found.map(|(at, _)| (place as u32, Some(at as u32))));
                }
            }
        }
        places
    }
}

impl KnownListener {
    pub(crate) fn route_names(&self, place: u32) -> Option<&KnownRoute> {
        self.routes.get(place as usize)
    }

    /// The name of a route and its conditions.
    pub(crate) fn route(&self, place: u32) -> Option<(&str, &str)> {
        self.route_names(place).map(|names| (&*names.name, &*names.rule))
    }
}

impl KnownUpstream {
    pub(crate) fn server_names(&self, place: u32) -> Option<&KnownServer> {
        self.servers.get(place as usize)
    }

    pub(crate) fn server(&self, place: u32) -> Option<&str> {
        self.server_names(place).map(|names| &*names.name)
    }
}

/// The names of the last configs.
#[derive(Debug, Default)]
pub(crate) struct ConfigNames(Mutex<VecDeque<GenerationNames>>);

impl ConfigNames {
    /// Adds a config before it is used.
    pub(crate) fn learn(&self, snapshot: &Snapshot) {
        let mut kept = self.lock();
        let names = GenerationNames::of(snapshot, kept.back());
        if kept.len() == GENERATIONS_MAX {
            kept.pop_front();
        }
        kept.push_back(names);
    }

    /// The known ones, the oldest first.
    pub(crate) fn all(&self) -> Vec<GenerationNames> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<GenerationNames>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
