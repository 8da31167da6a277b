//! Peak EWMA: the server on which a request is likely to be answered first, by latency times load.
//!
//! The latency of a server is its moving average, which a slow response raises at once; times the requests that it
//! would have, divided by its share, that is the time to wait. A server that has not answered yet gets one request
//! at a time; one that was slow is tried again when the memory of it has faded. Cost: one pass over the servers.

use std::cmp::Ordering;

use super::least::{Cost, ServerLoad, choose_least};
use super::rotation::{Rotation, RotationStart};
use super::{BalancerChoice, BalancerPeer};

/// Taken for the latency of a server that has a request and never answered one, in microseconds: longer than most, so
/// that a new server is not flooded before it shows what it can do.
const UNKNOWN_US: u32 = 1_000_000;

#[derive(Debug)]
pub(super) struct PeakEwma {
    rotation: Rotation,
}

/// The time to wait for one more request on a server.
#[derive(Clone, Copy)]
pub(super) struct ExpectedWait {
    latency_us: u32,
    load: ServerLoad,
}

impl ExpectedWait {
    #[inline]
    pub(super) fn on(peer: &BalancerPeer, share: u32, now_ms: u64) -> ExpectedWait {
        let load = ServerLoad { in_flight: peer.state.in_flight(), share };
        let latency_us = match peer.state.latency().at(now_ms) {
            0 if load.in_flight > 0 => UNKNOWN_US,
            latency_us => latency_us,
        };
        ExpectedWait { latency_us, load }
    }
}

impl Cost for ExpectedWait {
    const INFINITE: ExpectedWait = ExpectedWait { latency_us: 1, load: ServerLoad::INFINITE };

    #[inline]
    fn load(self) -> ServerLoad {
        self.load
    }

    /// Compares `latency * (in flight + 1) / share` of both exactly.
    #[inline]
    fn compare(self, other: ExpectedWait) -> Ordering {
        let product = |wait: ExpectedWait, share: u32| {
            u128::from(wait.latency_us) * (u128::from(wait.load.in_flight) + 1) * u128::from(share)
        };
        product(self, other.load.share).cmp(&product(other, self.load.share))
    }
}

impl PeakEwma {
    pub(super) fn new(peers: &[BalancerPeer], start: RotationStart) -> PeakEwma {
        PeakEwma { rotation: Rotation::new(peers, start) }
    }

    pub(super) fn clock(&self) -> u64 {
        self.rotation.clock()
    }

    /// Chooses among the peers that are `allowed`.
    #[inline]
    pub(super) fn choose(
        &self,
        peers: &[BalancerPeer],
        now_ms: u64,
        allowed: impl Fn(&BalancerPeer) -> bool,
    ) -> BalancerChoice {
        choose_least(&self.rotation, peers, allowed, |peer, share| ExpectedWait::on(peer, share, now_ms))
    }

    /// Which of two servers of equal cost comes first, relative to the others: smaller is sooner.
    pub(super) fn order(&self, peer: &BalancerPeer) -> i64 {
        self.rotation.place(peer)
    }
}
