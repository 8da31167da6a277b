//! What the watcher is to do, as Weir tells it once the config is read.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_config::{Config, ProcessAccount, SandboxMode};

use super::bird::BirdProtocol;
use super::track_file::TrackFile;

/// The longest task: two paths of at most 4 KiB, which JSON may write with six bytes each, and the groups of an account.
pub(super) const TASK_BYTES_MAX: usize = 128 << 10;

/// What it tells, and to whom.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WatcherTask {
    pub(super) track_file: Option<TrackFile>,
    pub(super) bird: Option<BirdProtocol>,
    pub(super) frozen_after: Duration,
    pub(super) confinement: WatcherConfinement,
}

/// What it gives up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WatcherConfinement {
    /// The user, the group and further groups.
    account: Option<(Option<u32>, u32, Vec<u32>)>,
    is_off: bool,
}

impl WatcherTask {
    /// `None`: `config` has nothing to tell.
    pub(super) fn new(config: &Config) -> Option<Self> {
        let process = &config.process;
        if process.keepalived.is_none() && process.bird.is_none() {
            return None;
        }
        let account = config.identity.account.as_ref().map(|account| {
            (account.user.as_ref().map(|(_, uid)| *uid), account.group, account.groups.clone())
        });
        Some(Self {
            track_file: process.keepalived.as_ref().and_then(TrackFile::new),
            bird: process.bird.as_ref().and_then(BirdProtocol::new),
            frozen_after: process.frozen_after,
            confinement: WatcherConfinement { account, is_off: process.sandbox == SandboxMode::Off },
        })
    }
}

impl WatcherConfinement {
    pub(super) fn account(&self) -> Option<ProcessAccount> {
        let (user, group, groups) = self.account.clone()?;
        Some(ProcessAccount::new(user.map(|uid| ("".into(), uid)), group, groups))
    }

    pub(super) fn sandbox(&self) -> SandboxMode {
        if self.is_off { SandboxMode::Off } else { SandboxMode::Strict }
    }
}
