//! The way of a source to what is believed of it: reports with the number of the source.

use std::fmt::Display;

use tokio::sync::mpsc::UnboundedSender;

use crate::server_set::DiscoveredServer;
use crate::source_state::SourceReport;

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
}
