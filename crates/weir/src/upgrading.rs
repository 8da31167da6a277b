//! The upgrade of the running program: at most one at a time, begun by a signal or a command, with a report to its requester.

use tokio::sync::oneshot;
use weir_control::{CommandRejected, Proxy, UpgradeReport};

use crate::events::ServeEvents;
use crate::successor::{Program, StartingSuccessor, Successor};

/// Why something has to wait.
pub(crate) const UPGRADING: &str = "an upgrade is under way";

/// An upgrade of the running program: there is none, or one that has begun.
pub(crate) struct Upgrade {
    program: Program,
    running: Option<StartingSuccessor>,
    outcome: Option<UpgradeOutcome>,
}

type UpgradeOutcome = oneshot::Sender<Result<UpgradeReport, CommandRejected>>;

impl Upgrade {
    pub(crate) fn of_this_process() -> std::io::Result<Self> {
        Ok(Self { program: Program::of_this_process()?, running: None, outcome: None })
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the program anew.
    pub(crate) fn begin(
        &mut self,
        proxy: &Proxy,
        events: &ServeEvents,
        requester: &str,
        outcome: Option<UpgradeOutcome>,
    ) {
        tracing::info!(who = requester, program = %self.program, "an upgrade was requested");
        if self.is_running() {
            tracing::warn!("no second upgrade: {UPGRADING}");
            if let Some(outcome) = outcome {
                let _gone = outcome.send(Err(CommandRejected::Refused(UPGRADING.to_owned())));
            }
            return;
        }
        self.outcome = outcome;
        if std::process::id() == 1 {
            self.end(Err("this is the first process of its container, which ends with it".to_owned()));
            return;
        }
        let started = proxy
            .to_hand_over()
            .and_then(|handover| StartingSuccessor::begin(&self.program, handover, events.upgrade_outcome()));
        match started {
            Ok(starting) => self.running = Some(starting),
            Err(error) => {
                self.end(Err(format!("{}: {error}", self.program)));
            }
        }
    }

    /// Reports the outcome; gives the process that has taken over.
    pub(crate) fn end(&mut self, outcome: Result<Successor, String>) -> Option<Successor> {
        self.running = None;
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
