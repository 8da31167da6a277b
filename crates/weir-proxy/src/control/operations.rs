//! What an operator sees and changes, shared by the admin listener and the runtime socket.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::control::admin_access::Guard;
use crate::control::commands::{Wishes, Written};
use crate::control::overview::Sources;
use crate::control::server_modes::Modes;
use crate::control::worker_queries::Desk;

/// Scrapes that run at once.
pub(crate) const SCRAPES_MAX: usize = 8;

/// What is served.
pub(crate) struct Served {
    pub(crate) sources: Arc<Sources>,
    pub(crate) modes: Arc<Modes>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) wishes: Wishes,
    /// The config as its file has it.
    pub(crate) written: Written,
    /// Where the recorders of the workers are asked.
    pub(crate) desk: Arc<Desk>,
    pub(crate) scrapes: Scrapes,
}

/// The turns of scrapes.
pub(crate) struct Scrapes(Arc<Semaphore>);

impl Default for Scrapes {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SCRAPES_MAX)))
    }
}

impl Scrapes {
    /// Waits for a turn, which lasts until what this gives is dropped.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}
