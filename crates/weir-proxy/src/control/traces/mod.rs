//! Sampled exchanges that are over, on their way from the workers to a collector (OpenTelemetry, OTLP over HTTP).
//!
//! A worker hands over a copy of fixed size and goes on: it never waits, and what finds no room is dropped and counted. A thread makes
//! spans of them (`spans`) and has them delivered (`courier`). A reload that names another collector starts another thread; the one
//! of before sends what it has and ends.

mod courier;
mod spans;
mod thread;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

use weir_config::{Collector, Config};
use weir_observe::{TraceLoss, TraceStats};

use crate::control::recorder::Desk;
use crate::net::clock::{self, Instant};
use crate::state::snapshot::TracePlan;
use crate::state::trace_queue::TraceSender;

/// How long the end of the process waits at least for the last spans, also when its grace is over.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// How often the end of the process looks whether they are sent.
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// What is counted by whichever thread exports.
#[derive(Debug, Default)]
pub(crate) struct TraceCounts {
    exported: AtomicU64,
    dropped: [AtomicU64; TraceLoss::COUNT],
    exports_failed: AtomicU64,
}

impl TraceCounts {
    pub(crate) fn figures(&self) -> TraceStats {
        TraceStats {
            spans_exported: self.exported.load(Ordering::Relaxed),
            spans_dropped: std::array::from_fn(|loss| self.dropped[loss].load(Ordering::Relaxed)),
            exports_failed: self.exports_failed.load(Ordering::Relaxed),
        }
    }

    fn exported(&self, spans: u64) {
        self.exported.fetch_add(spans, Ordering::Relaxed);
    }

    fn dropped(&self, loss: TraceLoss, spans: u64) {
        self.dropped[loss as usize].fetch_add(spans, Ordering::Relaxed);
    }

    fn export_failed(&self) {
        self.exports_failed.fetch_add(1, Ordering::Relaxed);
    }
}

/// A thread that exports, and how it is reached.
struct Running {
    collector: Collector,
    queue_max: usize,
    outlet: Arc<TraceSender>,
    /// Says nothing, and is disconnected when the thread has ended.
    ended: Receiver<()>,
}

impl Running {
    fn has_ended(&self) -> bool {
        matches!(self.ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.outlet.end();
    }
}

/// Who exports now, if anybody does.
pub(crate) struct Traces {
    desk: Arc<Desk>,
    /// What this Weir calls itself.
    instance: Box<str>,
    pub(crate) counts: Arc<TraceCounts>,
    running: Option<Running>,
    /// The one of before, until no worker knows it any more.
    leaving: Vec<Running>,
}

impl Traces {
    pub(crate) fn new(desk: &Arc<Desk>, instance: &str) -> Self {
        Self {
            desk: Arc::clone(desk),
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
        let is_same =
            |running: &&Running| running.collector == traces.collector && running.queue_max == traces.queue;
        if let Some(running) = self.running.as_ref().filter(is_same) {
            return Ok(Some(TracePlan::new(traces, workers, &running.outlet)));
        }
        let (outlet, receiver) = TraceSender::new(traces.queue);
        let outlet = Arc::new(outlet);
        let ended = thread::start(thread::Work {
            receiver,
            queue: Arc::clone(&outlet.queue),
            collector: traces.collector.clone(),
            instance: self.instance.clone(),
            counts: Arc::clone(&self.counts),
            desk: Arc::clone(&self.desk),
        })?;
        let plan = TracePlan::new(traces, workers, &outlet);
        let (collector, queue_max) = (traces.collector.clone(), traces.queue);
        self.leaving.extend(self.running.replace(Running { collector, queue_max, outlet, ended }));
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
