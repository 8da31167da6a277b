//! Exchanges that wait for the descriptor of a server connection, over all workers, in the order of their arrival.
//!
//! Used only while server connections have their whole share of the descriptors ([`super::descriptors`]): otherwise all that is asked is
//! whether the queue is empty, one load. Must not know connections: a pool is a number here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

static LENGTH: AtomicU32 = AtomicU32::new(0);
static QUEUE: Mutex<Queue> = Mutex::new(Queue::new());

#[derive(Debug)]
struct Queue {
    next: u64,
    /// By their order.
    waiting: BTreeMap<u64, Option<Waker>>,
    /// The same by the pool whose connections are as good as a descriptor.
    by_pool: BTreeSet<(usize, u64)>,
}

/// The place of an exchange in the queue, until it is dropped.
#[derive(Debug)]
pub(crate) struct PermitWait {
    number: u64,
    pool: usize,
}

/// Whether any exchange waits.
#[inline]
pub(crate) fn is_awaited() -> bool {
    // In one order with the count of connections: either the one that gives a descriptor back sees the one that waits, or that one sees
    // the descriptor.
    LENGTH.load(Ordering::SeqCst) > 0
}

/// Has the exchange look again that has waited longest.
#[cold]
pub(crate) fn wake_first() {
    let queue = lock();
    let waker = queue.waiting.values().next().cloned().flatten();
    drop(queue);
    waker.inspect(Waker::wake_by_ref);
}

/// Whether an exchange waits that a connection of this pool would help.
#[cold]
pub(crate) fn is_awaited_by(pool: usize) -> bool {
    lock().first_of(pool).is_some()
}

/// Has the first of those look again that a connection of this pool helps.
#[cold]
pub(crate) fn wake_first_of(pool: usize) {
    let queue = lock();
    let waker = queue.first_of(pool).and_then(|number| queue.waiting.get(&number).cloned().flatten());
    drop(queue);
    waker.inspect(Waker::wake_by_ref);
}

impl PermitWait {
    /// Joins the queue at its end.
    pub(crate) fn begin(pool: usize) -> Self {
        let mut queue = lock();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.insert(number, None);
        queue.by_pool.insert((pool, number));
        LENGTH.fetch_add(1, Ordering::SeqCst);
        Self { number, pool }
    }

    /// The one to wake. To be called before the look at what there is, so that nothing is missed in between.
    pub(crate) fn register(&self, waker: &Waker) {
        if let Some(place) = lock().waiting.get_mut(&self.number)
            && !place.as_ref().is_some_and(|known| known.will_wake(waker))
        {
            *place = Some(waker.clone());
        }
    }

    /// Leaves the queue with what it has waited for; there may be more for the next.
    pub(crate) fn end(self) {
        let pool = self.pool;
        drop(self);
        wake_first_of(pool);
        wake_first();
    }
}

impl Drop for PermitWait {
    fn drop(&mut self) {
        let mut queue = lock();
        queue.waiting.remove(&self.number);
        queue.by_pool.remove(&(self.pool, self.number));
        LENGTH.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Queue {
    const fn new() -> Self {
        Self { next: 0, waiting: BTreeMap::new(), by_pool: BTreeSet::new() }
    }

    fn first_of(&self, pool: usize) -> Option<u64> {
        self.by_pool.range((pool, 0)..=(pool, u64::MAX)).next().map(|(_, number)| *number)
    }
}

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The queue is that of the process: connections of other tests may wake the first as well, and no other.
    #[test]
    fn the_first_is_woken_and_passes_on() {
        let wakers: Vec<Arc<Woken>> = (0..3).map(|_| Arc::default()).collect();
        let count = |at: usize| wakers[at].0.load(Ordering::Relaxed);
        let woken = || (count(0), [count(1), count(2)]);
        let places = wakers.iter().zip([7, 8, 8]).map(|(woken, pool)| {
            let place = PermitWait::begin(pool);
            place.register(&Arc::clone(woken).into());
            place
        });
        let mut places: Vec<PermitWait> = places.collect();
        assert!(is_awaited() && is_awaited_by(8) && !is_awaited_by(9));
        wake_first();
        let (first, others) = woken();
        assert_eq!((first >= 1, others), (true, [0, 0]));
        wake_first_of(8);
        assert_eq!(woken().1, [1, 0]);
        // It has got a connection of its pool: there may be one for the next of the pool, and a descriptor for the first.
        let before = woken().0;
        places.remove(1).end();
        let (first, others) = woken();
        assert_eq!((first > before, others), (true, [1, 1]));
        wake_first_of(9);
        drop(places);
        let left = woken();
        wake_first();
        assert_eq!((woken(), is_awaited()), (left, false));
    }
}
