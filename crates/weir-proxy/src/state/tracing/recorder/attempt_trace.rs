//! The attempts of an exchange, recorded while it runs: the candidates, the chosen server, the connection and the outcome.
//!
//! Part of the exchange and reused with it. Copies numbers only: they are resolved to names on a query. Must not allocate for the
//! first attempt.

use std::sync::Arc;

use weir_observe::Failure;
use weir_traffic::retry::RetryRefusal;
use weir_traffic::{ServerId, ServerState, ServerSummary};

use crate::net::clock::{self, Instant};

/// The value for "none".
pub const NONE: u32 = u32::MAX;

/// Attempts of one exchange that are noted; of more, the first ones and the last.
pub const ATTEMPTS_KEPT: usize = 4;

/// Servers that are noted for each choice.
pub(crate) const CANDIDATES_KEPT: usize = 6;

/// The attempts of one exchange.
#[derive(Debug)]
pub(crate) struct AttemptTrace {
    first: TracedAttempt,
    /// Those behind it; most exchanges have none.
    later: Vec<TracedAttempt>,
    /// How many there were.
    seen: u8,
}

/// One attempt.
#[derive(Debug, Clone, Copy)]
pub struct TracedAttempt {
    /// When it began.
    pub began: Instant,
    /// When it failed; that of a failure that ended the exchange is the end of the exchange.
    pub failed_at: Option<Instant>,
    /// When its connection was opened; before `began` when it was reused.
    pub opened_at: Option<Instant>,
    /// Exchanges that its connection had carried before.
    pub carried: u64,
    /// Its place; [`NONE`] when no server could take the exchange.
    pub server: u32,
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// The status that was no good, where that is why it failed.
    pub status: u16,
    /// Whether any of the request was sent.
    pub sent_any: bool,
    /// Whether any of the response was received.
    pub received_any: bool,
    /// What was decided after it failed.
    pub decision: Decision,
    /// Servers of the upstream.
    pub servers: u32,
    /// The place of the first of `candidates`; the others follow it.
    pub(crate) first_candidate: u32,
    pub(crate) candidates: [ServerSummary; CANDIDATES_KEPT],
}

/// What was decided after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There was nothing to decide.
    None,
    /// Another attempt, on another server if there is one.
    Again,
    /// The same server, on a new connection.
    Fresh,
    /// Another attempt, for the part that the client wants: the whole was asked for to be stored, and cannot be.
    Part,
    /// Another attempt, without conditions: the server has confirmed another version than the one that it was asked about.
    Unconditional,
    /// Another attempt behind the handshake of the client: the server does not take the request before.
    Confirmed,
    /// No other attempt, although the server or the way to it was at fault.
    GiveUp(RetryRefusal),
}

impl TracedAttempt {
    pub(crate) fn blank(now: Instant) -> Self {
        Self {
            began: now,
            failed_at: None,
            opened_at: None,
            carried: 0,
            server: 0,
            failure: None,
            status: 0,
            sent_any: false,
            received_any: false,
            decision: Decision::None,
            servers: 0,
            first_candidate: 0,
            candidates: [ServerSummary::default(); CANDIDATES_KEPT],
        }
    }

    /// Records the state of the servers, or of some of many: the one at `place` among them.
    #[inline]
    fn look(&mut self, states: &[Arc<ServerState>], place: usize) {
        self.servers = states.len() as u32;
        let first =
            if states.len() <= CANDIDATES_KEPT { 0 } else { place.min(states.len() - CANDIDATES_KEPT) };
        self.first_candidate = first as u32;
        for (glance, state) in self.candidates.iter_mut().zip(&states[first..]) {
            *glance = state.summary();
        }
    }

    /// The recorded candidates, with their places.
    pub fn candidates(&self) -> impl Iterator<Item = (u32, ServerSummary)> {
        (self.first_candidate..self.servers).zip(self.candidates)
    }
}

impl AttemptTrace {
    pub(crate) fn new() -> Self {
        Self { first: TracedAttempt::blank(clock::now()), later: Vec::new(), seen: 0 }
    }

    pub(crate) fn reset(&mut self) {
        self.seen = 0;
        self.later.clear();
    }

    /// Attempts that there were.
    pub(crate) fn seen(&self) -> u8 {
        self.seen
    }

    /// The first one; what is left of another exchange when there was none.
    #[inline]
    pub(crate) fn first(&self) -> &TracedAttempt {
        &self.first
    }

    /// The first one and the others that were noted, if there was any.
    pub(crate) fn parts(&self) -> Option<(&TracedAttempt, &[TracedAttempt])> {
        (self.seen > 0).then_some((&self.first, &self.later))
    }

    /// Those that were noted.
    pub(crate) fn attempts(&self) -> impl Iterator<Item = &TracedAttempt> {
        self.parts().into_iter().flat_map(|(first, later)| std::iter::once(first).chain(later))
    }

    /// The last one.
    pub(crate) fn latest(&self) -> Option<&TracedAttempt> {
        let (first, later) = self.parts()?;
        Some(later.last().unwrap_or(first))
    }

    /// An attempt on `server` begins, which has just been chosen from those of `states`.
    #[inline]
    pub(crate) fn begin(&mut self, states: &[Arc<ServerState>], server: ServerId, began: Instant) {
        if self.seen > 0 {
            self.begin_later(began);
        }
        self.seen = self.seen.saturating_add(1);
        let attempt = self.last();
        attempt.began = began;
        (attempt.failed_at, attempt.opened_at, attempt.failure) = (None, None, None);
        (attempt.decision, attempt.status) = (Decision::None, 0);
        attempt.server = server.0;
        attempt.look(states, server.index());
    }

    /// No server could take it: all candidates are recorded, and none is chosen.
    #[cold]
    pub(crate) fn no_server(&mut self, states: &[Arc<ServerState>], now: Instant) {
        self.begin(states, ServerId(NONE), now);
        self.last().look(states, 0);
    }

    /// Room for one behind the first; of too many, the last gives way.
    #[cold]
    fn begin_later(&mut self, began: Instant) {
        self.later.truncate(ATTEMPTS_KEPT - 2);
        self.later.push(TracedAttempt::blank(began));
    }

    fn last(&mut self) -> &mut TracedAttempt {
        self.later.last_mut().unwrap_or(&mut self.first)
    }

    /// The attempt has its connection.
    #[inline]
    pub(crate) fn connected(&mut self, opened_at: Instant, carried: u64) {
        let attempt = self.last();
        attempt.opened_at = Some(opened_at);
        attempt.carried = carried;
    }

    /// The attempt failed.
    pub(crate) fn failed(&mut self, failure: Failure, status: u16, sent_any: bool, received_any: bool) {
        let attempt = self.last();
        (attempt.failure, attempt.status) = (Some(failure), status);
        (attempt.sent_any, attempt.received_any) = (sent_any, received_any);
    }

    /// What was decided then.
    pub(crate) fn decided(&mut self, decision: Decision, now: Instant) {
        let attempt = self.last();
        (attempt.decision, attempt.failed_at) = (decision, Some(now));
    }
}

#[cfg(test)]
mod tests {
    use weir_observe::{Cause, Phase};

    use super::*;

    fn states(count: usize) -> Vec<Arc<ServerState>> {
        (0..count).map(|_| Arc::new(ServerState::new(1, 0))).collect()
    }

    #[test]
    fn the_first_attempts_and_the_last_are_noted() {
        let (states, now) = (states(9), clock::now());
        let mut trace = AttemptTrace::new();
        for server in 0..7 {
            trace.begin(&states, ServerId(server), now);
            trace.failed(Failure::server(Phase::Connect, Cause::Refused), 0, false, false);
        }
        let servers: Vec<u32> = trace.attempts().map(|noted| noted.server).collect();
        assert_eq!((servers, trace.seen()), (vec![0, 1, 2, 6], 7));
        trace.reset();
        trace.begin(&states, ServerId(8), now);
        assert_eq!((trace.attempts().count(), trace.first().failure), (1, None), "nothing is left of before");
    }

    #[test]
    fn the_chosen_one_is_always_among_the_candidates() {
        for count in 1..20 {
            let states = states(count);
            for server in 0..count as u32 {
                let mut trace = AttemptTrace::new();
                trace.begin(&states, ServerId(server), clock::now());
                let noted: Vec<u32> = trace.first().candidates().map(|(place, _)| place).collect();
                assert!(noted.contains(&server), "{server} of {count}: {noted:?}");
                assert_eq!(noted.len(), count.min(CANDIDATES_KEPT));
            }
        }
    }
}
