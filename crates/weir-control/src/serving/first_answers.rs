//! The start between the first config and the first connection: what sources of servers, stores of routes, DNS or another source of routes say first is waited for,
//! with patience, so that no request fails for want of it.

use std::time::Duration;

use weir_proxy::net::clock;

use super::ConfigSource;
use super::events::{AwaitedRoutes, ServeEvents};
use super::route_fragments::RouteFragments;
use crate::proxy::Proxy;
use crate::start_error::StartError;
use crate::workers::commands::CommandKind;

/// How long a start waits for what is not known: servers and routes that sources name, and addresses of names.
const UNKNOWN_TIME: Duration = Duration::from_secs(5);

/// How long a start waits for the answer of a source of which an earlier process has left the servers or routes in a file, and of a name of which it has
/// left the addresses: they may be old.
const STORED_TIME: Duration = Duration::from_secs(1);

/// Takes the servers and routes that sources name, and waits for addresses of names, so that the first requests find them. What is known from before
/// is in use already; what is not is waited for with patience.
pub(super) fn await_sources(
    proxy: &mut Proxy,
    source: &mut ConfigSource,
    routes: &mut RouteFragments,
    events: &ServeEvents,
) {
    let began = clock::now();
    if let ConfigSource::File(file) = source {
        file.follow(proxy.config_of_file());
        routes.tell(proxy, file);
    }
    events.take_sources(began, |kind| {
        match (kind, &mut *source) {
            (Some(CommandKind::Servers(sets, _under_way)), _) => proxy.take_server_sets(sets),
            (Some(CommandKind::Fragments(sets, _under_way)), ConfigSource::File(file)) => {
                routes.take(sets, proxy, file);
            }
            _ => {}
        }
        if !proxy.sources_unknown().is_empty() || !routes.unknown(proxy).is_empty() {
            return Some(UNKNOWN_TIME);
        }
        let has_unheard = proxy.has_unheard_sources() || routes.has_unheard(proxy);
        has_unheard.then_some(STORED_TIME)
    });
    let left = |time: Duration| (began + time).saturating_duration_since(clock::now());
    proxy.await_names(left(UNKNOWN_TIME), left(STORED_TIME));
    for source in routes.unknown(proxy) {
        tracing::warn!(source = &*source, "no route of the store is known: it has not answered");
    }
}

/// Accepts connections; where routes come from elsewhere, once the first ones are there, or after the same patience. Whether there are routes.
pub(super) fn accept(
    proxy: &mut Proxy,
    source: &ConfigSource,
    events: &ServeEvents,
) -> Result<bool, StartError> {
    let ConfigSource::Elsewhere(routes) = source else {
        proxy.accept()?;
        return Ok(true);
    };
    let mut awaited = events.await_routes(Some(UNKNOWN_TIME), |update| update(proxy));
    proxy.accept()?;
    if awaited == AwaitedRoutes::NotYet {
        tracing::warn!("{}", routes.none_known());
        awaited = events.await_routes(None, |update| update(proxy));
    }
    let has_routes = awaited == AwaitedRoutes::Applied;
    proxy.set_awaits_routes(!has_routes);
    Ok(has_routes)
}
