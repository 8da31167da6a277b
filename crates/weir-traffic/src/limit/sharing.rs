//! What keys have used of a limit since other nodes were told: for limits that several nodes share through a store.
//!
//! A node decides by its own table; between its decisions it exchanges with the store: [`KeyUse`] goes there, [`SharedDebt`] comes back.
//! Memory is bounded by the number of keys. Entries change only while the set of their key is locked, so that a bucket and what was not yet
//! told of it fit together. Must not know what a store is.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Parts of the map, each with a lock of its own.
const PARTS: usize = 64;

/// What a node has to tell about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyUse {
    /// The hash of the key.
    pub key: u64,
    /// What was taken since the last time, as time; less than 0 when more was given back.
    pub taken_ns: i64,
    /// What the key owes at least, as time; 0 but for the first time after a pause.
    pub owed_ns: u64,
    /// For how long it is blocked from now; 0: it is not.
    pub blocked_ns: u64,
}

/// What all nodes together have used of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedDebt {
    /// The hash of the key.
    pub key: u64,
    /// Until its bucket is whole.
    pub full_in_ns: u64,
    /// Whether it gets nothing before.
    pub is_blocked: bool,
}

/// The keys that were used and not yet told.
#[derive(Debug)]
pub(super) struct UntoldUse {
    parts: Box<[Mutex<HashMap<u64, Untold>>]>,
    /// Whether there is a store to tell.
    is_kept: AtomicBool,
    keys: AtomicUsize,
    keys_max: usize,
    dropped: AtomicU64,
}

/// What is not yet told of one key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Untold {
    pub(super) tokens: i64,
    pub(super) is_blocked: bool,
}

impl UntoldUse {
    pub(super) fn new(keys_max: usize) -> Self {
        Self {
            parts: (0..PARTS).map(|_| Mutex::default()).collect(),
            is_kept: AtomicBool::new(false),
            keys: AtomicUsize::new(0),
            keys_max,
            dropped: AtomicU64::new(0),
        }
    }

    fn part(&self, key: u64) -> MutexGuard<'_, HashMap<u64, Untold>> {
        // The low bits: the high ones choose the set of the table.
        lock(&self.parts[key as usize % PARTS])
    }

    /// Changes what is to be told of a key.
    pub(super) fn change(&self, key: u64, change: impl FnOnce(&mut Untold)) {
        if !self.is_kept.load(Ordering::Relaxed) {
            return;
        }
        let mut part = self.part(key);
        if let Some(untold) = part.get_mut(&key) {
            change(untold);
        } else if self.keys.load(Ordering::Relaxed) < self.keys_max {
            let mut untold = Untold::default();
            change(&mut untold);
            part.insert(key, untold);
            self.keys.fetch_add(1, Ordering::Relaxed);
        } else {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// What is to be told of a key.
    pub(super) fn of(&self, key: u64) -> Untold {
        self.part(key).get(&key).copied().unwrap_or_default()
    }

    /// Forgets it, since it is told in another way.
    pub(super) fn forget(&self, key: u64) {
        if self.part(key).remove(&key).is_some() {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Begins to keep what is used.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Keeps nothing any more, and forgets what was kept.
    pub(super) fn stop(&self) {
        self.is_kept.store(false, Ordering::Relaxed);
        self.take_all();
    }

    /// All that is to be told, which then is not any more.
    pub(super) fn take_all(&self) -> Vec<(u64, Untold)> {
        let mut all = Vec::new();
        for part in &self.parts {
            all.extend(lock(part).drain());
        }
        self.keys.fetch_sub(all.len(), Ordering::Relaxed);
        all
    }

    /// Uses of keys that were not kept, since there was no room.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

fn lock(part: &Mutex<HashMap<u64, Untold>>) -> MutexGuard<'_, HashMap<u64, Untold>> {
    part.lock().unwrap_or_else(PoisonError::into_inner)
}
