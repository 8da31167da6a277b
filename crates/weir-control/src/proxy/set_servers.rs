//! Other servers for some upstreams, without a reload: what a source of servers says takes effect.
//!
//! The cost depends on how many servers those upstreams have, not on how many upstreams there are: all else is shared with the snapshot
//! before. The steps are those of a reload, and servers keep their state as in one.

use std::sync::Arc;
use std::sync::mpsc::channel;

use weir_config::{Server, Upstream, UpstreamIndex};
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};
use weir_proxy::worker::apply_config::{ServersUpdate, WorkerChange};

use super::Proxy;
use super::reload::APPLY_TIME;
use crate::servers::slow_start;
use crate::start_error::StartError;

/// The servers that an upstream has from now on.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerChanges {
    /// The name of the upstream.
    pub upstream: Box<str>,
    /// All its servers, with unique names.
    pub servers: Vec<Server>,
}

impl Proxy {
    /// Gives upstreams other servers; those that stay keep their health, load and ejection, those that are gone end what runs on them, and
    /// new ones begin slowly where the config says so. An upstream that the config does not have is passed over. Returns how many changed.
    ///
    /// # Errors
    /// When TLS with the servers of one cannot be made ready; then nothing has changed.
    pub fn set_servers(&mut self, changes: Vec<ServerChanges>) -> Result<usize, StartError> {
        let before = self.current.load_full();
        let mut changed: Vec<(usize, Arc<Upstream>)> = Vec::new();
        for ServerChanges { upstream, servers } in changes {
            let Some((place, plan)) = before.upstream(&upstream) else { continue };
            let is_stale = plan.named.as_ref().is_some_and(|named| named.is_stale());
            if is_stale || plan.declared().servers != servers {
                changed.push((place, Arc::new(plan.declared().with_servers(servers))));
            }
        }
        if changed.is_empty() {
            return Ok(0);
        }
        let snapshot = Arc::new(before.with_servers(&changed, &self.inputs)?);
        // From here on nothing can fail.
        snapshot.prepare(&before);
        let upstreams = snapshot.changed_upstreams(&before);
        self.queries.names.learn_servers(snapshot.revision, &upstreams);
        let plans: Vec<Arc<UpstreamPlan>> = upstreams.into_iter().map(|(_, plan)| Arc::clone(plan)).collect();
        self.resolve_servers_of(plans.clone());
        snapshot.settle_modes(&before);
        self.begin_slowly(&snapshot, &before);
        self.current.store(Arc::clone(&snapshot));
        self.names_changed.notify_one();
        let (done, all_done) = channel::<()>();
        for worker in &self.changes {
            let update = ServersUpdate { snapshot: Arc::clone(&snapshot), done: done.clone() };
            let _stopped = worker.send(WorkerChange::Servers(update));
        }
        drop(done);
        // Ends when every worker has turned.
        let _disconnected = all_done.recv_timeout(APPLY_TIME);
        self.follow_checks_of(&snapshot, plans);
        snapshot.take_effect(&before);
        let count = changed.len();
        for (place, upstream) in changed {
            self.in_use.replace_upstream(UpstreamIndex(place), upstream);
        }
        Ok(count)
    }

    /// New servers of an upstream that had others get their share step by step, where the config asks for it.
    fn begin_slowly(&self, snapshot: &Snapshot, before: &Snapshot) {
        let Some(control) = &self.control_tasks else { return };
        let _inside = control.enter();
        for (place, plan) in snapshot.changed_upstreams(before) {
            let known = before.upstreams[place].balancer().states();
            if plan.config.slow_start.is_none() || known.is_empty() {
                continue;
            }
            for (index, state) in plan.balancer().states().iter().enumerate() {
                let is_new = known.get(index).is_none_or(|known| !Arc::ptr_eq(known, state));
                if is_new {
                    slow_start::begin(plan, index);
                }
            }
        }
    }
}
