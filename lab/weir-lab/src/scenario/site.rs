//! A site that runs already, as the command line describes it: for the report, and for a comparison with another run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::measure::metric::Metric;

/// What the clients of a site speak.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum SiteProtocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2, agreed on with TLS, or known in advance without it.
    Http2,
    /// HTTP/3.
    Http3,
}

impl SiteProtocol {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http1 => "HTTP/1.1",
            Self::Http2 => "HTTP/2",
            Self::Http3 => "HTTP/3",
        }
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SiteWork {
    /// Where it is.
    pub url: String,
    /// What its clients speak.
    pub protocol: SiteProtocol,
    /// Connections.
    pub clients: usize,
    /// Requests at a time on each.
    pub streams: usize,
    /// What is asked for, in words.
    pub requests: String,
    /// When, in words.
    pub load: String,
    /// What is expected of answers, in words.
    pub checks: String,
    /// Requests are due whether or not a client is free.
    pub is_open_loop: bool,
    /// The processes of the site are known.
    pub has_process: bool,
}

impl SiteWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let process = [M::CpuPerRequest, M::TargetCpu, M::CpuUser, M::CpuSystem, M::Rss];
        let process = if self.has_process { &process[..] } else { &[] };
        let late = if self.is_open_loop { &[M::LatenessP99][..] } else { &[] };
        let first =
            [M::RequestsPerSecond, M::Availability, M::Failed, M::P50, M::P95, M::P99, M::P999, M::Longest];
        [&first[..], &[M::BytesPerSecond], process, late].concat()
    }
}
