//! The upgrade of the running program: at most one at a time, begun by a signal or a command, with a report to its requester.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::events::ServeEvents;
use super::successor::{self, Successor};
use crate::lifecycle::upgrade::handover::HandedFragments;
use crate::lifecycle::upgrade::launcher::UpgradeLauncher;
use crate::proxy::Proxy;
use crate::workers::commands::{CommandRejected, UpgradeReport};

/// Why something has to wait.
pub(super) const UPGRADING: &str = "an upgrade is under way";

/// An upgrade of the running program: there is none, or one that has begun.
pub(super) struct Upgrade {
    /// None where the system has started none.
    launcher: Option<Arc<UpgradeLauncher>>,
    is_running: bool,
    outcome: Option<UpgradeOutcome>,
}

/// Where the outcome goes.
pub(super) type UpgradeOutcome = oneshot::Sender<Result<UpgradeReport, CommandRejected>>;

impl Upgrade {
    /// With the launcher of this process.
    pub(super) fn by(launcher: Option<UpgradeLauncher>) -> Self {
        Self { launcher: launcher.map(Arc::new), is_running: false, outcome: None }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// Starts the program anew; it gets the fragments of stores that are in use.
    pub(super) fn begin(
        &mut self,
        (proxy, fragments): (&Proxy, Vec<HandedFragments>),
        events: &ServeEvents,
        requester: &str,
        outcome: Option<UpgradeOutcome>,
    ) {
        tracing::info!(who = requester, "an upgrade was requested");
        if self.is_running {
            tracing::warn!("no second upgrade: {UPGRADING}");
            if let Some(outcome) = outcome {
                let _gone = outcome.send(Err(CommandRejected::Refused(UPGRADING.to_owned())));
            }
            return;
        }
        (self.is_running, self.outcome) = (true, outcome);
        if let Err(error) = self.start(proxy, fragments, events) {
            self.end(Err(error));
        }
    }

    fn start(
        &self,
        proxy: &Proxy,
        fragments: Vec<HandedFragments>,
        events: &ServeEvents,
    ) -> Result<(), String> {
        if std::process::id() == 1 {
            return Err("this is the first process of its container, which ends with it".to_owned());
        }
        let launcher = self.launcher.as_ref().ok_or("the system has started no process for upgrades")?;
        let handover = proxy.to_hand_over().map_err(|error| error.to_string())?;
        let handover = handover.with_fragments(fragments);
        successor::begin(launcher, handover, events.upgrade_outcome()).map_err(|error| error.to_string())
    }

    /// Ends a process that is about to take over.
    pub(super) fn abort(&self) {
        if let Some(launcher) = self.launcher.as_ref().filter(|_| self.is_running) {
            launcher.end();
        }
    }

    /// Reports the outcome; gives the process that has taken over.
    pub(super) fn end(&mut self, outcome: Result<Successor, String>) -> Option<Successor> {
        self.is_running = false;
        let report = outcome.as_ref().map_err(|error| CommandRejected::NotUpgraded(error.clone()));
        let report = report.map(|successor| UpgradeReport {
            process: successor.process,
            version: successor.takeover.version.clone(),
        });
        match &report {
            Ok(UpgradeReport { process, version }) => {
                tracing::info!(
                    process,
                    version,
                    "another process serves now: running exchanges may finish here"
                );
            }
            Err(rejected) => tracing::error!("no upgrade: {rejected}"),
        }
        if let Some(told) = self.outcome.take() {
            let _gone = told.send(report);
        }
        outcome.ok()
    }
}
