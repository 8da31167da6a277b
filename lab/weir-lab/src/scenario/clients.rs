//! Works that differ in their clients: more and more of them, slow ones among others, and some of every kind while the
//! target gets new configurations.

use std::time::Duration;

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::length;
use crate::measure::metric::Metric;
use crate::topology::upstream::UpstreamSetup;

/// The everyday load, with more clients from case to case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LadderWork {
    /// Numbers of clients, rising; each is a case. Numbers without enough descriptors are replaced by the largest that fits.
    pub clients: Vec<usize>,
    /// A target with more failed requests than this, in percent, is spared the larger cases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errors_max: Option<f64>,
}

impl LadderWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let latency = [M::RequestsPerSecond, M::P50, M::P95, M::P99, M::P999];
        let errors = [M::Availability, M::Failed];
        let first =
            if self.errors_max.is_some() { [M::RequestsPerSecond, M::BytesPerSecond] } else { errors };
        let mut columns = if self.errors_max.is_some() { errors.to_vec() } else { latency.to_vec() };
        columns.extend(first);
        if self.errors_max.is_some() {
            columns.extend([M::P50, M::P99]);
        }
        columns.extend([M::CpuPerRequest, M::Rss]);
        columns
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        let rising = self.clients.windows(2).all(|pair| pair[0] < pair[1]);
        let there = self.clients.first().is_some_and(|first| *first > 0);
        ensure!(there && rising, "clients of a ladder: one number or more, rising");
        ensure!(
            self.errors_max.is_none_or(|max| (0.0..100.0).contains(&max)),
            "`errors-max` is a percentage"
        );
        Ok(())
    }
}

/// Clients at a constant rate, and others beside them that take and send little at a time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SlowClientsWork {
    /// Requests per second of the usual ones.
    pub rate: f64,
    /// How many of them take turns.
    pub clients: usize,
    /// Clients that are slow to read an answer.
    pub readers: usize,
    /// Bytes of that answer.
    pub answer: u64,
    /// Clients that are slow to send a body.
    pub writers: usize,
    /// Bytes of that body.
    pub body: usize,
    /// Bytes that a slow one reads or writes in a second.
    pub pace: u64,
}

impl SlowClientsWork {
    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let usual = [M::P99, M::P99OfPlain, M::Failed, M::Availability, M::Longest];
        [&usual[..], &[M::SlowWhole, M::SlowEnded, M::SlowWrong, M::Rss, M::LatenessP99]].concat()
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.clients > 0, "no rate or clients");
        ensure!(self.readers + self.writers > 0 && self.pace > 0, "no slow clients, or none that gets on");
        ensure!(self.writers == 0 || self.body > 0, "slow writers write something");
        ensure!(self.readers == 0 || self.answer > 0, "slow readers read something");
        Ok(())
    }
}

/// Growth after this number of reloads is reported separately: by then a target has the memory that it keeps for good.
pub(crate) const MANY: u32 = 10;

/// Clients of three kinds at a constant rate while the target is given one configuration after the other.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReloadWork {
    /// Requests per second on kept connections.
    pub rate: f64,
    /// Clients that keep their connections.
    pub clients: usize,
    /// They speak HTTP/2, with so many requests at a time on each connection, and are the only ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Requests per second on a connection of their own.
    #[serde(default)]
    pub short_rate: f64,
    /// WebSocket tunnels that are open all the time, on a path that no configuration touches.
    #[serde(default)]
    pub tunnels: usize,
    /// Besides, those through servers that configurations take away and bring back.
    #[serde(default)]
    pub touched_tunnels: usize,
    /// How often the target is reloaded.
    pub times: u32,
    /// From one reload to the next.
    #[serde(with = "length")]
    pub every: Duration,
}

impl ReloadWork {
    /// How long it takes: `every` before the first reload and after the last one.
    pub fn length(&self) -> Duration {
        self.every * (self.times + 1)
    }

    /// The columns of its table.
    pub(super) fn columns(&self) -> Vec<Metric> {
        use Metric as M;
        let tunnels = if self.streams.is_some() { &[][..] } else { &[M::LostTunnels, M::LostTouched] };
        let lost = [&[M::Failed, M::Resets, M::ClosedConnections], tunnels].concat();
        let later = [M::RssGrowthLater, M::RssPerReload];
        let later = if self.times > MANY { &later[..] } else { &[] };
        let memory = [&[M::TakesEffect, M::LateConfigurations, M::Rss, M::RssGrowth], later].concat();
        [&lost[..], &memory, &[M::Availability, M::P50, M::P99, M::Longest, M::LatenessP99]].concat()
    }

    pub(super) fn check(&self, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.rate > 0.0 && self.clients > 0, "no rate or clients");
        let is_alone = self.short_rate == 0.0 && self.tunnels == 0 && self.touched_tunnels == 0;
        match self.streams {
            Some(streams) => {
                ensure!(streams > 0 && is_alone, "clients of HTTP/2 are alone, with a stream or more");
            }
            None => ensure!(self.short_rate > 0.0, "no rate of clients that come once"),
        }
        ensure!(self.times > 0 && !self.every.is_zero(), "nothing is reloaded");
        ensure!(
            upstream.servers >= 4 && !upstream.one_process,
            "four servers or more, each a process: with every configuration one goes and one comes, and the last one stays"
        );
        Ok(())
    }
}
