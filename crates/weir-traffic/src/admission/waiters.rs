//! Counts of the waiting requests, readable without the lock of the queue.
//!
//! Changed under that lock only. All accesses are sequentially consistent: entering counts the request and then reads
//! the slots, releasing frees the slot and then reads the counts, so one of the two sees the other.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::server::ServerId;

#[derive(Debug)]
pub(super) struct WaiterCounts {
    all: AtomicUsize,
    /// Requests that take any server.
    unbound: AtomicUsize,
    /// Requests that wait for one server, by server. Written only when a reload adds servers, and read only while a request
    /// waits: otherwise there is no contention for this lock.
    bound: RwLock<Vec<AtomicU32>>,
}

impl WaiterCounts {
    pub(super) fn new(servers: usize) -> WaiterCounts {
        WaiterCounts {
            all: AtomicUsize::new(0),
            unbound: AtomicUsize::new(0),
            bound: RwLock::new((0..servers).map(|_| AtomicU32::new(0)).collect()),
        }
    }

    /// Makes room for this many servers.
    pub(super) fn grow(&self, servers: usize) {
        let mut bound = self.bound.write().unwrap_or_else(PoisonError::into_inner);
        while bound.len() < servers {
            bound.push(AtomicU32::new(0));
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.all.load(Ordering::SeqCst) == 0
    }

    pub(super) fn has_unbound(&self) -> bool {
        self.unbound.load(Ordering::SeqCst) > 0
    }

    /// Whether any waiting request could take a slot on `server`.
    pub(super) fn waits_for(&self, server: ServerId) -> bool {
        self.has_unbound() || self.bound()[server.index()].load(Ordering::SeqCst) > 0
    }

    /// The servers that are the only choice of some waiting request.
    pub(super) fn wanted(&self) -> Vec<ServerId> {
        if self.all.load(Ordering::SeqCst) <= self.unbound.load(Ordering::SeqCst) {
            return Vec::new();
        }
        let counts = self.bound();
        let waited_for = counts.iter().enumerate().filter(|(_, count)| count.load(Ordering::SeqCst) > 0);
        waited_for.map(|(index, _)| ServerId(index as u32)).collect()
    }

    fn bound(&self) -> RwLockReadGuard<'_, Vec<AtomicU32>> {
        self.bound.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn enter(&self, own: Option<ServerId>) {
        self.all.fetch_add(1, Ordering::SeqCst);
        match own {
            None => self.unbound.fetch_add(1, Ordering::SeqCst),
            Some(own) => self.bound()[own.index()].fetch_add(1, Ordering::SeqCst) as usize,
        };
    }

    pub(super) fn leave(&self, own: Option<ServerId>) {
        self.all.fetch_sub(1, Ordering::SeqCst);
        match own {
            None => self.unbound.fetch_sub(1, Ordering::SeqCst),
            Some(own) => self.bound()[own.index()].fetch_sub(1, Ordering::SeqCst) as usize,
        };
    }

    /// A request that waited for `own` takes any server from now on.
    pub(super) fn unbind(&self, own: ServerId) {
        self.bound()[own.index()].fetch_sub(1, Ordering::SeqCst);
        self.unbound.fetch_add(1, Ordering::SeqCst);
    }
}
