//! Works on HTTP/2 that `h2load` cannot play: a stream that is not read beside others, and attacks beside usual clients.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::length;
use crate::load::http2::flood::FloodKind;
use crate::measure::metric::Metric;
use crate::topology::upstream::{OriginProtocol, UpstreamSetup};

/// One connection with many streams, one of which is not read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlowStreamWork {
    /// Requests per second on the other streams.
    pub rate: f64,
    /// How many of these there may be at a time.
    pub streams: usize,
    /// How long a server works on each of their requests; a server of HTTP/2 does not.
    #[serde(default, with = "length::optional", skip_serializing_if = "Option::is_none")]
    pub service: Option<Duration>,
    /// Bytes of the answer that is not read.
    pub answer: u64,
}

impl SlowStreamWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let latency = [M::P99, M::P99OfPlain, M::Failed, M::Availability, M::P50, M::Longest];
        [&latency[..], &[M::CpuPerRequest, M::Rss, M::LatenessP99]].concat()
    }

    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.streams > 0, "no rate or streams");
        ensure!(self.answer > u64::from(u16::MAX), "an answer of a window or less does not stall");
        ensure!(
            self.service.is_none() || upstream.protocol == OriginProtocol::Http1,
            "servers of HTTP/2 answer at once"
        );
        Ok(())
    }
}

/// Attacks, each a case, beside usual clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FloodWork {
    /// Requests per second of the usual clients.
    pub rate: f64,
    /// Their connections.
    pub connections: usize,
    /// Their requests at a time on each.
    pub streams: usize,
    /// The attacks.
    pub attacks: Vec<FloodKind>,
    /// Attacking connections at a time.
    pub attackers: usize,
    /// Frames that they send in a second, or requests with the frame that makes them an attack.
    pub attack_rate: f64,
}

impl FloodWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let usual = [M::P99OfPlain, M::Availability, M::Failed, M::P99, M::Longest];
        let attack = [M::CutOff, M::UnitsUntilCutOff, M::TargetCpu, M::Rss, M::RssGrowth];
        [&usual[..], &attack, &[M::LatenessP99]].concat()
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.connections > 0 && self.streams > 0, "no rate or usual clients");
        ensure!(
            !self.attacks.is_empty() && self.attackers > 0 && self.attack_rate > 0.0,
            "no attacks or attackers"
        );
        Ok(())
    }
}
