//! Requests that the process before still has on servers with a limit, by `max_requests` or by their agents: each takes a slot in the new process,
//! until the other one says that it has ended, or ends itself.

use std::collections::HashMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot};
use weir_traffic::ServerState;

/// How many requests run on a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningRequests {
    upstream: Box<str>,
    server: Box<str>,
    count: u32,
}

impl RunningRequests {
    /// Those on servers that may have a limit.
    pub(crate) fn new(snapshot: &Snapshot) -> Vec<Self> {
        let mut running = Vec::new();
        for plan in &snapshot.upstreams {
            for (server, state) in plan.config.servers.iter().zip(plan.balancer().states()) {
                let count = if plan.config.may_limit(server) { state.in_flight() } else { 0 };
                if count > 0 {
                    let (upstream, server) = (plan.config.name.clone(), server.name.clone());
                    running.push(Self { upstream, server, count });
                }
            }
        }
        running
    }
}

/// The upstream and the name of a server.
type OccupiedServer = (Box<str>, Box<str>);

/// The slots that requests of the process before take here. They are given back when this is dropped.
#[derive(Debug)]
pub struct OccupiedSlots {
    current: CurrentSnapshot,
    taken: HashMap<OccupiedServer, (Arc<ServerState>, u32)>,
}

impl OccupiedSlots {
    pub(crate) fn new(current: &CurrentSnapshot) -> Self {
        Self { current: Arc::clone(current), taken: HashMap::new() }
    }

    /// These requests run there now, and no others.
    pub fn follow(&mut self, running: &[RunningRequests]) {
        let mut wanted: HashMap<OccupiedServer, u32> = HashMap::new();
        for RunningRequests { upstream, server, count } in running {
            *wanted.entry((upstream.clone(), server.clone())).or_default() += count;
        }
        let snapshot = self.current.load_full();
        self.taken.retain(|key, (state, taken)| {
            let stay = wanted.remove(key).unwrap_or(0);
            if stay > *taken {
                state.occupy(stay - *taken);
            }
            (stay..*taken).for_each(|_| state.release());
            if stay < *taken
                && let Some((_, plan)) = snapshot.upstream(&key.0)
            {
                plan.serve_queue();
            }
            *taken = stay;
            stay > 0
        });
        for (key, count) in wanted {
            let Some((_, plan)) = snapshot.upstream(&key.0) else { continue };
            let Some(at) = plan.in_service(&key.1) else { continue };
            if plan.config.may_limit(&plan.config.servers[at]) {
                let state = Arc::clone(&plan.balancer().states()[at]);
                state.occupy(count);
                self.taken.insert(key, (state, count));
            }
        }
    }
}

impl Drop for OccupiedSlots {
    fn drop(&mut self) {
        self.follow(&[]);
    }
}
