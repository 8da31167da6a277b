//! Lines of access logs on their way from a worker to the thread that writes them.
//!
//! A worker appends lines to a batch and hands full batches over without waiting. When the writer is behind by more than
//! the limit, lines are dropped and counted.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use weir_observe::WorkerShard;
use weir_observe::access_log::LogTemplate;

/// A batch goes to the writer when it is this large, or when the worker sweeps.
const BATCH_BYTES: usize = 32 * 1024;

/// Lines on their way to the writer.
#[derive(Debug, Default)]
pub struct Batch {
    /// The lines, one after the other.
    pub text: Vec<u8>,
    /// Where each line ends.
    pub ends: Vec<usize>,
}

/// A message to the writer.
#[derive(Debug)]
pub enum LogMessage {
    /// Lines to write.
    Lines(Batch),
    /// Open files again, under the same name.
    Reopen,
}

/// The writer of one output, shared by all listeners and routes that log there.
#[derive(Debug)]
pub struct LogOutput {
    /// Where workers send their batches.
    pub sender: Sender<LogMessage>,
    /// Shared with the writer, which must not hold the sender.
    pub progress: Arc<LogProgress>,
    /// How many lines may wait for the writer.
    pub lines_max: usize,
}

/// How far a writer has come.
#[derive(Debug, Default)]
pub struct LogProgress {
    /// Lines handed over and not yet written.
    pub waiting: AtomicUsize,
    /// Lines that could not be written and that no worker has counted yet.
    pub lost: AtomicU64,
}

/// One worker's ends of all access logs of a config.
#[derive(Debug, Default)]
pub struct WorkerLogs {
    /// Those of the listeners, in their order.
    pub listeners: Vec<Option<LogBatches>>,
    /// Those that routes have of their own, each once: routes with equal ones share it.
    pub routes: Vec<LogBatches>,
    /// For each listener, the places in `routes` for its routes in their order; nothing for a listener whose routes have none.
    pub places: Vec<Arc<[Option<u32>]>>,
}

impl WorkerLogs {
    /// The same ends without any line, for a worker that begins anew.
    pub(crate) fn emptied(&self) -> Self {
        let emptied = |log: &Option<LogBatches>| log.as_ref().map(LogBatches::emptied);
        Self {
            listeners: self.listeners.iter().map(emptied).collect(),
            routes: self.routes.iter().map(LogBatches::emptied).collect(),
            places: self.places.clone(),
        }
    }
}

/// One worker's ends of the access logs that routes have of their own.
#[derive(Debug)]
pub(crate) struct RouteLogs {
    logs: Vec<Rc<LogBatches>>,
    places: Vec<Arc<[Option<u32>]>>,
}

impl RouteLogs {
    pub(crate) fn new(logs: Vec<LogBatches>, places: Vec<Arc<[Option<u32>]>>) -> Self {
        Self { logs: logs.into_iter().map(Rc::new).collect(), places }
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<LogBatches>> {
        self.logs.iter()
    }

    /// The log of a route, if it has one of its own.
    pub(crate) fn of_route(&self, listener: usize, route: usize) -> Option<&Rc<LogBatches>> {
        let place = (*self.places.get(listener)?.get(route)?)?;
        self.logs.get(place as usize)
    }
}

/// One worker's end of the access log of one listener, or of the routes that have the same one.
#[derive(Debug)]
pub struct LogBatches {
    format: Arc<LogTemplate>,
    output: Arc<LogOutput>,
    batch: RefCell<Batch>,
    shard: Arc<WorkerShard>,
}

impl LogBatches {
    /// An empty batch for `output`, in `format`; lines that are lost are counted by `shard`.
    pub fn new(format: &Arc<LogTemplate>, output: &Arc<LogOutput>, shard: &Arc<WorkerShard>) -> Self {
        Self {
            format: Arc::clone(format),
            output: Arc::clone(output),
            batch: RefCell::default(),
            shard: Arc::clone(shard),
        }
    }

    /// The same end without any line, for a worker that begins anew.
    fn emptied(&self) -> Self {
        Self::new(&self.format, &self.output, &self.shard)
    }

    /// Hands the lines gathered so far to the writer.
    pub(crate) fn flush(&self) {
        let progress = &self.output.progress;
        let lost = progress.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            self.shard.log_lines_dropped.add(lost);
        }
        let mut batch = self.batch.borrow_mut();
        if batch.ends.is_empty() {
            return;
        }
        let lines = batch.ends.len();
        if progress.waiting.load(Ordering::Relaxed) + lines > self.output.lines_max {
            self.shard.log_lines_dropped.add(lines as u64);
            batch.text.clear();
            batch.ends.clear();
            return;
        }
        progress.waiting.fetch_add(lines, Ordering::Relaxed);
        let full = std::mem::take(&mut *batch);
        let _writer_gone = self.output.sender.send(LogMessage::Lines(full));
    }

    /// Adds the line that `render` appends to the text it is given.
    pub(crate) fn add(&self, render: impl FnOnce(&LogTemplate, &mut Vec<u8>)) {
        let is_full = {
            let mut batch = self.batch.borrow_mut();
            let Batch { text, ends } = &mut *batch;
            render(&self.format, text);
            ends.push(text.len());
            text.len() >= BATCH_BYTES
        };
        if is_full {
            self.flush();
        }
    }
}

impl Drop for LogBatches {
    fn drop(&mut self) {
        // The worker has crashed: otherwise it has handed them over.
        if !self.batch.get_mut().ends.is_empty() {
            self.flush();
        }
    }
}
