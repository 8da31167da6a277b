//! Refreshes a stale response behind a client that has got it already (RFC 5861 section 3).

use std::sync::Arc;

use weir_cache::store::StoredResponse;

use crate::exchange::Exchange;
use crate::exchange::client::Client;
use crate::exchange::stream::ClientStream;
use crate::state::cache::RouteCachePlan;
use crate::upstream::stream::Servers;

/// Asks a server in a task of its own, unless another one does already.
pub(super) fn begin(
    _client: &Client,
    _stream: &impl ClientStream,
    _servers: &impl Servers,
    _exchange: &Exchange,
    _plan: &RouteCachePlan,
    (_key, _stored): (&[u8], &Arc<StoredResponse>),
) {
}
