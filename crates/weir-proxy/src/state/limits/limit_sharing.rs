//! How the exchange of a limit with a store goes: written by the control plane, read for reports.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// The state of the exchange.
#[derive(Debug, Default)]
pub(in crate::state) struct SharingState {
    is_up: AtomicBool,
    exchanged: AtomicU64,
    failures: AtomicU64,
    last_error: Mutex<Option<Box<str>>>,
    master: Mutex<Option<Box<str>>>,
}

/// The same at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharingFigures {
    /// The store in the config.
    pub store: Box<str>,
    /// Whether all nodes have one limit now; else this one has it for itself.
    pub is_up: bool,
    /// Keys that were exchanged.
    pub exchanged: u64,
    /// Connections and exchanges that have failed.
    pub failures: u64,
    /// Uses that other nodes did not learn of, since too many keys were used at once.
    pub dropped: u64,
    /// Why the last one has failed; `None` while it works.
    pub last_error: Option<Box<str>>,
    /// The master of the store that is in use or was last; `None` without sentinels, and before the first exchange.
    pub master: Option<Box<str>>,
}

impl SharingState {
    pub(in crate::state) fn count(&self, keys: u64) {
        self.exchanged.fetch_add(keys, Ordering::Relaxed);
    }

    pub(in crate::state) fn begin(&self, master: Option<&str>) {
        *self.master.lock().unwrap_or_else(PoisonError::into_inner) = master.map(Box::from);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.is_up.store(true, Ordering::Relaxed);
    }

    pub(in crate::state) fn fail(&self, error: &str) {
        self.is_up.store(false, Ordering::Relaxed);
        self.failures.fetch_add(1, Ordering::Relaxed);
        *self.last_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.into());
    }

    pub(in crate::state) fn figures(&self, store: &str, dropped: u64) -> SharingFigures {
        SharingFigures {
            store: store.into(),
            is_up: self.is_up.load(Ordering::Relaxed),
            exchanged: self.exchanged.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
            dropped,
            last_error: self.last_error.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            master: self.master.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}
