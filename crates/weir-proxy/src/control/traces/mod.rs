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
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use weir_config::{Collector, Config};
use weir_observe::{TraceFigures, TraceLoss};

use crate::net::clock::{self, Instant};
use crate::downstream::session::Session;
use crate::exchange::Exchange;
use crate::exchange::trace::Own;
use crate::state::recorder::{Desk, Flight};
use crate::state::snapshot::TracePlan;
use crate::state::view::View;

/// Longest path that is told of what a server got.
const PATH_BYTES_MAX: usize = 256;

/// How long the end of the process waits at least for the last spans, also when its grace is over.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// How often the end of the process looks whether they are sent.
const CLOSE_LOOK: Duration = Duration::from_millis(5);

/// A sampled exchange that is over.
#[derive(Debug)]
pub(crate) struct Sampled {
    own: Own,
    flight: Flight,
    /// The path that servers got, when a rewrite changed it, without the query.
    rewritten: Option<Box<[u8]>>,
}

// What the reference of the config says about the memory.
const _: () = assert!(size_of::<Sampled>() <= 1200);

enum Message {
    Sampled(Box<Sampled>),
    /// Nothing more comes.
    End,
}

/// Where workers hand over what is sampled.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: Sender<Message>,
    queue: Arc<Queue>,
}

/// How much waits, and how long there is for it; shared with the thread, which must not hold the sender.
#[derive(Debug)]
struct Queue {
    waiting: AtomicUsize,
    waiting_max: usize,
    /// Whether the thread is to send what it has and end.
    is_ending: AtomicBool,
}

impl Queue {
    /// One less waits.
    fn leave(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether so many wait.
    fn holds(&self, count: usize) -> bool {
        self.waiting.load(Ordering::Relaxed) >= count
    }

    fn is_full(&self) -> bool {
        self.holds(self.waiting_max)
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }
}

impl Outlet {
    /// A queue of this length, and its other end.
    fn new(waiting_max: usize) -> (Self, Receiver<Message>) {
        let (sender, receiver) = channel();
        let queue = Queue { waiting: AtomicUsize::new(0), waiting_max, is_ending: AtomicBool::new(false) };
        (Self { sender, queue: Arc::new(queue) }, receiver)
    }

    /// Takes one; `false` when there is no room.
    fn take(&self, sampled: impl FnOnce() -> Box<Sampled>) -> bool {
        let queue = &self.queue;
        if queue.waiting.fetch_add(1, Ordering::Relaxed) < queue.waiting_max
            && self.sender.send(Message::Sampled(sampled())).is_ok()
        {
            return true;
        }
        queue.leave();
        false
    }

    fn end(&self) {
        self.queue.is_ending.store(true, Ordering::Relaxed);
        let _ended_already = self.sender.send(Message::End);
    }
}

/// Hands a sampled exchange over that is over, to where the newest config says.
pub(crate) fn hand_over(session: &Session, exchange: &Exchange, view: &View) {
    // Not while it is being replaced, which a connection that ends by a panic could come across.
    let Ok(present) = session.worker.view.try_borrow() else { return };
    let (Some(plan), Some(own)) = (&present.snapshot.traces, exchange.record.trace.sampled()) else { return };
    let sampled = || {
        let rewritten = exchange.rewritten.split(|byte| *byte == b'?').next().unwrap_or_default();
        let rewritten = &rewritten[..rewritten.len().min(PATH_BYTES_MAX)];
        Box::new(Sampled {
            own: *own,
            flight: Flight::whole(session, exchange, view),
            rewritten: (!rewritten.is_empty()).then(|| rewritten.into()),
        })
    };
    if !plan.outlet.take(sampled) {
        session.worker.shard.traces_dropped.increment();
    }
}

/// What is counted by whichever thread exports.
#[derive(Debug, Default)]
pub(crate) struct TraceCounts {
    exported: AtomicU64,
    dropped: [AtomicU64; TraceLoss::COUNT],
    exports_failed: AtomicU64,
}

impl TraceCounts {
    pub(crate) fn figures(&self) -> TraceFigures {
        TraceFigures {
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
    outlet: Arc<Outlet>,
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
        let (outlet, receiver) = Outlet::new(traces.queue);
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
