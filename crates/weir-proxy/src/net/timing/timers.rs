//! The timers of a worker's connections, one each, and the wakers of their tasks.
//!
//! All of them together use one timer of the kernel: a wait begins and ends without touching it. Times are ticks of
//! 1 ms since the worker started, and a timer never fires early. Must not decide what a passed deadline means.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slab::Slab;

use super::alarm::Alarm;
use super::idleness::{Evictable, IdleWait, Idleness, Mark, Marked};
use super::wheel::{Link, Links, Wheel};
use crate::net::clock::{self, Instant};

/// A moment as number of ticks.
pub(crate) type Tick = u64;

/// The moment that never comes.
pub(crate) const NEVER: Tick = Tick::MAX;

/// Which of the timers; one more than its place among the entries, so that an `Option` of it is as small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timer(NonZeroU32);

impl Timer {
    fn at(place: usize) -> Self {
        let number = u32::try_from(place + 1).ok().and_then(NonZeroU32::new);
        Self(number.expect("there are fewer connections than 2^32"))
    }

    /// Its number in the wheel.
    fn number(self) -> u32 {
        self.0.get() - 1
    }

    fn place(self) -> usize {
        self.number() as usize
    }
}

/// All timers of one worker.
#[derive(Debug)]
pub struct Timers {
    began: Instant,
    state: RefCell<State>,
    alarm: Alarm,
    /// The tick that the alarm is set for.
    awaited: Cell<Tick>,
    /// How many timers are not of connections.
    sleeps: Cell<usize>,
}

#[derive(Debug)]
struct State {
    wheel: Wheel,
    entries: Slab<TimerEntry>,
    idleness: Idleness,
}

/// A task that has a timer.
#[derive(Debug)]
struct TimerEntry {
    waker: Waker,
    link: Link,
    mark: Mark,
}

impl Marked for TimerEntry {
    fn mark(&mut self) -> &mut Mark {
        &mut self.mark
    }

    fn marked(&self) -> Mark {
        self.mark
    }
}

impl Links for Slab<TimerEntry> {
    fn link(&mut self, timer: u32) -> &mut Link {
        &mut self[timer as usize].link
    }
}

impl Timers {
    /// No timers yet; in the event loop of this thread.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub(crate) fn new() -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            began: clock::now(),
            state: RefCell::new(State {
                wheel: Wheel::new(),
                entries: Slab::new(),
                idleness: Idleness::default(),
            }),
            alarm: Alarm::new()?,
            awaited: Cell::new(NEVER),
            sleeps: Cell::new(0),
        }))
    }

    /// The first tick at or after `at`.
    pub(crate) fn tick(&self, at: Instant) -> Tick {
        at.nanos_since(self.began).div_ceil(1_000_000)
    }

    /// Gives the task behind `waker` a timer, not set.
    pub(crate) fn add(&self, waker: Waker) -> Timer {
        Timer::at(self.state.borrow_mut().entries.insert(TimerEntry {
            waker,
            link: Link::NEW,
            mark: Mark::BUSY,
        }))
    }

    /// Removes a timer.
    pub(crate) fn remove(&self, timer: Timer) {
        let State { wheel, entries, idleness } = &mut *self.state.borrow_mut();
        wheel.remove(entries, timer.number());
        idleness.end(&mut entries.remove(timer.place()).mark);
    }

    /// The connection behind `timer` waits for its next request; whether it is to end, to make room for a new connection.
    pub(crate) fn begin_idle(&self, timer: Timer, wait: IdleWait) -> bool {
        let State { entries, idleness, .. } = &mut *self.state.borrow_mut();
        idleness.begin(&mut entries[timer.place()].mark, wait)
    }

    /// Its request has come.
    pub(crate) fn end_idle(&self, timer: Timer) {
        let State { entries, idleness, .. } = &mut *self.state.borrow_mut();
        idleness.end(&mut entries[timer.place()].mark);
    }

    /// Since when the connection that has been idle longest has been so, of a listener or of all.
    pub(crate) fn longest_idle(&self, listener: Option<u16>) -> Option<Instant> {
        let State { entries, idleness, .. } = &mut *self.state.borrow_mut();
        idleness.longest(entries, listener)
    }

    /// Has the connection end that waits longest for its next request, of those that may; whether there is one.
    pub(crate) fn evict_idle(&self, which: Evictable) -> bool {
        let State { entries, idleness, .. } = &mut *self.state.borrow_mut();
        let evicted = idleness.evict(entries, which);
        evicted.inspect(|key| entries[*key].waker.wake_by_ref()).is_some()
    }

    /// How many connections have one, set or not.
    pub(crate) fn len(&self) -> usize {
        self.state.borrow().entries.len() - self.sleeps.get()
    }

    /// Has the task woken at `due`, unless its timer fires earlier anyway; `false` when `due` has come.
    pub(crate) fn wake_by(&self, timer: Timer, due: Tick) -> bool {
        let State { wheel, entries, .. } = &mut *self.state.borrow_mut();
        if due <= wheel.now() {
            return false;
        }
        if entries[timer.place()].link.due().is_none_or(|set_for| due < set_for) {
            let due = wheel.set(entries, timer.number(), due);
            if due < self.awaited.get() {
                self.awaken_at(due);
            }
        }
        true
    }

    /// Waits for `length`.
    pub(crate) fn sleep(self: &Rc<Self>, length: Duration) -> Sleep {
        Sleep { due: self.tick(clock::now() + length), timers: Rc::clone(self), timer: None }
    }

    fn awaken_at(&self, tick: Tick) {
        self.awaited.set(tick);
        let at = self.began + Duration::from_millis(tick);
        self.alarm.set(at.saturating_duration_since(clock::now()));
    }

    /// Wakes every task.
    pub(crate) fn wake_all(&self) {
        for (_, entry) in &self.state.borrow().entries {
            entry.waker.wake_by_ref();
        }
    }

    /// Wakes the tasks behind `count` timers in a row; gives where the next ones begin, if there are more.
    pub(crate) fn wake_some(&self, from: usize, count: usize) -> Option<usize> {
        let entries = &self.state.borrow().entries;
        let end = from.saturating_add(count);
        for entry in (from..end.min(entries.capacity())).filter_map(|key| entries.get(key)) {
            entry.waker.wake_by_ref();
        }
        (end < entries.capacity()).then_some(end)
    }

    /// Wakes tasks when their time has come, for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            self.alarm.rung().await;
            self.wake_due();
            match self.state.borrow().wheel.next() {
                None => self.awaited.set(NEVER),
                Some(next) => self.awaken_at(next),
            }
        }
    }

    /// When the next timer fires.
    #[cfg(test)]
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let next = self.state.borrow().wheel.next()?;
        Some(self.began + Duration::from_millis(next))
    }

    /// Fires the timers whose time has come, as the alarm does.
    #[cfg(test)]
    pub(crate) fn fire(&self) {
        self.wake_due();
    }

    fn wake_due(&self) {
        // The last tick that has begun.
        let now = clock::now().saturating_duration_since(self.began).as_millis() as Tick;
        let State { wheel, entries, .. } = &mut *self.state.borrow_mut();
        wheel.advance(entries, now, |entries, timer| entries[timer as usize].waker.wake_by_ref());
    }
}

/// A wait of something that is no connection.
#[derive(Debug)]
pub(crate) struct Sleep {
    timers: Rc<Timers>,
    due: Tick,
    timer: Option<Timer>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let timer = match self.timer {
            Some(timer) => {
                self.timers.state.borrow_mut().entries[timer.place()].waker.clone_from(cx.waker());
                timer
            }
            None => {
                self.timers.sleeps.update(|sleeps| sleeps + 1);
                self.timers.add(cx.waker().clone())
            }
        };
        self.timer = Some(timer);
        if self.timers.wake_by(timer, self.due) { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.timers.remove(timer);
            self.timers.sleeps.update(|sleeps| sleeps - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` in an event loop like that of a worker, with timers that fire.
    fn with_timers<F: Future<Output = ()>>(work: impl FnOnce(Rc<Timers>) -> F) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let timers = Timers::new().expect("there are descriptors");
            let firing = Rc::clone(&timers);
            let clockwork = tokio::task::spawn_local(async move { firing.run().await });
            work(timers).await;
            clockwork.abort();
        });
    }

    #[test]
    fn sleeps_last_as_long_as_they_should_and_end_in_their_order() {
        with_timers(async |timers| {
            let began = clock::now();
            let order = Rc::new(RefCell::new(Vec::new()));
            let sleeps = [40, 0, 20, 30].map(|millis| {
                let (sleep, order) = (timers.sleep(Duration::from_millis(millis)), Rc::clone(&order));
                tokio::task::spawn_local(async move {
                    sleep.await;
                    assert!((clock::now() - began) >= Duration::from_millis(millis), "never early");
                    order.borrow_mut().push(millis);
                })
            });
            for sleep in sleeps {
                sleep.await.expect("no sleep panics");
            }
            assert_eq!(*order.borrow(), [0, 20, 30, 40]);
            assert_eq!(
                (timers.len(), timers.state.borrow().entries.len()),
                (0, 0),
                "nothing is left of them"
            );
        });
    }

    #[test]
    fn an_earlier_wait_is_not_held_up_by_a_later_one() {
        with_timers(async |timers| {
            let began = clock::now();
            tokio::select! {
                () = timers.sleep(Duration::from_secs(3600)) => panic!("an hour has not passed"),
                () = timers.sleep(Duration::from_millis(5)) => {}
            }
            assert!((clock::now() - began) >= Duration::from_millis(5));
            // The alarm is still set for the long one, or for nothing: it goes on either way.
            timers.sleep(Duration::from_millis(5)).await;
        });
    }

    #[test]
    fn sleeps_are_not_counted_as_connections() {
        with_timers(async |timers| {
            let waker = std::task::Waker::noop();
            let connection = timers.add(waker.clone());
            let mut sleep = Box::pin(timers.sleep(Duration::from_secs(1)));
            assert!(sleep.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            assert_eq!(timers.len(), 1);
            timers.remove(connection);
            assert_eq!(timers.len(), 0);
            drop(sleep);
            assert_eq!(timers.len(), 0);
        });
    }
}
