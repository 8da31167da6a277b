//! The flight recorder of one worker: records of completed exchanges, to explain their outcome later.
//!
//! The worker alone writes and reads it: a query is a message, which is answered between two steps of the event loop.
//! No lock, and no allocation once the rings have their memory. Must not format text: the caller does.

mod ring;
mod query;
mod entry;
mod attempt_trace;
mod words;

use std::cell::RefCell;

use weir_observe::Failure;

use crate::net::clock;
pub(crate) use attempt_trace::AttemptTrace;
pub use attempt_trace::{ATTEMPTS_KEPT, Decision, TracedAttempt};
pub(crate) use entry::UnusedConnection;
pub use entry::{ClientTransport, Entry, EntryKind, NONE, RecordedExchange};
pub use query::{ExchangeFilter, RecordedPlace, RecorderQuery, RecorderQueryMessage};
use ring::Ring;
use words::PackedWords;
pub(crate) use words::RequestWords;
pub use words::Words;

/// Of so many exchanges that are kept, room for one that took more than one attempt is kept besides.
const EXCHANGES_PER_RETRIED: usize = 16;

/// What one worker keeps.
#[derive(Debug)]
pub(crate) struct Recorder(RefCell<Rings>);

#[derive(Debug)]
struct Rings {
    number: u64,
    /// Successes at the first attempt.
    exchanges: Ring<Entry>,
    /// Successes that took more attempts.
    retried: Ring<RecordedExchange>,
    /// Failures, which no success pushes out.
    failures: Ring<RecordedExchange>,
    blank: RecordedExchange,
}

impl Recorder {
    /// A recorder of these sizes; `None` if nothing is to be kept.
    pub(crate) fn new(limits: &weir_config::RecorderSettings) -> Option<Self> {
        let (exchanges, failures) = (limits.exchanges as usize, limits.failures as usize);
        (exchanges + failures > 0).then(|| {
            Self(RefCell::new(Rings {
                number: 0,
                exchanges: Ring::new(exchanges),
                retried: Ring::new(exchanges.div_ceil(EXCHANGES_PER_RETRIED)),
                failures: Ring::new(failures),
                blank: RecordedExchange::blank(clock::now()),
            }))
        })
    }

    /// Keeps an exchange that was a success at its first attempt; `fill` sets everything but its number.
    #[inline]
    pub(crate) fn record(&self, fill: impl FnOnce(&mut Entry)) {
        let Ok(mut rings) = self.0.try_borrow_mut() else { return };
        let Rings { number, exchanges, blank, .. } = &mut *rings;
        *number += 1;
        if let Some(slot) = exchanges.next_slot(&blank.entry) {
            slot.number = *number;
            fill(slot);
        }
    }

    /// Keeps one that failed, took several attempts, or has been a tunnel; `fill` sets everything but its number.
    #[cold]
    pub(crate) fn record_full(&self, fill: impl FnOnce(&mut RecordedExchange)) {
        let Ok(mut rings) = self.0.try_borrow_mut() else { return };
        let Rings { number, exchanges, retried, failures, blank } = &mut *rings;
        *number += 1;
        let mut recorded = *blank;
        recorded.entry.number = *number;
        fill(&mut recorded);
        let is_failure = recorded.entry.failure.is_some();
        if !is_failure && recorded.entry.attempts_seen <= 1 {
            if let Some(slot) = exchanges.next_slot(&blank.entry) {
                *slot = recorded.entry;
            }
            return;
        }
        let ring = if is_failure { failures } else { retried };
        if let Some(slot) = ring.next_slot(blank) {
            *slot = recorded;
        }
    }

    /// Keeps a client connection that ended before there was an exchange on it.
    #[cold]
    pub(crate) fn record_connection(
        &self,
        failure: Failure,
        connection: UnusedConnection,
        generation: u64,
        listener: usize,
    ) {
        let Ok(mut rings) = self.0.try_borrow_mut() else { return };
        let Rings { number, failures, blank, .. } = &mut *rings;
        *number += 1;
        let Some(slot) = failures.next_slot(blank) else { return };
        *slot = *blank;
        slot.entry = Entry {
            number: *number,
            connection: connection.number,
            began: connection.opened_at,
            ended: clock::now(),
            generation,
            listener: listener as u32,
            peer: connection.peer,
            transport: connection.transport,
            failure: Some(failure),
            kind: EntryKind::NoRequest,
            ..blank.entry
        };
    }
}

/// What a tunnel keeps of its beginning until it is over, in as little memory as can be.
#[derive(Debug)]
pub(crate) struct TunnelTrace {
    pub(crate) words: PackedWords,
    pub(crate) client: Option<std::net::IpAddr>,
    pub(crate) attempts: Box<[TracedAttempt]>,
    pub(crate) attempts_seen: u8,
}
