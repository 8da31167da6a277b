//! Addresses of names that are known without asking DNS: of servers in use, here or in the process before, or of a state file. A name that other
//! servers have already has their addresses until it is resolved.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::ServerAddress;
use weir_discovery::KnownAddresses;
use weir_proxy::net::clock;
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};

/// Those of all servers in use.
pub(super) fn collect(snapshot: &Snapshot) -> KnownAddresses {
    let mut known = KnownAddresses::new();
    // Of names that requests give, not even the addresses are for others, nor those of others for them.
    for plan in snapshot.upstreams.iter().filter(|plan| !plan.is_dynamic()) {
        for (server, live) in plan.config.servers.iter().zip(&plan.live) {
            let ServerAddress::Name { host, .. } = &server.address else { continue };
            for endpoint in live.endpoints.load().iter() {
                let Endpoint::Inet(addr) = endpoint else { continue };
                let addresses = known.entry(host.clone()).or_default();
                if !addresses.contains(&addr.ip()) {
                    addresses.push(addr.ip());
                }
            }
        }
    }
    known
}

/// Gives servers of `plans` that have no address yet those that are known of their names.
pub(super) fn use_known<'a>(plans: impl IntoIterator<Item = &'a Arc<UpstreamPlan>>, known: &KnownAddresses) {
    if known.is_empty() {
        return;
    }
    for plan in plans.into_iter().filter(|plan| !plan.is_dynamic()) {
        for (server, live) in plan.config.servers.iter().zip(&plan.live) {
            let ServerAddress::Name { host, port } = &server.address else { continue };
            let Some(addresses) = known.get(host).filter(|_| live.endpoints.load().is_empty()) else {
                continue;
            };
            let endpoints = addresses.iter().map(|ip| Endpoint::Inet(SocketAddr::new(*ip, *port)));
            live.move_to(endpoints.collect(), plan.millis(clock::now()));
        }
    }
}

/// Gives servers of `plans` that have no address yet those that an earlier process has left in a file: they may be old, and are the last known ones
/// until their names are resolved.
pub(super) fn use_stored<'a>(
    plans: impl IntoIterator<Item = &'a Arc<UpstreamPlan>> + Copy,
    stored: &KnownAddresses,
) {
    let mut unknown = Vec::new();
    for plan in plans {
        unknown.extend(without_address(plan).map(|at| Arc::clone(&plan.live[at])));
    }
    use_known(plans, stored);
    for live in unknown.iter().filter(|live| !live.endpoints.load().is_empty()) {
        live.note_stored_endpoints();
        live.last_change
            .record("its addresses are those of `discovery.state_file`: its name is not resolved yet");
    }
}

/// The servers of a plan whose addresses are those of a state file: their names were not resolved yet.
pub(super) fn with_stored_address(plan: &UpstreamPlan) -> impl Iterator<Item = usize> {
    (0..plan.live.len()).filter(|at| plan.leaves_at[*at].is_none() && plan.live[*at].has_stored_endpoints())
}

/// The servers of a plan that stay and have no address.
pub(super) fn without_address(plan: &UpstreamPlan) -> impl Iterator<Item = usize> {
    (0..plan.live.len()).filter(|at| {
        !plan.is_dynamic() && plan.leaves_at[*at].is_none() && plan.live[*at].endpoints.load().is_empty()
    })
}
