//! A body that goes on no faster than limits on bandwidth allow: a [`Source`] that shows as much as may be sent.
//!
//! A piece is taken from the budget of each key before it is sent, and waits until all of them allow it. Bytes are not moved inside the kernel
//! meanwhile but those of files. Must not know why a body is limited, nor what happens to the exchange while it waits.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_http::FieldWriter;

use super::ends::{FileSlice, RelayError, Source};
use crate::net::clock::{self, Instant};
use crate::state::limits::limit::LimitPlan;

/// The budgets that a body is sent from.
#[derive(Debug)]
pub(crate) struct BodyPace {
    /// Limits, and the keys of the exchange.
    budgets: Vec<(Arc<LimitPlan>, u64)>,
    /// Bytes that may be sent now.
    granted: usize,
    /// Bytes that were taken, and when they may be sent.
    taken: Option<(usize, Instant)>,
    /// The place in `budgets` of the one that was waited for last; another one: that is its own rate.
    slowest: usize,
    /// The rate of this body alone.
    own: Option<OwnRate>,
}

/// A rate of one body.
#[derive(Debug)]
struct OwnRate {
    bytes_per_second: u64,
    /// When what was sent by now is paid for.
    paid_at: Option<Instant>,
}

/// So many pieces a second are sent of a body with a rate of its own.
const PIECES_PER_SECOND: u64 = 8;

impl OwnRate {
    /// How many of `wanted` bytes are taken next.
    fn next_piece(&self, wanted: usize) -> usize {
        let piece = (self.bytes_per_second / PIECES_PER_SECOND).max(1);
        wanted.min(usize::try_from(piece).unwrap_or(usize::MAX))
    }

    /// Takes the next bytes: when they may be sent.
    fn take(&mut self, len: usize, now: Instant) -> Instant {
        let at = self.paid_at.map_or(now, |paid_at| paid_at.max(now));
        let ns = (len as u64).saturating_mul(1_000_000_000) / self.bytes_per_second.max(1);
        self.paid_at = Some(at + Duration::from_nanos(ns));
        at
    }
}

impl BodyPace {
    pub(crate) fn new(budgets: Vec<(Arc<LimitPlan>, u64)>) -> Box<Self> {
        Box::new(Self { budgets, granted: 0, taken: None, slowest: 0, own: None })
    }

    /// Has it go on no faster than so many bytes per second, whatever limits allow.
    pub(crate) fn limit_rate(&mut self, bytes_per_second: u64) {
        self.own = Some(OwnRate { bytes_per_second, paid_at: None });
    }

    /// When the next bytes may be sent, and the limit that says so, unless it is the rate of the body; `None`: it does not wait for that.
    pub(crate) fn turn(&self) -> Option<(Instant, Option<&Arc<LimitPlan>>)> {
        let (_, at) = self.taken?;
        Some((at, self.budgets.get(self.slowest).map(|(plan, _)| plan)))
    }

    /// Takes the next piece of `wanted` bytes, unless some were granted, or are waited for.
    fn refill(&mut self, wanted: usize) {
        if self.granted > 0 || wanted == 0 {
            return;
        }
        let now = clock::now();
        let (len, at) = match self.taken.take() {
            Some(taken) => taken,
            None => self.take(wanted, now),
        };
        if now >= at {
            self.granted = len;
        } else {
            self.taken = Some((len, at));
        }
    }

    fn take(&mut self, wanted: usize, now: Instant) -> (usize, Instant) {
        let len = self.budgets.iter().fold(wanted, |len, (plan, key)| plan.next_piece(*key, len, now));
        let len = self.own.as_ref().map_or(len, |own| own.next_piece(len));
        let mut latest = now;
        for (place, (plan, key)) in self.budgets.iter().enumerate() {
            let at = plan.take_bytes(*key, len, now);
            if at > latest {
                (latest, self.slowest) = (at, place);
            }
        }
        if let Some(at) = self.own.as_mut().map(|own| own.take(len, now)).filter(|at| *at > latest) {
            (latest, self.slowest) = (at, usize::MAX);
        }
        (len, latest)
    }
}

impl Drop for BodyPace {
    fn drop(&mut self) {
        let left = self.granted + self.taken.map_or(0, |(len, _)| len);
        if left > 0 {
            self.budgets.iter().for_each(|(plan, key)| plan.give_back_bytes(*key, left));
        }
    }
}

/// A source behind a pace, if there is one.
pub(crate) struct Paced<'a, S> {
    pub(crate) source: &'a mut S,
    pub(crate) pace: Option<&'a mut BodyPace>,
}

impl<S: Source> Paced<'_, S> {
    /// Bytes that could be sent at once.
    fn ready(&self) -> usize {
        match self.source.data().len() {
            0 => self.source.file().map_or(0, |slice| slice.len),
            len => len,
        }
    }

    /// Bytes that may be sent now.
    fn granted(&self) -> usize {
        self.pace.as_ref().map_or(usize::MAX, |pace| pace.granted)
    }

    fn refill(&mut self) {
        let ready = self.ready();
        if let Some(pace) = &mut self.pace {
            pace.refill(ready);
        }
    }

    /// Counts bytes that were sent.
    fn count(&mut self, len: usize) {
        if let Some(pace) = &mut self.pace {
            pace.granted = pace.granted.saturating_sub(len);
        }
    }
}

impl<S: Source> Source for Paced<'_, S> {
    fn data(&self) -> &[u8] {
        let data = self.source.data();
        &data[..data.len().min(self.granted())]
    }

    fn take(&mut self, len: usize) {
        self.source.take(len);
        self.count(len);
    }

    fn decode(&mut self) -> Result<usize, RelayError> {
        let framing = self.source.decode()?;
        self.refill();
        Ok(framing)
    }

    fn is_finished(&self) -> bool {
        self.source.data().is_empty() && self.source.is_finished()
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        if self.pace.is_none() {
            return self.source.poll_read(cx);
        }
        self.refill();
        if self.granted() == 0 && self.ready() > 0 {
            // The exchange looks at the time of the turn.
            return Poll::Pending;
        }
        match self.source.data().is_empty() {
            true => self.source.poll_read(cx),
            false => Poll::Ready(Ok(())),
        }
    }

    fn has_trailers(&self) -> bool {
        self.source.has_trailers()
    }

    fn write_trailers(&self, out: &mut impl FieldWriter) {
        self.source.write_trailers(out);
    }

    fn file(&self) -> Option<FileSlice<'_>> {
        let slice = self.source.file().filter(|_| self.granted() > 0)?;
        Some(FileSlice { len: slice.len.min(self.granted()), ..slice })
    }

    fn poll_resident(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RelayError>> {
        self.source.poll_resident(cx)
    }

    fn skip(&mut self, len: usize) {
        self.source.skip(len);
        self.count(len);
    }
}
