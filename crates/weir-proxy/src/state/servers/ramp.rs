//! The slow start of a server, as a task that raises its share step by step.
//!
//! A server has at most one ramp: a new one replaces the one before. The steps are made by the control plane.

use std::sync::{Mutex, PoisonError};

use tokio::task::AbortHandle;

/// The task that raises the share of a server, if it has not got all of it.
#[derive(Debug, Default)]
pub struct Ramp(Mutex<Option<AbortHandle>>);

impl Ramp {
    /// Ends the task before, and keeps this one, if there is one.
    pub fn replace(&self, task: Option<AbortHandle>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *kept, task) {
            before.abort();
        }
    }
}
