//! The end of the running proxy: announced, begun, waited for, and cut short when its time is up.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use weir_observe::WorkerShard;

use super::Proxy;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::listening::SocketFile;

/// How often a stop looks whether it is over.
const STOP_LOOK: Duration = Duration::from_millis(5);

/// How long the workers have to end the connections that a stop cuts: it is a matter of milliseconds, unless one is stuck.
const CUT_TIME: Duration = Duration::from_secs(1);

/// When sessions that missed the first signal, since they were not waiting for it, get a second one.
const CUT_AGAIN: Duration = Duration::from_millis(100);

/// How the stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopReport {
    /// Exchanges and tunnels that were cut because their time was up. Idle connections lose nothing.
    pub cut: u64,
}

impl Proxy {
    /// Hands over to another node: lets connections end with their next response for `delay`, then has the other node told; until `hurry` says that
    /// there is no more time.
    pub fn hand_over(&self, delay: Duration, mut hurry: impl FnMut(&Self) -> bool) {
        self.hand_over.carry_out(delay, "the stop", || hurry(self));
    }

    /// Lets `/ready` and reports say that the process is about to stop, and continues as before for `delay`, or until `hurry` says that there is
    /// no more time.
    pub fn announce_stop(&self, delay: Duration, mut hurry: impl FnMut(&Self) -> bool) {
        self.shared.stop_announced.store(true, Ordering::SeqCst);
        let end = clock::now() + delay;
        while clock::now() < end && !hurry(self) {
            clock::pause(STOP_LOOK);
        }
    }

    /// Stops accepting and lets idle connections end; running exchanges continue.
    pub fn begin_stop(&self) {
        self.shared.stop_announced.store(true, Ordering::SeqCst);
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.places.ends.store(true, Ordering::SeqCst);
        // New connections are rejected from now on, and those in a backlog are accepted before it is closed.
        self.refuse_new();
        for stop in &self.stop_workers {
            stop.notify_one();
        }
    }

    /// Whether every connection has ended after [`Proxy::begin_stop`].
    pub fn is_drained(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Exchanges and tunnels that run.
    fn running(&self) -> u64 {
        let of_worker = |shard: &Arc<WorkerShard>| shard.exchanges_open.value() + shard.tunnels_open.value();
        u64::try_from(self.shards.iter().map(of_worker).sum::<i64>()).unwrap_or(0)
    }

    /// Tunnels that were ended because their time was up.
    fn tunnels_drained(&self) -> u64 {
        // Not by the failures: a request that a stop answers with 503 has its answer.
        self.shards.iter().map(|shard| shard.tunnels_drained.value()).sum()
    }

    /// Stops: waits up to `grace` for running exchanges, or until `hurry` says that there is no more time, then ends the rest.
    pub fn stop(mut self, grace: Duration, mut hurry: impl FnMut(&Self) -> bool) -> StopReport {
        let drained_before = self.tunnels_drained();
        self.begin_stop();
        let end: Instant = clock::now() + grace;
        while !self.is_drained() && clock::now() < end && !hurry(&self) {
            clock::pause(STOP_LOOK);
        }
        // Tunnels end a moment before the grace is over, so that they end properly; they are cut all the same.
        let tunnels_cut = self.tunnels_drained() - drained_before;
        let cut = tunnels_cut + if self.is_drained() { 0 } else { self.running() };
        self.cut_the_rest();
        self.stop_control.notify_one();
        self.checks = None;
        self.memory = None;
        self.acme = None;
        if self.is_drained() {
            for worker in self.workers.drain(..) {
                let _panicked = worker.join();
            }
            if let Some(control) = self.control.take() {
                let _panicked = control.join();
            }
        }
        // The workers write no more, so the writers can finish.
        if let Some(logs) = self.logs.take() {
            logs.close();
        }
        if let Some(traces) = self.traces.take() {
            traces.close(end);
        }
        StopReport { cut }
    }

    /// Ends the connections that sessions as the operator's command does, so that each is answered, counted and logged, and gives the
    /// workers a moment for that.
    fn cut_the_rest(&self) {
        let end = clock::now() + CUT_TIME;
        while !self.is_drained() && clock::now() < end {
            self.queries.end_all();
            let asked_again = clock::now() + CUT_AGAIN;
            while !self.is_drained() && clock::now() < asked_again.min(end) {
                clock::pause(STOP_LOOK);
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.begin_stop();
        self.stop_control.notify_one();
        if self.left_to.is_none() {
            self.runtime.iter().filter_map(|socket| socket.file.as_ref()).for_each(SocketFile::remove);
        }
    }
}
