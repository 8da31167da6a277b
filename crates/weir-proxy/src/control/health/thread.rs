//! The thread that probes: one event loop for all of them, which looks up less often when there is more to do.
//!
//! A thousand probes per second would wake it two thousand times: once for each that becomes due, once for each
//! answer. So above [`BUSY`] it rests after each look, and finds what has become due and what has been answered
//! meanwhile in one go.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::Notify;

use super::{keep_checked, probes_per_second};
use crate::clock;
use crate::snapshot::Snapshot;

/// Probes per second from which the thread rests between its looks.
const BUSY: f64 = 200.0;

/// How long it rests, and by how much a probe may then start late and seem to last longer.
const REST: Duration = Duration::from_millis(8);

/// The running thread; stopped and waited for when dropped.
#[derive(Debug)]
pub(crate) struct CheckThread {
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl CheckThread {
    /// Starts it, if there is anything to probe.
    ///
    /// # Errors
    /// When the system refuses a thread or an event loop.
    pub(crate) fn start(snapshot: Arc<Snapshot>, seed: u64) -> io::Result<Option<Self>> {
        let per_second = probes_per_second(&snapshot);
        if per_second == 0.0 {
            return Ok(None);
        }
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all();
        let rest = if per_second < BUSY { Duration::ZERO } else { REST };
        if !rest.is_zero() {
            runtime.on_thread_park(move || clock::pause(rest));
        }
        let runtime = runtime.build()?;
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("weir-health".into()).spawn(move || {
            // Connections stay on their thread, and so do probes.
            tokio::task::LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = keep_checked(snapshot, seed, rest) => {}
                    () = stopped.notified() => {}
                }
            });
        })?;
        Ok(Some(Self { stop, thread: Some(thread) }))
    }
}

impl Drop for CheckThread {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
