//! Ends client connections on request, and logs which ones and at whose request. Must not decide about permissions: the admin
//! listener and the runtime socket do.

use super::worker_queries::{FoundConnections, WorkerQueries};
use weir_proxy::net::peer::Peer;
use weir_proxy::net::timing::deadline::Cut;
use weir_proxy::state::connections::connection_list::{ConnectionId, ConnectionQuery};

/// Connections that one answer lists.
pub(crate) const LISTED_MAX: usize = 1000;

/// Ends one connection; the result is empty if it does not exist (any more).
pub(crate) async fn end(queries: &WorkerQueries, id: ConnectionId, who: &str) -> FoundConnections {
    let query = ConnectionQuery {
        connection: Some(id),
        count_max: 1,
        ends: Some(Cut::Requested),
        ..ConnectionQuery::default()
    };
    let found = queries.ask_running(query).await;
    for connection in &found.connections {
        tracing::info!(
            connection = %connection.id,
            listener = &*connection.listener,
            client = shown(connection.peer),
            state = connection.state(),
            who,
            "the connection was ended"
        );
    }
    found
}

/// Ends the connections whose exchanges are on a server.
pub(crate) async fn end_all(
    queries: &WorkerQueries,
    upstream: &str,
    server: &str,
    who: &str,
) -> FoundConnections {
    let query = ConnectionQuery {
        upstream: Some(upstream.into()),
        server: Some(server.into()),
        count_max: LISTED_MAX,
        ends: Some(Cut::Requested),
        ..ConnectionQuery::default()
    };
    let found = queries.ask_running(query).await;
    tracing::info!(
        upstream,
        server,
        connections = found.matching,
        who,
        "the connections on the server were ended"
    );
    found
}

/// Ends sessions and tunnels on a server that has gone down.
pub(crate) async fn end_down(queries: &WorkerQueries, upstream: &str, server: &str) {
    let query = ConnectionQuery {
        upstream: Some(upstream.into()),
        server: Some(server.into()),
        ends: Some(Cut::ServerDown),
        ..ConnectionQuery::default()
    };
    let found = queries.ask_running(query).await;
    let (connections, silent) = (found.matching, found.silent + found.silent_workers);
    tracing::info!(
        upstream,
        server,
        connections,
        silent,
        "connections through the server that is down were closed"
    );
}

/// The address of a peer.
pub(crate) fn shown(peer: Peer) -> String {
    match peer {
        Peer::Inet(addr) => addr.to_string(),
        Peer::Unix => "unix".to_owned(),
    }
}
