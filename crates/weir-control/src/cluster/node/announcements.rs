//! Signs of life for the watcher, and what it reports: whether keepalived and BIRD know the state of this node.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot::Receiver;
use weir_observe::overview::AnnouncementOverview;

use super::hand_over::HandOver;
use super::watcher::{Availability, NodeWatcher, WatcherReport};
use crate::system::threads;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::clock::{self, Instant};

/// How often workers are asked for a sign of life.
const ASK_INTERVAL: Duration = Duration::from_millis(200);

/// How long none of them may answer: one that is busy takes some milliseconds.
const STUCK_TIME: Duration = Duration::from_secs(1);

/// What the watcher has told, and whether it lives.
#[derive(Debug, Default)]
pub(crate) struct Announcements {
    is_used: AtomicBool,
    has_ended: AtomicBool,
    /// Nothing is announced any more: another process does that.
    is_left: AtomicBool,
    told: Mutex<Vec<AnnouncementOverview>>,
}

impl Announcements {
    /// Whether the watcher lives; `None`: there is none.
    pub(crate) fn is_watched(&self) -> Option<bool> {
        let is_used = self.is_used.load(Ordering::Relaxed);
        is_used.then(|| !self.has_ended.load(Ordering::Relaxed))
    }

    /// What keepalived and BIRD were told last.
    pub(crate) fn overview(&self) -> Vec<AnnouncementOverview> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Programs that could not be told.
    pub(crate) fn failing(&self) -> u64 {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.iter().filter(|known| known.error.is_some()).count() as u64
    }

    /// Ends the signs: another process gives its own.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::SeqCst);
    }

    fn note(&self, report: WatcherReport) {
        let WatcherReport { target, outcome, reason } = report;
        match &outcome {
            Ok(told) if reason.is_some() => tracing::error!(
                target = target,
                told,
                reason,
                "the state of this node was announced: another one is to serve"
            ),
            Ok(told) => tracing::info!(target = target, told, "the state of this node was announced"),
            Err(error) => {
                tracing::error!(
                    target = target,
                    error,
                    "the state of this node cannot be announced: it is tried again"
                );
            }
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|known| known.target != target);
        let (text, error) = match outcome {
            Ok(text) => (Some(text), None),
            Err(error) => (None, Some(error)),
        };
        told.push(AnnouncementOverview { target, told: text, error });
    }
}

impl Announcements {
    /// Gives a sign of life; whether another is to follow.
    fn give_sign(&self, watcher: &NodeWatcher, hand_over: &HandOver, is_stuck: bool) -> bool {
        if self.is_left.load(Ordering::SeqCst) {
            return false;
        }
        let now = if is_stuck { Availability::Unavailable } else { hand_over.availability() };
        if watcher.sign(now).is_ok() {
            watcher.reports().for_each(|report| self.note(report));
            return true;
        }
        if !self.is_left.load(Ordering::SeqCst) {
            self.has_ended.store(true, Ordering::Relaxed);
            tracing::error!(
                "the process weir-watcher has ended: keepalived and BIRD are not told any more what becomes of Weir; `weir upgrade` starts another"
            );
        }
        false
    }
}

/// Starts the thread that gives signs of life to `watcher`, as long as the process lives.
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn start(
    announcements: &Arc<Announcements>,
    watcher: Arc<NodeWatcher>,
    hand_over: Arc<HandOver>,
    queries: Arc<WorkerQueries>,
) -> io::Result<()> {
    announcements.is_used.store(true, Ordering::Relaxed);
    let announcements = Arc::clone(announcements);
    std::thread::Builder::new().name("weir-signs".into()).spawn(move || {
        let _registration = threads::register();
        let mut progress = WorkerProgress::new();
        loop {
            let turn = || {
                weir_tasks::strike("the signs of life");
                announcements.give_sign(&watcher, &hand_over, progress.is_stuck(&queries))
            };
            match catch_unwind(AssertUnwindSafe(turn)) {
                Ok(false) => return,
                Ok(true) => {}
                // Without a further pause: another node would take over from one that serves.
                Err(_) => {
                    weir_tasks::count_restart();
                    tracing::error!(
                        "a sign of life for the process weir-watcher was left out by a defect of Weir; the log has the panic above"
                    );
                }
            }
            clock::pause(watcher.interval());
        }
    })?;
    Ok(())
}

/// Whether any worker makes progress.
struct WorkerProgress {
    answers: Vec<Receiver<()>>,
    asked_at: Instant,
    is_told: bool,
}

impl WorkerProgress {
    fn new() -> Self {
        Self { answers: Vec::new(), asked_at: clock::now(), is_told: false }
    }

    /// Whether no worker has answered for too long.
    fn is_stuck(&mut self, queries: &WorkerQueries) -> bool {
        let since = clock::now().saturating_duration_since(self.asked_at);
        if since < ASK_INTERVAL && !self.is_told {
            return false;
        }
        let answered =
            self.answers.is_empty() || self.answers.iter_mut().any(|answer| answer.try_recv().is_ok());
        if answered {
            self.answers = queries.ask_progress();
            self.asked_at = clock::now();
            self.is_told = false;
            return false;
        }
        if since >= STUCK_TIME && !std::mem::replace(&mut self.is_told, true) {
            tracing::error!("no worker makes progress: another node is to serve");
        }
        self.is_told
    }
}
