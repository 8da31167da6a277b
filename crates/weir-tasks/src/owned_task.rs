//! A task with an owner.

use std::future::Future;

use tokio::task::{AbortHandle, JoinHandle};

use crate::keep::keep;

/// A task that ends when this is dropped.
#[derive(Debug)]
pub struct OwnedTask(AbortHandle);

impl OwnedTask {
    /// A task on the event loop of this thread that is begun anew after a panic.
    pub fn keep<F: Future<Output = ()> + Send + 'static>(
        what: &'static str,
        make: impl FnMut() -> F + Send + 'static,
    ) -> Self {
        tokio::spawn(keep(what, make)).into()
    }
}

impl<T> From<JoinHandle<T>> for OwnedTask {
    fn from(task: JoinHandle<T>) -> Self {
        task.abort_handle().into()
    }
}

impl From<AbortHandle> for OwnedTask {
    fn from(task: AbortHandle) -> Self {
        Self(task)
    }
}

impl Drop for OwnedTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
