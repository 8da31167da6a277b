//! Accepting tasks that wait for the place of one more connection, over all workers, in the order of their arrival; and the connections that
//! end to make such places.
//!
//! Used only while the process or a listener has as many connections as it may: otherwise all that is asked is whether a task waits, one
//! load. Must not know connections: they are a number here.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::net::clock::Instant;

/// Whether connections end with their next response, in one word that each response looks at.
#[derive(Debug, Default)]
pub struct ConnectionEnds(AtomicU32);

/// The process stops, or another node is about to take over: all of them end. What is below it counts accepting tasks that wait for a
/// place: some have to end.
const ALL_END: u32 = 1 << 31;

impl ConnectionEnds {
    /// Whether all end: the process stops, or another node is about to take over.
    #[inline]
    pub fn load(&self, ordering: Ordering) -> bool {
        self.0.load(ordering) & ALL_END != 0
    }

    /// Sets whether all end.
    pub fn store(&self, do_all_end: bool, ordering: Ordering) {
        if do_all_end {
            self.0.fetch_or(ALL_END, ordering);
        } else {
            self.0.fetch_and(!ALL_END, ordering);
        }
    }

    /// Whether none has to end.
    #[inline]
    pub(crate) fn do_none_end(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Whether a task waits for the place of a connection.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.0.load(Ordering::Relaxed) & !ALL_END != 0
    }

    fn begin_wait(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn end_wait(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// How long a connection may take to end with its response until one more is told to: the response may be long, and its client slow.
const LATE: Duration = Duration::from_millis(100);

/// Which limit leaves no room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitReached {
    /// That of the process: a connection of any listener makes room.
    Process,
    /// That of the listener.
    Listener,
}

/// The queue of the tasks.
#[derive(Debug, Default)]
pub struct PlaceQueue {
    /// What each response looks at.
    pub ends: ConnectionEnds,
    waiting: Mutex<WaitingTasks>,
    /// Connections that are about to end for others.
    leaving: AtomicU32,
}

#[derive(Debug, Default)]
struct WaitingTasks {
    next: u64,
    /// By their order.
    tasks: BTreeMap<u64, WaitingTask>,
    /// When a response was last told to end its connection.
    claimed_at: Option<Instant>,
}

#[derive(Debug)]
struct WaitingTask {
    listener: u16,
    full: LimitReached,
    /// Connections in its backlog, as it has found them; without any, it stands in nothing's way.
    connections: usize,
    is_woken: bool,
    waker: Option<Waker>,
}

impl WaitingTask {
    /// Whether it waits for a place that a connection of this listener has or would take.
    fn wants_place_of(&self, listener: u16) -> bool {
        self.connections > 0 && (self.full == LimitReached::Process || self.listener == listener)
    }
}

impl PlaceQueue {
    /// A connection of this listener has ended: the first that it makes room for look again, that at the limit of the process and that at
    /// the limit of the listener.
    #[cold]
    pub(crate) fn wake(&self, listener: u16) {
        let mut queue = self.lock();
        let mut wakers = [None, None];
        for (full, waker) in [LimitReached::Process, LimitReached::Listener].into_iter().zip(&mut wakers) {
            let mut tasks = queue.tasks.values_mut();
            let first = tasks.find(|task| task.full == full && task.wants_place_of(listener));
            *waker = first.and_then(|task| {
                task.is_woken = true;
                task.waker.take()
            });
        }
        drop(queue);
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// Whether a connection of this listener is to end with its response: more connections wait than are about to end, or those take long for
    /// it. One that is to end has to call [`PlaceQueue::leave`] when it has.
    #[cold]
    pub(crate) fn claim(&self, listener: u16, now: Instant) -> bool {
        let mut queue = self.lock();
        let tasks = queue.tasks.values().filter(|task| task.wants_place_of(listener));
        let wanted = tasks.map(|task| task.connections).fold(0, usize::saturating_add);
        let is_late = queue.claimed_at.is_none_or(|at| now.saturating_duration_since(at) >= LATE);
        // Under the lock, so that no two claim the same place.
        let is_wanted = wanted > self.leaving.load(Ordering::Relaxed) as usize || wanted > 0 && is_late;
        if is_wanted {
            queue.claimed_at = Some(now);
            self.leaving.fetch_add(1, Ordering::Relaxed);
        }
        is_wanted
    }

    /// A connection is about to end for another one, as if it had claimed to.
    #[cold]
    pub(crate) fn note_leaving(&self) {
        self.leaving.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection has ended that has claimed so.
    #[cold]
    pub(crate) fn leave(&self) {
        let _none =
            self.leaving.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1));
    }

    fn lock(&self) -> MutexGuard<'_, WaitingTasks> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of an accepting task in the queue, until it is dropped.
#[derive(Debug)]
pub(crate) struct PlaceWait<'a> {
    places: &'a PlaceQueue,
    number: u64,
}

impl<'a> PlaceWait<'a> {
    /// Joins the queue at its end.
    pub(crate) fn begin(places: &'a PlaceQueue, listener: u16) -> Self {
        let mut queue = places.lock();
        let number = queue.next;
        queue.next += 1;
        let full = LimitReached::Process;
        let task = WaitingTask { listener, full, connections: 0, is_woken: false, waker: None };
        queue.tasks.insert(number, task);
        places.ends.begin_wait();
        Self { places, number }
    }

    /// The limit at which an earlier task waits for what this one would take.
    pub(crate) fn is_behind(&self, listener: u16) -> Option<LimitReached> {
        let queue = self.places.lock();
        let mut earlier = queue.tasks.range(..self.number);
        earlier.find(|(_, task)| task.wants_place_of(listener)).map(|(_, task)| task.full)
    }

    /// Takes note of how many connections wait, and at which limit.
    pub(crate) fn note(&self, listener: u16, full: LimitReached, connections: usize) {
        if let Some(task) = self.places.lock().tasks.get_mut(&self.number) {
            (task.listener, task.full, task.connections) = (listener, full, connections);
        }
    }

    /// Waits until there may be a place. What has happened since the last time counts.
    pub(crate) async fn woken(&self) {
        std::future::poll_fn(|cx| self.poll_woken(cx)).await;
    }

    fn poll_woken(&self, cx: &Context<'_>) -> Poll<()> {
        let mut queue = self.places.lock();
        let Some(task) = queue.tasks.get_mut(&self.number) else { return Poll::Ready(()) };
        if std::mem::take(&mut task.is_woken) {
            return Poll::Ready(());
        }
        task.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for PlaceWait<'_> {
    fn drop(&mut self) {
        let task = self.places.lock().tasks.remove(&self.number);
        self.places.ends.end_wait();
        // There may be more for the next.
        if let Some(task) = task {
            self.places.wake(task.listener);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Lets a task wait, so that it can be woken; whether it was by now.
    fn look(wait: &PlaceWait<'_>, woken: &Arc<Woken>) -> bool {
        let _registered = wait.poll_woken(&Context::from_waker(&Arc::clone(woken).into()));
        woken.0.load(Ordering::Relaxed) > 0
    }

    #[test]
    fn the_first_that_a_place_helps_is_woken_and_the_next_when_it_leaves() {
        let places = PlaceQueue::default();
        let wakers: [Arc<Woken>; 3] = Default::default();
        let waits = [7, 8, 8].map(|listener| PlaceWait::begin(&places, listener));
        for (wait, listener) in waits.iter().zip([7, 8, 8]) {
            let full = if listener == 7 { LimitReached::Process } else { LimitReached::Listener };
            wait.note(listener, full, 1);
        }
        let woken = || [0, 1, 2].map(|at: usize| look(&waits[at], &wakers[at]));
        assert!(places.ends.is_awaited());
        assert_eq!(woken(), [false; 3]);
        places.wake(9);
        assert_eq!(woken(), [true, false, false], "the limit of listener 8 has nothing of it");
        places.wake(8);
        assert_eq!(woken(), [true, true, false]);
        assert_eq!(waits[1].is_behind(8), Some(LimitReached::Process));
        let [first, second, third] = waits;
        drop(first);
        assert_eq!((second.is_behind(8), third.is_behind(8)), (None, Some(LimitReached::Listener)));
        // Nothing waits at its socket any more: it stands in nothing's way.
        second.note(8, LimitReached::Listener, 0);
        assert_eq!(third.is_behind(8), None);
        drop(second);
        assert!(look(&third, &wakers[2]));
        drop(third);
        assert!(!places.ends.is_awaited());
    }

    #[test]
    fn as_many_connections_end_as_wait_and_no_more() {
        let places = PlaceQueue::default();
        let start = Instant::test(Duration::from_secs(100));
        assert!(!places.claim(1, start), "nothing waits");
        let wait = PlaceWait::begin(&places, 1);
        wait.note(1, LimitReached::Listener, 2);
        let claims = [2, 1, 1, 1].map(|listener| places.claim(listener, start));
        assert_eq!(claims, [false, true, true, false]);
        places.leave();
        assert!(places.claim(1, start), "and it waits still");
        wait.note(1, LimitReached::Process, 3);
        assert!(places.claim(2, start), "any makes room");
        assert!(!places.claim(2, start));
        assert_eq!([0; 2].map(|_| places.claim(2, start + LATE)), [true, false], "those take long for it");
        drop(wait);
        assert!(!places.claim(1, start + LATE * 2));
    }

    #[test]
    fn a_word_says_whether_all_end_or_some() {
        let ends = ConnectionEnds::default();
        assert!(ends.do_none_end());
        ends.begin_wait();
        assert_eq!(
            (ends.do_none_end(), ends.load(Ordering::SeqCst), ends.is_awaited()),
            (false, false, true)
        );
        ends.store(true, Ordering::SeqCst);
        ends.end_wait();
        assert_eq!(
            (ends.do_none_end(), ends.load(Ordering::SeqCst), ends.is_awaited()),
            (false, true, false)
        );
        ends.store(false, Ordering::SeqCst);
        assert!(ends.do_none_end());
    }
}
