//! Log lines when a server goes down or comes back: which, why, since when, and how many servers are left.

use weir_traffic::Health;
use weir_traffic::health::{HealthChange, HealthState};

use crate::servers::outcome_history;
use weir_proxy::net::failure::Fault;
use weir_proxy::state::snapshot::UpstreamPlan;

/// Writes the line about a verdict that has just changed.
pub(super) fn tell(plan: &UpstreamPlan, index: usize, change: HealthChange, verdict: &HealthState<Fault>) {
    let (upstream, server) = (&*plan.config.name, &*plan.config.servers[index].name);
    let servers_up = plan.balancer().states().iter().filter(|state| state.health() == Health::Up).count();
    let servers = plan.config.servers.len();
    let (count, history) = (change.outcomes, outcome_history::describe(verdict.history()));
    match change.health {
        Health::Down => {
            let failure = verdict.history().newest().and_then(|outcome| outcome.failure);
            let reason = failure.map(|failure| failure.to_string()).unwrap_or_default();
            plan.live[index].last_change.record(format!("{count} of {count} probes failed: {reason}"));
            tracing::warn!(
                upstream,
                server,
                reason,
                history,
                servers_up,
                servers,
                "the server is down: {count} of {count} probes failed"
            );
            if servers_up == 0 {
                tracing::error!(
                    upstream,
                    "no server of the upstream is up: requests and connections for it fail"
                );
            }
        }
        Health::Up => {
            plan.live[index].last_change.record(format!("{count} of {count} probes passed"));
            tracing::info!(
                upstream,
                server,
                history,
                servers_up,
                servers,
                "the server is up again: {count} of {count} probes passed"
            );
        }
    }
}
