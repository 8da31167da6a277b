//! The timers of a worker's sessions, one each, and the wakers of their tasks.
//!
//! All of them together use one timer of the event loop: a wait begins and ends without touching it. Times are ticks of
//! 1 ms since the worker started, and a timer never fires early. Must not decide what a passed deadline means.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::sync::Notify;

use crate::clock;
use crate::wheel::{Link, Links, Wheel};

/// A moment as number of ticks.
pub(crate) type Tick = u64;

/// The moment that never comes.
pub(crate) const NEVER: Tick = Tick::MAX;

/// All timers of one worker.
#[derive(Debug)]
pub(crate) struct Timers {
    began: Instant,
    state: RefCell<State>,
    /// The tick that the timer of the event loop is set for.
    awaited: Cell<Tick>,
    /// Tells that it must fire earlier.
    earlier: Notify,
}

#[derive(Debug)]
struct State {
    wheel: Wheel,
    sleepers: Slab<Sleeper>,
}

/// A task that has a timer.
#[derive(Debug)]
struct Sleeper {
    waker: Waker,
    link: Link,
}

impl Links for Slab<Sleeper> {
    fn link(&mut self, timer: u32) -> &mut Link {
        &mut self[timer as usize].link
    }
}

impl Timers {
    /// No timers yet.
    pub(crate) fn new() -> Rc<Self> {
        Rc::new(Self {
            began: clock::now(),
            state: RefCell::new(State { wheel: Wheel::new(), sleepers: Slab::new() }),
            awaited: Cell::new(NEVER),
            earlier: Notify::new(),
        })
    }

    /// The first tick at or after `at`.
    pub(crate) fn tick(&self, at: Instant) -> Tick {
        let since = at.saturating_duration_since(self.began);
        since.as_secs() * 1000 + u64::from(since.subsec_nanos().div_ceil(1_000_000))
    }

    /// Gives the task behind `waker` a timer, not set.
    pub(crate) fn add(&self, waker: Waker) -> u32 {
        let key = self.state.borrow_mut().sleepers.insert(Sleeper { waker, link: Link::NEW });
        u32::try_from(key).expect("there are fewer sessions than 2^32")
    }

    /// Removes a timer.
    pub(crate) fn remove(&self, timer: u32) {
        let State { wheel, sleepers } = &mut *self.state.borrow_mut();
        wheel.remove(sleepers, timer);
        sleepers.remove(timer as usize);
    }

    /// How many there are, set or not.
    pub(crate) fn len(&self) -> usize {
        self.state.borrow().sleepers.len()
    }

    /// Has the task woken at `due`, unless its timer fires earlier anyway; `false` when `due` has come.
    pub(crate) fn wake_by(&self, timer: u32, due: Tick) -> bool {
        let State { wheel, sleepers } = &mut *self.state.borrow_mut();
        if due <= wheel.now() {
            return false;
        }
        if sleepers[timer as usize].link.due().is_none_or(|set_for| due < set_for) {
            let due = wheel.set(sleepers, timer, due);
            if due < self.awaited.get() {
                self.awaited.set(due);
                self.earlier.notify_one();
            }
        }
        true
    }

    /// Wakes every task.
    pub(crate) fn wake_all(&self) {
        for (_, sleeper) in &self.state.borrow().sleepers {
            sleeper.waker.wake_by_ref();
        }
    }

    /// Wakes the tasks behind `count` timers in a row; gives where the next ones begin, if there are more.
    pub(crate) fn wake_some(&self, from: usize, count: usize) -> Option<usize> {
        let sleepers = &self.state.borrow().sleepers;
        let end = from.saturating_add(count);
        for sleeper in (from..end.min(sleepers.capacity())).filter_map(|key| sleepers.get(key)) {
            sleeper.waker.wake_by_ref();
        }
        (end < sleepers.capacity()).then_some(end)
    }

    /// Wakes tasks when their time has come, for as long as it is polled.
    pub(crate) async fn run(&self) {
        loop {
            match self.next() {
                NEVER => self.earlier.notified().await,
                tick => {
                    let at = self.began + Duration::from_millis(tick);
                    let _passed = tokio::time::timeout_at(at.into(), self.earlier.notified()).await;
                }
            }
            self.wake_due();
        }
    }

    fn next(&self) -> Tick {
        let next = self.state.borrow().wheel.next().unwrap_or(NEVER);
        self.awaited.set(next);
        next
    }

    fn wake_due(&self) {
        // The last tick that has begun.
        let now = clock::now().saturating_duration_since(self.began).as_millis() as Tick;
        let State { wheel, sleepers } = &mut *self.state.borrow_mut();
        wheel.advance(sleepers, now, |sleepers, timer| sleepers[timer as usize].waker.wake_by_ref());
    }
}
