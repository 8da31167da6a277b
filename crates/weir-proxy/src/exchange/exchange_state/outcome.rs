//! The outcome of the attempts of an exchange: a response that has begun, or a failure and whether a retry may help.

use std::time::Duration;

use weir_observe::{Cause, Failure};
use weir_traffic::balance::Excluded;
use weir_traffic::{ServerId, retry};

use super::exchange::Ended;
use crate::state::snapshot::UpstreamPlan;
use crate::upstream::slot::Slot;

/// A server that has begun to answer.
pub(crate) struct RespondingServer<T> {
    pub(crate) server: T,
    pub(crate) slot: Slot,
    /// Whether any byte of the request left for the server before it answered.
    pub(crate) sent_any: bool,
    /// Whether the request could not be sent whole: the connection ends with this exchange.
    pub(crate) send_failed: bool,
}

/// The attempts of one exchange so far.
#[derive(Debug)]
pub(crate) struct AttemptHistory {
    pub(crate) excluded: Excluded,
    pub(in crate::exchange) stale_connections: u32,
    pub(in crate::exchange) unprocessed: u32,
    /// Servers that were passed over: the connection was refused, or could not be had otherwise. They are no attempts by the limit of attempts.
    pub(in crate::exchange) refused: u32,
    pub(in crate::exchange) unreached: u32,
    /// Whether the condition of the upstream lets what has been sent be repeated.
    pub(in crate::exchange) may_repeat: bool,
    /// Whether the next attempt must open a connection.
    pub(crate) fresh: bool,
    /// The slot of the next attempt, if it is one on the same server.
    pub(in crate::exchange) slot: Option<Slot>,
    /// How long to wait before the next attempt.
    pub(in crate::exchange) pause: Option<Duration>,
    pub(in crate::exchange) handshake_wait: HandshakeWait,
    /// Why the last attempt failed: reported to the client when no other server can take the request.
    pub(in crate::exchange) last: Option<Failure>,
}

/// Whether a server has refused the request as long as the handshake of its client was not over (RFC 8470 section 5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) enum HandshakeWait {
    NotNeeded,
    /// The next attempt waits for the end of the handshake.
    Awaited,
    /// It was waited for: not once more.
    Had,
}

impl AttemptHistory {
    pub(crate) const fn new() -> Self {
        Self {
            excluded: Excluded::new(),
            stale_connections: 0,
            unprocessed: 0,
            refused: 0,
            unreached: 0,
            may_repeat: true,
            fresh: false,
            slot: None,
            pause: None,
            handshake_wait: HandshakeWait::NotNeeded,
            last: None,
        }
    }

    /// Whether a server is left that may take the request after it has failed on `server`, too.
    pub(in crate::exchange) fn leaves_other(&self, plan: &UpstreamPlan, server: ServerId) -> bool {
        let mut excluded = self.excluded;
        excluded.insert(server);
        plan.balancer().has_eligible_but(&excluded)
    }

    /// Whether a server is left that the request has not tried, as far as that is remembered.
    pub(in crate::exchange) fn leaves_untried(&self, plan: &UpstreamPlan, server: ServerId) -> bool {
        let mut tried = self.excluded;
        tried.avoid(server);
        plan.balancer().has_untried(&tried)
    }

    /// The failure to report when no server is left: that of the last attempt, if there was one.
    pub(crate) fn or_last(&self, ended: Ended) -> Ended {
        match (ended, self.last) {
            (Ended::Failed(Failure { cause: Cause::NoServer, .. }), Some(last)) => Ended::Failed(last),
            (ended, _) => ended,
        }
    }
}

/// An attempt that ended without a response that can be relayed.
#[derive(Debug)]
pub(crate) struct AttemptFailure {
    pub(crate) failure: Failure,
    pub(crate) server: ServerId,
    pub(crate) origin: FailureOrigin,
    pub(crate) sent_any: bool,
    pub(crate) received_any: bool,
    /// Whether the server had closed the connection before a byte of the request reached its machine.
    pub(crate) unread: bool,
    pub(crate) reused: bool,
    /// Its slot, kept if the request may go to the same server again.
    pub(crate) slot: Option<Slot>,
}

impl AttemptFailure {
    /// Whether a kept connection broke before it gave one byte, which says nothing about the server.
    pub(crate) fn is_stale(&self) -> bool {
        self.reused
            && self.origin == FailureOrigin::Server(retry::RetryCause::ConnectionError)
            && !self.received_any
    }

    /// Whether the server has said that it did nothing with the request.
    pub(crate) fn is_unprocessed(&self) -> bool {
        matches!(self.origin, FailureOrigin::Server(cause) if cause.is_unprocessed())
    }

    /// Whether only the connection was at fault, or came to its end: the server may get the request on another one.
    pub(crate) fn is_of_connection(&self) -> bool {
        let leaves_connection = matches!(
            self.origin,
            FailureOrigin::Server(retry::RetryCause::GoAway | retry::RetryCause::Http1Required)
        );
        self.is_stale() || leaves_connection
    }
}

/// The side at fault, which decides about a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureOrigin {
    /// The server's, or that of the way to it: another attempt may help.
    Server(retry::RetryCause),
    /// The client's or Weir's own: another attempt cannot help.
    Other,
}

/// Why an attempt ends, before it is known how far it had come.
pub(in crate::exchange) type AttemptError = (Failure, FailureOrigin);
