//! The deadline of the current wait of a connection.
//!
//! Every phase sets its own limit by moving the deadline, which costs a store. The timer of the connection is touched only
//! when a wait begins that must end earlier than the timer is set for, or when it fires early: with steady traffic,
//! about once a minute. Must not decide what a passed deadline means.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};

use super::idleness::IdleWait;
use super::timers::{NEVER, Tick, Timer, Timers};
use crate::net::clock::Instant;

/// Why every wait is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// An operator, or the stop of the process, ends the connection.
    Requested,
    /// Memory or buffers are short, and its client makes the slowest progress.
    MemoryShort,
    /// A new connection needs its place, and it has been without a whole request head for long.
    PlaceNeeded,
    /// The server of its exchange has gone down: the exchange on it ends, not the connection.
    ServerDown,
}

/// A deadline that can be moved for free, and the timer behind it.
#[derive(Debug)]
pub(crate) struct Deadline {
    timers: Rc<Timers>,
    /// The timer of the connection's task, once it has one.
    timer: Option<Timer>,
    at: Tick,
    /// What limits the whole exchange; no phase moves it.
    ceiling: Tick,
    /// A time at which the task has to be polled, independent of the limits.
    look: Tick,
    /// Why the connection is to end now, if it is: every wait is over.
    cut: Option<Cut>,
}

impl Deadline {
    /// No limit yet, no timer.
    pub(crate) fn new(timers: &Rc<Timers>) -> Self {
        Self { timers: Rc::clone(timers), timer: None, at: NEVER, ceiling: NEVER, look: NEVER, cut: None }
    }

    /// Gets a timer for the task that polls; to be called once, before the first wait.
    pub(crate) fn enter(&mut self, cx: &Context<'_>) {
        debug_assert!(self.timer.is_none(), "a connection is one task");
        self.timer = Some(self.timers.add(cx.waker().clone()));
    }

    /// Gives the timer back; whether there was one.
    pub(crate) fn leave(&mut self) -> bool {
        let timer = self.timer.take();
        if let Some(timer) = timer {
            self.timers.remove(timer);
        }
        timer.is_some()
    }

    /// Bounds every wait from now on by `ceiling` as well; `None` lifts the bound.
    pub(crate) fn set_ceiling(&mut self, ceiling: Option<Instant>) {
        self.ceiling = self.tick(ceiling);
    }

    /// Bounds every wait by `at` as well; gives what [`Deadline::lift`] takes back.
    pub(crate) fn narrow(&mut self, at: Option<Instant>) -> Tick {
        let before = self.ceiling;
        self.ceiling = before.min(self.tick(at));
        before
    }

    /// Takes a bound back; whether it was what bounded waits.
    pub(crate) fn lift(&mut self, before: Tick) -> bool {
        std::mem::replace(&mut self.ceiling, before) < before
    }

    /// Lets the current wait last until `limit` after `now`; `None` means without limit.
    pub(crate) fn set(&mut self, now: Instant, limit: Option<Duration>) {
        self.set_at(limit.map(|limit| now + limit));
    }

    /// Lets the current wait last until `at`.
    pub(crate) fn set_at(&mut self, at: Option<Instant>) {
        self.at = self.tick(at);
    }

    /// Has the task polled at `at` at the latest, as long as it waits.
    pub(crate) fn look_again(&mut self, at: Instant) {
        self.look = self.timers.tick(at);
    }

    /// Whether the limit of the whole exchange, not that of the phase, is what passes first.
    pub(crate) fn ends_with_ceiling(&self) -> bool {
        self.ceiling < self.at
    }

    /// Ends every wait from now on.
    pub(crate) fn cut(&mut self, why: Cut) {
        self.cut = Some(why);
    }

    /// Whether a wait was over because the connection is to end.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut_cause().is_some()
    }

    /// Why the connection is to end, if it is.
    pub(crate) fn cut_cause(&self) -> Option<Cause> {
        match self.cut? {
            Cut::Requested => Some(Cause::Killed),
            Cut::MemoryShort => Some(Cause::MemoryLimit),
            Cut::PlaceNeeded => Some(Cause::SlowHeadAtLimit),
            Cut::ServerDown => None,
        }
    }

    /// The failure of a wait in `phase` that was cut. Where it was for the server, what comes next is waited for again: another server, or
    /// the client to take the last bytes.
    pub(crate) fn cut_failure(&mut self, phase: Phase) -> Option<Failure> {
        match self.cut? {
            Cut::Requested => Some(Failure::weir(phase, Cause::Killed)),
            Cut::MemoryShort => Some(Failure::weir(phase, Cause::MemoryLimit)),
            Cut::PlaceNeeded => Some(Failure::weir(phase, Cause::SlowHeadAtLimit)),
            Cut::ServerDown => {
                self.cut = None;
                Some(Failure::server(phase, Cause::ServerDown))
            }
        }
    }

    /// The failure that ended a wait in `phase`: `passed`, unless the end of the connection was requested.
    pub(crate) fn failure(&self, phase: Phase, passed: Failure) -> Failure {
        self.cut_cause().map_or(passed, |cause| Failure::weir(phase, cause))
    }

    /// The connection waits for its next request on a listener; whether it is to end, to make room for a new connection.
    pub(crate) fn begin_idle(&self, wait: IdleWait) -> bool {
        self.timer.is_some_and(|timer| self.timers.begin_idle(timer, wait))
    }

    /// Its request has come.
    pub(crate) fn end_idle(&self) {
        if let Some(timer) = self.timer {
            self.timers.end_idle(timer);
        }
    }

    /// Ready when the deadline has passed; else the task is woken when it does. To be polled last, when everything
    /// else is pending.
    pub(crate) fn poll_passed(&mut self) -> Poll<()> {
        if self.cut.is_some() {
            return Poll::Ready(());
        }
        let at = self.at.min(self.ceiling);
        let wake_at = at.min(self.look);
        if wake_at == NEVER {
            return Poll::Pending;
        }
        let Some(timer) = self.timer else {
            debug_assert!(false, "a connection enters before it waits");
            return Poll::Pending;
        };
        if self.timers.wake_by(timer, wake_at) {
            return Poll::Pending;
        }
        self.look = NEVER;
        if at == NEVER || self.timers.wake_by(timer, at) { Poll::Pending } else { Poll::Ready(()) }
    }

    fn tick(&self, at: Option<Instant>) -> Tick {
        at.map_or(NEVER, |at| self.timers.tick(at))
    }
}
