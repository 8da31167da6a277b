//! What listeners, routes, upstreams and servers were called in the configs of before: entries of the recorder hold numbers only.
//!
//! For whoever asks; workers never look here. An entry keeps no config alive.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::snapshot::Snapshot;

/// Configs whose names are kept; what has not changed from one to the next is kept once.
const GENERATIONS_MAX: usize = 32;

/// The names of one config.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    pub(crate) generation: u64,
    listeners: Vec<Arc<ListenerNames>>,
    upstreams: Vec<Arc<UpstreamNames>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ListenerNames {
    pub(crate) name: Box<str>,
    /// Each route with what it asks for.
    routes: Vec<(Box<str>, Box<str>)>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UpstreamNames {
    pub(crate) name: Box<str>,
    /// How it chooses.
    pub(crate) balance: &'static str,
    servers: Vec<Box<str>>,
}

impl Names {
    fn of(snapshot: &Snapshot, before: Option<&Names>) -> Self {
        let listeners = snapshot.listeners.iter().map(|plan| {
            let routes = plan
                .route_plans
                .iter()
                .map(|route| (route.config.name.clone(), route.config.matches.to_string().into()));
            let names = ListenerNames { name: plan.config.name.clone(), routes: routes.collect() };
            let known = before.and_then(|before| before.listeners.iter().find(|known| ***known == names));
            known.cloned().unwrap_or_else(|| Arc::new(names))
        });
        let upstreams = snapshot.upstreams.iter().map(|plan| {
            let servers = plan.config.servers.iter().map(|server| server.name.clone());
            let balance = plan.config.balance.name();
            let names = UpstreamNames { name: plan.config.name.clone(), balance, servers: servers.collect() };
            let known = before.and_then(|before| before.upstreams.iter().find(|known| ***known == names));
            known.cloned().unwrap_or_else(|| Arc::new(names))
        });
        Self {
            generation: snapshot.generation,
            listeners: listeners.collect(),
            upstreams: upstreams.collect(),
        }
    }

    pub(crate) fn listener(&self, place: u32) -> Option<&ListenerNames> {
        self.listeners.get(place as usize).map(|names| &**names)
    }

    pub(crate) fn upstream(&self, place: u32) -> Option<&UpstreamNames> {
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
                    let found = names.servers.iter().enumerate().filter(|(_, name)| ***name == *server);
                    places.extend(found.map(|(at, _)| (place as u32, Some(at as u32))));
                }
            }
        }
        places
    }
}

impl ListenerNames {
    /// The name of a route and what it asks for.
    pub(crate) fn route(&self, place: u32) -> Option<(&str, &str)> {
        self.routes.get(place as usize).map(|(name, rule)| (&**name, &**rule))
    }
}

impl UpstreamNames {
    pub(crate) fn server(&self, place: u32) -> Option<&str> {
        self.servers.get(place as usize).map(|name| &**name)
    }
}

/// The names of the last configs.
#[derive(Debug, Default)]
pub(crate) struct NamesKept(Mutex<VecDeque<Names>>);

impl NamesKept {
    /// Takes in a config before it is used.
    pub(crate) fn learn(&self, snapshot: &Snapshot) {
        let mut kept = self.lock();
        let names = Names::of(snapshot, kept.back());
        if kept.len() == GENERATIONS_MAX {
            kept.pop_front();
        }
        kept.push_back(names);
    }

    /// Those that are known, the oldest first.
    pub(crate) fn all(&self) -> Vec<Names> {
        self.lock().iter().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Names>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
