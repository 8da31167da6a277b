//! The one lazy timer of a session.
//!
//! Every phase sets its own limit by moving the deadline, which costs a store. The timer of the event loop is
//! touched only when a wait begins that must end earlier than the timer is set for, or when it fires early: with
//! steady traffic, about once a minute. Must not decide what a passed deadline means.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;

/// A deadline that can be moved for free, and the timer behind it.
#[derive(Debug)]
pub(crate) struct Deadline {
    at: Option<Instant>,
    /// What limits the whole exchange; no phase moves it.
    ceiling: Option<Instant>,
    /// A moment at which the task wants to be polled, whatever the limits are.
    look: Option<Instant>,
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    set_for: Instant,
    /// Whether the task that polls has registered itself since the timer was last set.
    watched: bool,
}

impl Deadline {
    /// No limit yet, no timer.
    pub(crate) const fn new() -> Self {
        Self { at: None, ceiling: None, look: None, timer: None }
    }

    /// Bounds every wait from now on by `ceiling` as well; `None` lifts the bound.
    pub(crate) fn set_ceiling(&mut self, ceiling: Option<Instant>) {
        self.ceiling = ceiling;
    }

    /// Lets the current wait last until `limit` after `now`; `None` means without limit.
    pub(crate) fn set(&mut self, now: Instant, limit: Option<Duration>) {
        self.at = limit.map(|limit| now + limit);
    }

    /// Lets the current wait last until `at`.
    pub(crate) fn set_at(&mut self, at: Option<Instant>) {
        self.at = at;
    }

    /// Has the task polled at `at` at the latest, as long as it waits.
    pub(crate) fn look_again(&mut self, at: Option<Instant>) {
        self.look = at;
    }

    /// The moment the current wait ends.
    pub(crate) fn at(&self) -> Option<Instant> {
        match (self.at, self.ceiling) {
            (Some(at), Some(ceiling)) => Some(at.min(ceiling)),
            (at, ceiling) => at.or(ceiling),
        }
    }

    /// Whether the limit of the whole exchange, not that of the phase, is what passes first.
    pub(crate) fn ends_with_ceiling(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.at.is_none_or(|at| ceiling < at))
    }

    /// Ready when the deadline has passed. To be polled last, when everything else is pending.
    pub(crate) fn poll_passed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let at = self.at();
        let Some(wake_at) = at.into_iter().chain(self.look).min() else { return Poll::Pending };
        let timer = self.timer.get_or_insert_with(|| {
            let set_for = wake_at;
            Timer { sleep: Box::pin(tokio::time::sleep_until(set_for.into())), set_for, watched: false }
        });
        if wake_at < timer.set_for {
            timer.set(wake_at);
        }
        loop {
            if timer.watched && !timer.sleep.is_elapsed() {
                return Poll::Pending;
            }
            if timer.sleep.as_mut().poll(cx).is_pending() {
                timer.watched = true;
                return Poll::Pending;
            }
            self.look = None;
            match at {
                Some(at) if at <= timer.set_for => return Poll::Ready(()),
                Some(at) => timer.set(at),
                None => return Poll::Pending,
            }
        }
    }
}

impl Timer {
    fn set(&mut self, at: Instant) {
        self.sleep.as_mut().reset(at.into());
        self.set_for = at;
        self.watched = false;
    }
}
