//! Whether a failed attempt goes again, and where not: gathers the facts for the one decision in weir-traffic.

use weir_observe::{Cause, Failure};
use weir_traffic::ServerId;
use weir_traffic::balance::Excluded;
use weir_traffic::retry::{self, FailedAttempt, NextServer, Verdict};

use super::attempt::Plans;
use super::{Ended, Exchange};
use crate::clock;
use crate::downstream::session::Session;

/// What the attempts of one exchange have met so far.
#[derive(Debug)]
pub(crate) struct Tried {
    pub(crate) excluded: Excluded,
    stale_connections: u32,
    /// Whether the next attempt must open a connection.
    pub(crate) fresh: bool,
    /// Why the last attempt failed: what the client hears when nobody else can take the request.
    last: Option<Failure>,
}

impl Tried {
    pub(crate) const fn new() -> Self {
        Self { excluded: Excluded::new(), stale_connections: 0, fresh: false, last: None }
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
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) server: ServerId,
    pub(crate) kind: Kind,
    pub(crate) sent_any: bool,
    pub(crate) received_any: bool,
    pub(crate) reused: bool,
}

impl Failed {
    /// Whether a kept connection broke before it gave one byte, which says nothing about the server.
    pub(crate) fn is_stale(&self) -> bool {
        self.reused && self.kind == Kind::Server(retry::Cause::Broken) && !self.received_any
    }
}

/// Whose doing it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The server's, or that of the way to it: another attempt may help.
    Server(retry::Cause),
    /// The client's or Weir's own: another attempt cannot help.
    Other,
}

/// Prepares another attempt.
///
/// # Errors
/// The failure of the attempt, when there must not be another.
pub(crate) fn again(
    session: &mut Session,
    exchange: &mut Exchange,
    plans: Plans<'_>,
    tried: &mut Tried,
    failed: &Failed,
) -> Result<(), Ended> {
    let plan = plans.upstream;
    let local = &plans.view.upstreams[plans.upstream_index];
    let shard = &local.servers[failed.server.index()].shard;
    shard.failures.record(failed.failure.phase);
    let Kind::Server(cause) = failed.kind else { return Err(failed.failure.into()) };
    let now = clock::now();
    session.now = now;
    let facts = FailedAttempt {
        cause,
        sent_any: failed.sent_any,
        received_any: failed.received_any,
        answered_any: exchange.answered,
        reused_connection: failed.reused,
        idempotent: exchange.request.method().is_idempotent(),
        // No part of the body has been taken from the input yet, or there is none.
        body_replayable: exchange.request_relay.moved == 0,
        attempts: exchange.record.attempts,
        stale_connections: tried.stale_connections,
        elapsed: now.saturating_duration_since(exchange.record.began),
    };
    let millis = plan.millis(now);
    match plan.retry.judge(&facts, || plan.retry_budget.try_take(millis)) {
        Verdict::GiveUp(_) => {
            let failure = if failed.is_stale() { as_stale(failed.failure) } else { failed.failure };
            Err(failure.into())
        }
        Verdict::Retry { server, counts_as_attempt } => {
            if counts_as_attempt {
                local.shard.retries.increment();
                shard.retries.increment();
            } else {
                tried.stale_connections += 1;
                exchange.record.attempts -= 1;
                shard.stale_reuses.increment();
            }
            match server {
                NextServer::SameFresh => {}
                NextServer::OtherFirst => tried.excluded.avoid(failed.server),
                NextServer::OtherOnly => tried.excluded.insert(failed.server),
            }
            tried.fresh = server == NextServer::SameFresh;
            tried.last = Some(failed.failure);
            exchange.rewind();
            Ok(())
        }
    }
}

fn as_stale(failure: Failure) -> Failure {
    Failure { cause: Cause::StaleConnection, ..failure }
}
