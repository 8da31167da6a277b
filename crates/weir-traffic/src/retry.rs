//! Whether a failed attempt may go again: one decision for the whole of Weir.
//!
//! Two questions, in this order: is it safe (RFC 9110 section 9.2.2: a request that may have had an effect is
//! not repeated unless its method is idempotent), and is it wise (attempts, time, budget). The facts are
//! plain data; nothing here knows connections.

mod budget;

pub use budget::RetryBudget;

use std::time::Duration;

/// The retry part of an upstream's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The most attempts of one request, the first included; 1 means no retries.
    pub attempts_max: u32,
    /// No retry begins later than this after the request's first attempt began.
    pub elapsed_max: Duration,
    /// Whether an idempotent request goes again when the connection broke, or the answer was malformed, after
    /// it was sent.
    pub on_connection_error: bool,
    /// Whether an idempotent request goes again when no answer came in time.
    pub on_timeout: bool,
    /// Status codes for which an idempotent request goes again: 502, 503 and 504, say. Sorted.
    pub on_status: Vec<u16>,
    /// Statuses of gRPC for which a call goes again, by their numbers. Sorted. Listing one says that calls may be repeated then.
    pub on_grpc_status: Vec<u8>,
    /// Whether a request that timed out, or got a listed status, goes to the same server again when no other may take it.
    pub same_server: bool,
    /// The least time between the failure of an attempt and the next one; it doubles with each, up to [`BACKOFF_GROWTH_MAX`] times.
    pub backoff: Duration,
}

/// How much longer than the first the last pauses between attempts are.
pub const BACKOFF_GROWTH_MAX: u32 = 8;

/// Two attempts, after broken connections, whatever the status. A server that has not answered in time may be at work, so its request is not
/// repeated. The second attempt begins within a minute and a half: where timeouts are repeated as well, there is time left after the first has waited
/// for a response for as long as an upstream lets it (a minute).
impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy {
            attempts_max: 2,
            elapsed_max: Duration::from_secs(90),
            on_connection_error: true,
            on_timeout: false,
            on_status: Vec::new(),
            on_grpc_status: Vec::new(),
            same_server: false,
            backoff: Duration::ZERO,
        }
    }
}

/// How an attempt failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryCause {
    /// No connection: refused, unreachable, TLS failed, or not there in time.
    Connect,
    /// The connection broke, or the response was malformed, before the response head was complete.
    ConnectionError,
    /// The request could not be sent, or the response head did not come, in time.
    Timeout,
    /// A response came, with this status.
    Status(u16),
    /// A gRPC call got this status and nothing else.
    GrpcStatus(u8),
    /// The server has refused the request before it did anything with it (RFC 9113 section 8.7).
    StreamRefused,
    /// The server takes no more requests on this connection, and has not taken this one (RFC 9113 section 6.8).
    GoAway,
    /// The server wants this request over HTTP/1.1, and has not processed it (RFC 9113 section 7, HTTP_1_1_REQUIRED).
    Http1Required,
}

/// How often one request goes again that servers have not processed: none of that has an effect, but it must have an end.
const UNPROCESSED_MAX: u32 = 5;

/// How often one request goes on to another server after a connection was refused, which takes no time, without using up an attempt.
const REFUSED_MAX: u32 = 64;

/// The same for all connections that could not be had, those included that were not there in time.
const UNREACHED_MAX: u32 = 3;

/// The facts about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempt {
    /// How it failed.
    pub cause: RetryCause,
    /// Whether any byte of the request left for the server.
    pub sent_any: bool,
    /// Whether any byte of a response came.
    pub received_any: bool,
    /// Whether any byte of a response has gone to the client; then nothing can be repeated.
    pub answered_any: bool,
    /// Whether it ran on a kept connection that others had used before.
    pub reused_connection: bool,
    /// Whether the request may be done twice: its method is idempotent (RFC 9110 section 9.2.2: GET, HEAD, OPTIONS,
    /// TRACE, PUT, DELETE), or the config declares it repeatable.
    pub repeatable: bool,
    /// Whether all of the body that was sent is still at hand, which is so for a request without one.
    pub body_replayable: bool,
    /// Whether a server could take it on which it has not failed for good, this time included.
    pub other_server: bool,
    /// Whether a server could take it on which it has not failed yet, as far as that is remembered.
    pub untried_server: bool,
    /// Whether the server had closed the connection before a byte of the request reached its machine: it cannot have read any.
    pub was_unread: bool,
    /// Whether the connection was refused: nothing listens there.
    pub was_refused: bool,
    /// Attempts so far, this one included, those on stale connections, those that were not processed and those that passed over a server not.
    pub attempts: u32,
    /// How often this request has already passed over a server because the connection was refused, this time not included.
    pub refused: u32,
    /// How often because it could not be had otherwise.
    pub unreached: u32,
    /// How often this request has already met a stale connection, this time not included.
    pub stale_connections: u32,
    /// How often servers have already left this request unprocessed, this time not included.
    pub unprocessed: u32,
    /// Time since the first attempt began.
    pub elapsed: Duration,
}

/// The decision about a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// Go again.
    Retry {
        /// Where.
        server: NextServer,
        /// It counts as an attempt; one that met a stale connection, or was not processed, does not.
        counts_as_attempt: bool,
    },
    /// Tell the client.
    GiveUp(RetryRefusal),
}

/// Where a request goes after a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NextServer {
    /// To the same server on another connection: only the old connection was at fault, or came to its end.
    SameFresh,
    /// To another server, or to the same one when there is no other: see
    /// [`Excluded::avoid`](crate::balance::Excluded::avoid).
    OtherFirst,
    /// To another server, or not at all, because it was a timeout or a status, which the
    /// same one would repeat: see [`Excluded::insert`](crate::balance::Excluded::insert).
    OtherOnly,
}

/// Why a failed attempt is not repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RetryRefusal {
    /// The client has part of the answer.
    ResponseStarted,
    /// The server may have acted on it, and the method is not idempotent.
    NotIdempotent,
    /// Part of the body is gone.
    BodyNotReplayable,
    /// The policy does not retry this kind of failure.
    NotConfigured,
    /// All attempts are used.
    AttemptsExhausted,
    /// Too much time has gone by.
    TimeLimit,
    /// The failure was a timeout or a status, which the same server would repeat, and no other may take it.
    NoOtherServer,
    /// The upstream's budget is used: more retries would feed an outage.
    BudgetExhausted,
}

impl RetryCause {
    /// Its place among the causes, whatever the status.
    pub const fn index(self) -> usize {
        match self {
            RetryCause::Connect => 0,
            RetryCause::ConnectionError => 1,
            RetryCause::Timeout => 2,
            RetryCause::Status(_) => 3,
            RetryCause::StreamRefused => 4,
            RetryCause::GoAway => 5,
            RetryCause::GrpcStatus(_) => 6,
            RetryCause::Http1Required => 7,
        }
    }

    /// The stable lower-case name: label in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            RetryCause::Connect => "connect",
            RetryCause::ConnectionError => "connection-error",
            RetryCause::Timeout => "timeout",
            RetryCause::Status(_) => "status",
            RetryCause::StreamRefused => "stream-refused",
            RetryCause::GoAway => "go-away",
            RetryCause::GrpcStatus(_) => "grpc-status",
            RetryCause::Http1Required => "http1-required",
        }
    }

    /// Whether the server has said that it did nothing with the request, so that any request may go again.
    pub const fn is_unprocessed(self) -> bool {
        matches!(self, RetryCause::StreamRefused | RetryCause::GoAway | RetryCause::Http1Required)
    }
}

impl RetryRefusal {
    /// All of them, in the order of their values.
    pub const ALL: [RetryRefusal; 8] = [
        RetryRefusal::ResponseStarted,
        RetryRefusal::NotIdempotent,
        RetryRefusal::BodyNotReplayable,
        RetryRefusal::NotConfigured,
        RetryRefusal::AttemptsExhausted,
        RetryRefusal::TimeLimit,
        RetryRefusal::NoOtherServer,
        RetryRefusal::BudgetExhausted,
    ];

    /// The stable kebab-case name: label in metrics, word in the log.
    pub const fn name(self) -> &'static str {
        match self {
            RetryRefusal::ResponseStarted => "response-started",
            RetryRefusal::NotIdempotent => "not-idempotent",
            RetryRefusal::BodyNotReplayable => "body-not-replayable",
            RetryRefusal::NotConfigured => "not-configured",
            RetryRefusal::AttemptsExhausted => "attempts-exhausted",
            RetryRefusal::TimeLimit => "time-limit",
            RetryRefusal::NoOtherServer => "no-other-server",
            RetryRefusal::BudgetExhausted => "budget-exhausted",
        }
    }
}

impl RetryPolicy {
    /// Decides about a failed attempt. `take_from_budget` is called at most once and only when nothing else
    /// speaks against a retry; it says whether the budget allows one more, and takes it. It is not called when
    /// the attempt reached no server, or was not processed: then the retry is no load that was not there before.
    pub fn judge(&self, failed: &FailedAttempt, take_from_budget: impl FnOnce() -> bool) -> RetryDecision {
        match self.objection(failed) {
            Some(reason) => RetryDecision::GiveUp(reason),
            None if failed.is_stale() => {
                RetryDecision::Retry { server: NextServer::SameFresh, counts_as_attempt: false }
            }
            None if failed.cause.is_unprocessed() => {
                RetryDecision::Retry { server: self.next_server(failed.cause), counts_as_attempt: false }
            }
            None if failed.sent_any && !take_from_budget() => {
                RetryDecision::GiveUp(RetryRefusal::BudgetExhausted)
            }
            None => RetryDecision::Retry { server: self.next_server(failed.cause), counts_as_attempt: true },
        }
    }

    /// How long to wait after so many attempts, the first included, before the next.
    pub fn pause(&self, attempts: u32) -> Duration {
        self.backoff * 2_u32.saturating_pow(attempts.saturating_sub(1)).min(BACKOFF_GROWTH_MAX)
    }

    fn next_server(&self, cause: RetryCause) -> NextServer {
        match cause.next_server() {
            NextServer::OtherOnly if self.same_server => NextServer::OtherFirst,
            server => server,
        }
    }

    fn objection(&self, failed: &FailedAttempt) -> Option<RetryRefusal> {
        if failed.answered_any {
            return Some(RetryRefusal::ResponseStarted);
        }
        let is_unprocessed = failed.cause.is_unprocessed();
        let is_listed = matches!(failed.cause, RetryCause::GrpcStatus(_));
        let is_unread = failed.was_unread && failed.is_stale();
        if failed.sent_any && !failed.repeatable && !is_unprocessed && !is_listed && !is_unread {
            return Some(RetryRefusal::NotIdempotent);
        }
        if !failed.body_replayable {
            return Some(RetryRefusal::BodyNotReplayable);
        }
        if is_unprocessed {
            return (failed.unprocessed >= UNPROCESSED_MAX).then_some(RetryRefusal::AttemptsExhausted);
        }
        if failed.is_stale() {
            return None;
        }
        if failed.sent_any && !self.covers(failed.cause) {
            return Some(RetryRefusal::NotConfigured);
        }
        if failed.attempts >= self.attempts_max && !self.passes_over(failed) {
            return Some(RetryRefusal::AttemptsExhausted);
        }
        if failed.elapsed >= self.elapsed_max {
            return Some(RetryRefusal::TimeLimit);
        }
        let lonely = self.next_server(failed.cause) == NextServer::OtherOnly && !failed.other_server;
        lonely.then_some(RetryRefusal::NoOtherServer)
    }

    /// Whether the request goes on to a server that it has not tried, and this was no attempt: no server was reached. After a rollout or a scaling
    /// down, any number of servers may be gone that their source still names.
    pub fn passes_over(&self, failed: &FailedAttempt) -> bool {
        let is_within =
            if failed.was_refused { failed.refused < REFUSED_MAX } else { failed.unreached < UNREACHED_MAX };
        let is_unreached = failed.cause == RetryCause::Connect && !failed.sent_any;
        self.attempts_max > 1 && is_unreached && failed.untried_server && is_within
    }

    fn covers(&self, cause: RetryCause) -> bool {
        match cause {
            RetryCause::Connect
            | RetryCause::StreamRefused
            | RetryCause::GoAway
            | RetryCause::Http1Required => true,
            RetryCause::ConnectionError => self.on_connection_error,
            RetryCause::Timeout => self.on_timeout,
            RetryCause::Status(status) => self.on_status.contains(&status),
            RetryCause::GrpcStatus(status) => self.on_grpc_status.contains(&status),
        }
    }
}

impl RetryCause {
    fn next_server(self) -> NextServer {
        match self {
            RetryCause::GoAway | RetryCause::Http1Required => NextServer::SameFresh,
            RetryCause::Connect
            | RetryCause::ConnectionError
            | RetryCause::StreamRefused
            | RetryCause::GrpcStatus(_) => NextServer::OtherFirst,
            RetryCause::Timeout | RetryCause::Status(_) => NextServer::OtherOnly,
        }
    }
}

impl FailedAttempt {
    /// Whether a kept connection broke before it gave one byte: the server closed it while the request was on
    /// its way, which says nothing about the server. At most once per attempt, since what follows uses a
    /// fresh connection.
    fn is_stale(&self) -> bool {
        self.reused_connection
            && self.cause == RetryCause::ConnectionError
            && !self.received_any
            && self.stale_connections < self.attempts
    }
}

#[cfg(test)]
mod tests;
