//! The way of a source to what is believed of it: reports with the number of the source. A task that panics is begun anew, and reported as a
//! source without an answer until then.

use std::fmt::Display;
use std::future::Future;

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;

use crate::last_known::source_state::SourceReport;
use crate::server_set::DiscoveredServer;

/// Why there is no answer after a panic.
pub(crate) const TASK_PANICKED: &str =
    "the task that asks it has ended by a defect of Weir and is begun anew after a pause: see the log";

/// A report on its way.
#[derive(Debug)]
pub(crate) struct SourceMessage {
    pub(crate) upstream: Box<str>,
    pub(crate) id: u64,
    pub(crate) report: SourceReport,
}

/// The way of one source.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    pub(crate) upstream: Box<str>,
    pub(crate) id: u64,
    pub(crate) reports: UnboundedSender<SourceMessage>,
}

impl Reporter {
    /// These are all servers now.
    pub(crate) fn said(&self, servers: Vec<DiscoveredServer>) {
        self.send(SourceReport::Said { servers, remark: None });
    }

    /// There is no answer now.
    pub(crate) fn failed(&self, why: &(impl Display + ?Sized)) {
        self.send(SourceReport::Failed(why.to_string().into()));
    }

    pub(crate) fn send(&self, report: SourceReport) {
        let message = SourceMessage { upstream: self.upstream.clone(), id: self.id, report };
        let _ended = self.reports.send(message);
    }

    /// Starts the task that reports this way; `what` names it in the log. What is made anew after a panic asks for everything anew.
    pub(crate) fn keep<F: Future<Output = ()> + Send + 'static>(
        self,
        what: &'static str,
        mut follow: impl FnMut(Self) -> F + Send + 'static,
    ) -> JoinHandle<()> {
        tokio::spawn(async move {
            let tell = || self.failed(TASK_PANICKED);
            weir_tasks::keep_telling(what, || follow(self.clone()), tell).await;
        })
    }
}
