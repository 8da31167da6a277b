//! The names of servers that a change of the config brings, resolved before anything changes: a server that works is not replaced by a name that leads
//! nowhere.

use std::sync::Arc;
use std::sync::mpsc::channel;

use weir_proxy::state::snapshot::Snapshot;
use weir_traffic::Mode;

use super::known_addresses::{self, without_address};
use super::{NAMES_GRACE, Proxy};
use crate::proxy::background_tasks::{NameLookups, TaskConfig};
use crate::servers::dns_names::Name;
use crate::start_error::{StartError, UnresolvedName};

/// What is to happen to a config with names of servers that cannot be resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewNames {
    /// It is refused.
    MustResolve,
    /// It takes effect, and requests reach these servers once their names have been resolved: other parts of it are of other authors.
    MayComeLater,
}

impl Proxy {
    /// Resolves the names that `snapshot` has and the one before does not. A server in maintenance may have any name.
    ///
    /// # Errors
    /// When some cannot be resolved, and have to.
    pub(super) fn resolve_new_names(
        &self,
        snapshot: &Snapshot,
        before: &Snapshot,
        new_names: NewNames,
    ) -> Result<(), StartError> {
        let mut places = Vec::new();
        for plan in &snapshot.upstreams {
            let known = before.upstream(&plan.config.name).map(|(_, known)| known);
            let is_new = |at: &usize| {
                known.is_none_or(|known| !known.live.iter().any(|live| Arc::ptr_eq(live, &plan.live[*at])))
            };
            let is_used = |at: &usize| plan.config.servers[*at].mode != Mode::Maintenance;
            places.extend(without_address(plan).filter(is_new).filter(is_used).map(|at| (plan, at)));
        }
        if places.is_empty() {
            return Ok(());
        }
        known_addresses::use_known(&snapshot.upstreams, &known_addresses::collect(before));
        places.retain(|(plan, at)| plan.live[*at].endpoints.load().is_empty());
        if places.is_empty() || new_names == NewNames::MayComeLater {
            return Ok(());
        }
        let names: Vec<Name> = places.iter().filter_map(|(plan, at)| Name::new(plan, *at)).collect();
        let (failed, failures) = channel();
        let lookups = NameLookups { names, dns: snapshot.dns.clone(), failed };
        let _stopped = self.task_configs.send(TaskConfig::Lookups(lookups));
        let time = snapshot.dns.timeout + NAMES_GRACE;
        let end = weir_proxy::net::clock::now() + time;
        let mut unresolved: Vec<UnresolvedName> = Vec::new();
        // Ends when every one has its answer.
        while let Ok(failure) =
            failures.recv_timeout(end.saturating_duration_since(weir_proxy::net::clock::now()))
        {
            unresolved.push(failure);
        }
        for (plan, at) in places {
            let (upstream, server) = (&plan.config.name, &plan.config.servers[at]);
            let is_told =
                unresolved.iter().any(|told| told.upstream == *upstream && told.address == server.address);
            if plan.live[at].endpoints.load().is_empty() && !is_told {
                let error = format!("no answer within {} s", time.as_secs_f64());
                let (upstream, address) = (upstream.clone(), server.address.clone());
                unresolved.push(UnresolvedName { upstream, address, error });
            }
        }
        if unresolved.is_empty() { Ok(()) } else { Err(StartError::Names(unresolved)) }
    }
}
