//! A fetch that others wait for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use slab::Slab;

use super::key::SlotKey;
use super::purge::{PurgeMarks, PurgeMode, PurgeScope};
use super::stored::StoredResponse;

/// What has become of a fetch: known with the head of the response.
#[derive(Debug, Clone)]
pub enum FetchOutcome {
    /// A response that may be sent to those who waited, if it is for requests like theirs (see `Store::is_for`); its body may still be growing.
    Stored(Arc<StoredResponse>),
    /// A response that no other request may have.
    NotStored,
    /// No response.
    Failed,
}

/// One fetch.
#[derive(Debug)]
pub(super) struct PendingFetch {
    /// Where requests look for it.
    pub(super) slot: SlotKey,
    /// The slot of the key without regard to variants.
    pub(super) primary: SlotKey,
    /// 0 for the one that others wait for.
    pub(super) id: u64,
    pub(super) key: Box<[u8]>,
    state: Mutex<PendingState>,
}

#[derive(Debug, Default)]
struct PendingState {
    outcome: Option<FetchOutcome>,
    waiters: Slab<Option<Waker>>,
    marks: PurgeMarks,
}

impl PendingFetch {
    pub(super) fn new(slot: SlotKey, primary: SlotKey, id: u64, key: &[u8]) -> Self {
        Self { slot, primary, id, key: key.into(), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a purge; whether the response will not be stored.
    pub(super) fn mark(&self, scope: &PurgeScope<'_>, mode: PurgeMode) -> bool {
        self.lock().marks.add(&self.key, scope, mode)
    }

    /// What purges since it began make of this response.
    pub(super) fn purged(&self, response: &StoredResponse) -> Option<PurgeMode> {
        self.lock().marks.of(response.tags())
    }

    /// Tells those who wait. Only the first outcome counts.
    pub(super) fn settle(&self, outcome: FetchOutcome) {
        let mut state = self.lock();
        if state.outcome.is_some() {
            return;
        }
        state.outcome = Some(outcome);
        let waiters = std::mem::take(&mut state.waiters);
        drop(state);
        waiters.into_iter().filter_map(|(_, waker)| waker).for_each(Waker::wake);
    }
}

/// Waits for the response that another request fetches.
#[derive(Debug)]
pub struct FetchWait {
    fetch: Arc<PendingFetch>,
    id: usize,
}

impl FetchWait {
    pub(super) fn new(fetch: &Arc<PendingFetch>) -> Self {
        let mut state = fetch.lock();
        let id = state.waiters.insert(None);
        drop(state);
        Self { fetch: Arc::clone(fetch), id }
    }

    /// The outcome, once the head of the response is there.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<FetchOutcome> {
        let mut state = self.fetch.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        if let Some(waker) = state.waiters.get_mut(self.id) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for FetchWait {
    fn drop(&mut self) {
        self.fetch.lock().waiters.try_remove(self.id);
    }
}
