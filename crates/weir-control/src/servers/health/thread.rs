//! The thread that probes: one event loop for all of them, which wakes up less often when there is more to do.
//!
//! A thousand probes per second would wake it two thousand times: once for each that becomes due, once for each
//! answer. So above [`BUSY`] it rests after each round, and handles the probes that became due and the answers that came
//! meanwhile in one go.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::checks::{ProbeConfig, ProbedServers, keep_checked, probes_per_second};
use super::thread_pause::ThreadPause;
use crate::system::threads;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};

/// Time limit for the thread to take over another config: long for a thread that never blocks.
const FOLLOW_TIME: Duration = Duration::from_secs(2);

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub(crate) struct ProbeThread {
    snapshots: UnboundedSender<ProbeConfig>,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl ProbeThread {
    /// Starts it, if there is anything to probe.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub(crate) fn start(
        snapshot: &Arc<Snapshot>,
        queries: &Arc<WorkerQueries>,
        seed: u64,
    ) -> io::Result<Option<Self>> {
        if probes_per_second(snapshot) == 0.0 {
            return Ok(None);
        }
        let (snapshots, next) = unbounded_channel();
        let pause_ = ThreadPause::default();
        let (pausing, queries) = (pause_.clone(), Arc::clone(queries));
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().on_thread_park(move || pausing.take()).build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-health".into()).spawn(move || {
            let _registration = threads::register();
            // Connections stay on their thread, and so do probes.
            tokio::task::LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = keep_checked(next, queries, seed, pause_) => {}
                    () = stopped.notified() => {}
                }
            });
        })?;
        let started = Self { snapshots, stop, thread: Some(thread) };
        started.follow(snapshot);
        Ok(Some(started))
    }

    /// Probes by the next config. Returns when no probe runs by the old one any more, so that no verdict comes about servers
    /// that are not probed from now on.
    pub(crate) fn follow(&self, snapshot: &Arc<Snapshot>) {
        self.probe(ProbedServers::Snapshot(Arc::clone(snapshot)));
    }

    /// The same for other servers of some upstreams.
    pub(crate) fn follow_upstreams(&self, plans: Vec<Arc<UpstreamPlan>>) {
        self.probe(ProbedServers::Upstreams(plans));
    }

    fn probe(&self, servers: ProbedServers) {
        let (done, all_done) = channel();
        let _ended = self.snapshots.send(ProbeConfig { servers, done });
        if let Err(RecvTimeoutError::Timeout) = all_done.recv_timeout(FOLLOW_TIME) {
            tracing::error!("the thread that probes servers is stuck");
        }
    }
}

impl Drop for ProbeThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
