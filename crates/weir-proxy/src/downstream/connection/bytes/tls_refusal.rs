//! Why there is no TLS with a client, and the end of the waits of that phase.

use std::task::Poll;

use weir_observe::{Cause, Failure, Phase};

use super::ByteConnection;
use crate::state::connections::activity::Activity;

/// Why there is no TLS on a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TlsRefusal {
    /// The client closed the connection before its first byte, or Weir stops.
    Closed,
    Failed(Failure),
}

/// Waits; ready when that has to end.
pub(super) fn poll_over(conn: &mut ByteConnection) -> Poll<TlsRefusal> {
    conn.client.report_idle(Activity::Handshake);
    let timed_out = Failure::client(Phase::Tls, Cause::TimedOut);
    let over = conn.client.deadline.poll_passed();
    over.map(|()| TlsRefusal::Failed(conn.client.deadline.failure(Phase::Tls, timed_out)))
}
