//! Who exports: one thread for the collector of the config in use, and those of earlier configs until they have ended.
//!
//! A reload that names another collector starts another thread; the one of before sends what it has and ends.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use weir_config::{Collector, Config};

use super::thread;
use crate::telemetry::trace_counts::TraceCounts;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::snapshot::TracePlan;
use weir_proxy::state::tracing::trace_queue::TraceSender;

/// How long the end of the process waits at least for the last spans, also when its grace is over.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// How often the end of the process looks whether they are sent.
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// A thread that exports, and how it is reached.
struct ExportThread {
    collector: Collector,
    queue_max: usize,
    outlet: Arc<TraceSender>,
    /// Says nothing, and is disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl ExportThread {
    fn has_ended(&self) -> bool {
        matches!(self.ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
    }
}

impl Drop for ExportThread {
    fn drop(&mut self) {
        self.outlet.end();
    }
}

/// The exporter in use, if there is one.
pub(crate) struct TraceExport {
    queries: Arc<WorkerQueries>,
    /// What this Weir calls itself.
    instance: Box<str>,
    pub(crate) counts: Arc<TraceCounts>,
    running: Option<ExportThread>,
    /// The one of before, until no worker knows it any more.
    leaving: Vec<ExportThread>,
}

impl TraceExport {
    pub(crate) fn new(queries: &Arc<WorkerQueries>, instance: &str) -> Self {
        Self {
            queries: Arc::clone(queries),
            instance: instance.into(),
            counts: Arc::default(),
            running: None,
            leaving: Vec::new(),
        }
    }

    /// What workers are to do by this config. A collector that is as before goes on as it is.
    ///
    /// # Errors
    /// When the system refuses a thread, or TLS cannot be made ready; then nothing has changed.
    pub(crate) fn follow(&mut self, config: &Config, workers: usize) -> io::Result<Option<TracePlan>> {
        let Some(traces) = &config.traces else {
            self.leaving.extend(self.running.take());
            return Ok(None);
        };
        let is_same = |running: &&ExportThread| {
            running.collector == traces.collector && running.queue_max == traces.queue_max
        };
        if let Some(running) = self.running.as_ref().filter(is_same) {
            return Ok(Some(TracePlan::new(traces, workers, &running.outlet)));
        }
        let (outlet, receiver) = TraceSender::new(traces.queue_max);
        let outlet = Arc::new(outlet);
        let ended = thread::start(thread::ExportJob {
            receiver,
            queue: Arc::clone(&outlet.queue),
            collector: traces.collector.clone(),
            instance: self.instance.clone(),
            counts: Arc::clone(&self.counts),
            queries: Arc::clone(&self.queries),
        })?;
        let plan = TracePlan::new(traces, workers, &outlet);
        let (collector, queue_max) = (traces.collector.clone(), traces.queue_max);
        self.leaving.extend(self.running.replace(ExportThread { collector, queue_max, outlet, ended }));
        Ok(Some(plan))
    }

    /// Has those of before end, once every worker uses the newest config.
    pub(crate) fn settle(&mut self) {
        self.leaving.clear();
    }

    /// Has everything sent that waits, until `end` or a moment longer.
    pub(crate) fn close(mut self, end: Instant) {
        self.settle();
        let Some(running) = self.running.take() else { return };
        running.outlet.end();
        let end = end.max(clock::now() + CLOSE_TIME);
        while !running.has_ended() {
            if clock::now() >= end {
                tracing::warn!(
                    collector = %running.collector.url,
                    "the last spans are lost: the collector did not take them before Weir ended"
                );
                return;
            }
            clock::pause(CLOSE_LOOK);
        }
    }
}
