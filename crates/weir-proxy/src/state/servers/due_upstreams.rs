//! The upstreams whose outlier table has events to log or timers to set, for the control plane.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The numbers of the outlier tables that the control plane has to look at.
#[derive(Debug, Default)]
pub struct DueUpstreams {
    numbers: Mutex<Vec<u64>>,
    added: Notify,
}

impl DueUpstreams {
    pub(in crate::state) fn add(&self, number: u64) {
        self.lock().push(number);
        self.added.notify_one();
    }

    /// Waits until there are some.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Takes their numbers.
    pub fn take(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
