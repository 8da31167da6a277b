//! The servers that were tried, as logs and fields of responses show them: `{servers}` and the like (nginx: `$upstream_addr`, `$upstream_status`,
//! `$upstream_response_time`).
//!
//! Nothing is collected for it: the attempts are those that the flight recorder has, and what an exchange leaves behind when it goes on elsewhere
//! ([`EarlierAttempts`]).

use std::rc::Rc;
use std::sync::Arc;

use weir_config::Upstream;
use weir_http::digits;
use weir_observe::Failure;
use weir_traffic::retry::RetryRefusal;

use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::rerouting::EarlierAttempts;
use crate::net::clock::{self, Instant};
use crate::state::tracing::recorder::{ATTEMPTS_KEPT, Decision, NONE, TracedAttempt};
use crate::state::worker_config::WorkerConfig;

/// An attempt, and what is known beside it.
struct Tried<'a> {
    upstream: &'a Upstream,
    attempt: &'a TracedAttempt,
    /// The status that its server has answered with, if it is the last of its upstream and has not failed.
    status: u16,
    ended: Instant,
    /// Whether others before it are not known.
    follows_gap: bool,
}

/// Appends the names of the servers.
#[cold]
pub(super) fn write_names(exchange: &Exchange, out: &mut Vec<u8>) {
    write(exchange, out, |tried, out| {
        let server = tried.upstream.servers.get(tried.attempt.server as usize);
        out.extend_from_slice(server.map_or(&*tried.upstream.name, |server| &server.name).as_bytes());
        // As in nginx, the upstream comes last where no other of its servers could be tried.
        if tried.attempt.server != NONE
            && tried.attempt.decision == Decision::GiveUp(RetryRefusal::NoOtherServer)
        {
            out.extend_from_slice(b", ");
            out.extend_from_slice(tried.upstream.name.as_bytes());
        }
    });
}

/// Appends what they have answered with.
#[cold]
pub(super) fn write_statuses(exchange: &Exchange, out: &mut Vec<u8>) {
    write(exchange, out, |tried, out| {
        let of_failure = || tried.attempt.failure.and_then(Failure::status);
        let is_answer = tried.attempt.failure.is_none() && tried.attempt.server != NONE;
        let known = [tried.attempt.status, if is_answer { tried.status } else { 0 }];
        match known.into_iter().find(|status| *status != 0).or_else(of_failure) {
            Some(status) => digits::decimal(out, status.into()),
            None => out.push(b'-'),
        }
    });
}

/// Appends what they have taken.
#[cold]
pub(super) fn write_times(exchange: &Exchange, out: &mut Vec<u8>) {
    write(exchange, out, |tried, out| {
        let ended = tried.attempt.failed_at.unwrap_or(tried.ended);
        let millis = ended.saturating_duration_since(tried.attempt.began).as_millis();
        out.extend_from_slice(format!("{}.{:03}", millis / 1000, millis % 1000).as_bytes());
    });
}

/// Appends something of each attempt, with commas between.
fn write(exchange: &Exchange, out: &mut Vec<u8>, part: impl Fn(&Tried<'_>, &mut Vec<u8>)) {
    let record = &exchange.record;
    let current = record.upstream.zip(record.served());
    let current = current.and_then(|(index, served)| served.snapshot.upstreams.get(index));
    let earlier = exchange.rerouting().map_or(&[][..], |way| &way.tried);
    let seen = usize::from(exchange.attempt_trace.seen());
    let mut is_first = true;
    for (place, attempt) in exchange.attempt_trace.attempts().enumerate() {
        // Of too many, the last one is the last of all.
        let is_last = place + 1 == ATTEMPTS_KEPT;
        let number = if is_last { seen - 1 } else { place };
        let own = earlier.iter().find(|earlier| number < usize::from(earlier.seen));
        let (upstream, status, ended) = match (own, current) {
            (Some(own), _) if number + 1 == usize::from(own.seen) => (&own.upstream, own.status, own.ended),
            (Some(own), _) => (&own.upstream, 0, own.ended),
            (None, Some(plan)) if number + 1 == seen => {
                (&plan.config, exchange.response.status(), clock::now())
            }
            (None, Some(plan)) => (&plan.config, 0, clock::now()),
            (None, None) => continue,
        };
        let tried = Tried { upstream, attempt, status, ended, follows_gap: number > place };
        if !std::mem::take(&mut is_first) {
            out.extend_from_slice(b", ");
        }
        if tried.follows_gap {
            out.extend_from_slice(b"..., ");
        }
        part(&tried, out);
    }
}

impl Exchange {
    /// The upstream that it goes to has the place `upstream` in a newer config.
    #[cold]
    pub(super) fn move_on(&mut self, config: &Rc<WorkerConfig>, upstream: usize) {
        self.note_tried();
        self.record.move_on(config, upstream);
    }

    /// What was tried so far is of the upstream that it has now: it gets another one, or the same after a reload.
    #[cold]
    pub(super) fn note_tried(&mut self) {
        let seen = self.attempt_trace.seen();
        let before = self.rerouting().and_then(|way| way.tried.last()).map_or(0, |earlier| earlier.seen);
        let served = self.record.upstream.zip(self.record.served());
        let plan = served.and_then(|(index, served)| served.snapshot.upstreams.get(index));
        if let Some(upstream) = plan.map(|plan| Arc::clone(&plan.config)).filter(|_| seen > before) {
            let (status, ended) = (self.response.status(), clock::now());
            self.rerouting_mut().tried.push(EarlierAttempts { upstream, seen, status, ended });
        }
    }
}
