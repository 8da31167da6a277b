//! Reports and changes for an operator, shared by the admin listener and the runtime socket.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::statistics::overview::Sources;
use crate::administration::admin_access::AdminAccess;
use crate::cluster::node::hand_over::HandOver;
use crate::servers::modes::ServerModes;
use crate::workers::commands::{CommandSender, FileConfig};
use crate::workers::worker_queries::WorkerQueries;

/// Scrapes that run at once.
pub(crate) const SCRAPES_MAX: usize = 8;

/// The sources of all answers.
pub(crate) struct Operations {
    pub(crate) sources: Arc<Sources>,
    pub(crate) modes: Arc<ServerModes>,
    pub(crate) access: Arc<AdminAccess>,
    pub(crate) commands: CommandSender,
    /// The config as its file has it.
    pub(crate) file_config: FileConfig,
    /// Where the recorders of the workers are asked.
    pub(crate) queries: Arc<WorkerQueries>,
    pub(crate) scrape_slots: ScrapeSlots,
    /// To another node.
    pub(crate) hand_over: Arc<HandOver>,
}

/// The turns of scrapes.
pub(crate) struct ScrapeSlots(Arc<Semaphore>);

impl Default for ScrapeSlots {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(SCRAPES_MAX)))
    }
}

impl ScrapeSlots {
    /// Waits for a turn, which lasts until the returned guard is dropped.
    pub(crate) async fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).acquire_owned().await.ok()
    }
}
