//! Everything at once, for long: clients of every kind, servers that come and go, one configuration after the other.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::length;
use crate::measure::metric::Metric;
use crate::topology::upstream::UpstreamSetup;

/// See the module. The length is that of the window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SoakWork {
    /// Requests per second on kept connections.
    pub rate: f64,
    /// Clients that keep their connections; as many post.
    pub clients: usize,
    /// Requests per second on a connection of their own.
    pub short_rate: f64,
    /// Requests per second with a body of 1 KiB, on kept connections.
    pub post_rate: f64,
    /// WebSocket tunnels, to the server that nothing happens to.
    pub tunnels: usize,
    /// Messages per second in all of them together.
    pub messages: f64,
    /// Clients that read slowly, one answer after the other.
    pub slow: usize,
    /// Clients per second that leave before the answer.
    pub leaving_rate: f64,
    /// From one reload to the next.
    #[serde(with = "length")]
    pub reload_every: Duration,
    /// How often the first server is killed, to come back after a quarter of that, and half of it later the second one hangs for
    /// a quarter of it.
    #[serde(with = "length")]
    pub flap_every: Duration,
}

impl SoakWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let slope = [M::RssPerMinute, M::RssPerMinuteLow, M::RssPerMinuteHigh, M::Rss];
        let descriptors = [M::DescriptorsBefore, M::DescriptorsAfter, M::DescriptorsPerMinuteLow];
        let failed = [M::Failed, M::Unexplained, M::LostTunnels, M::Availability];
        [&failed[..], &slope, &descriptors, &[M::P50, M::P99, M::Longest]].concat()
    }

    /// Lets everything happen once at least in a window of this `length`.
    pub(super) fn quicken(&mut self, length: Duration) {
        self.reload_every = self.reload_every.min(length / 4);
        self.flap_every = self.flap_every.min(length / 10 * 9);
    }

    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        let rates = [self.rate, self.short_rate, self.post_rate, self.messages, self.leaving_rate];
        ensure!(rates.iter().all(|rate| *rate > 0.0), "no rate");
        ensure!(self.clients > 0 && self.tunnels > 0 && self.slow > 0, "no clients, tunnels or slow ones");
        ensure!(!self.reload_every.is_zero() && !self.flap_every.is_zero(), "nothing happens");
        ensure!(
            upstream.servers >= 5 && !upstream.one_process,
            "five servers or more, each a process: one is killed, one hangs, one may answer 500, one works, and the last one stays"
        );
        Ok(())
    }
}
