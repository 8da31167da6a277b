//! What a worker keeps over a crash, and how often it may crash.
//!
//! A crash loses the connections of the worker and everything else that belongs to it, since nothing of that can be trusted any more. Its listening
//! sockets, its channels and its counters stay, and the config in use: a worker that is made anew accepts what has waited in the backlogs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::mpsc::UnboundedReceiver;
use weir_observe::WorkerShard;

use super::WorkerStart;
use super::apply_config::{ConfigUpdate, WorkerChange};
use crate::net::clock::Instant;
use crate::state::connections::connection_list::WorkerQuery;
use crate::state::datagrams::DatagramInbox;
use crate::state::shared::{AcceptedConnection, Shared};

/// Crashes of one worker after which the process gives up: what crashes as often serves nothing, and a supervisor starts the process anew.
const CRASHES_MAX: usize = 5;

/// The time in which they count.
const CRASH_WINDOW: Duration = Duration::from_secs(60);

/// Why a worker has ended before it was stopped.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The system refuses an event loop.
    #[error("the system refuses an event loop: {0}")]
    EventLoop(#[from] io::Error),
    /// It has crashed too often.
    #[error("it has crashed {CRASHES_MAX} times within {} seconds", CRASH_WINDOW.as_secs())]
    Crashes,
}

/// What outlives a crash of the worker.
pub(super) struct WorkerResources {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) shard: Arc<WorkerShard>,
    /// The config in use, with all sockets.
    pub(super) config: RefCell<ConfigUpdate>,
    pub(super) changes: MessageInbox<WorkerChange>,
    pub(super) handed_over: MessageInbox<AcceptedConnection>,
    #[cfg_attr(not(feature = "http3"), expect(dead_code, reason = "nothing comes without HTTP/3"))]
    pub(super) datagrams: DatagramInbox,
    pub(super) queries: MessageInbox<WorkerQuery>,
    pub(super) recorder: weir_config::RecorderSettings,
    pub(super) stop: Arc<Notify>,
    pub(super) random_seed: u64,
}

impl WorkerResources {
    pub(super) fn new(start: WorkerStart) -> Self {
        let WorkerStart { index, shared, shard, first, changes, handed_over, .. } = start;
        Self {
            index,
            shared,
            shard,
            config: RefCell::new(first),
            changes: MessageInbox::new(changes),
            handed_over: MessageInbox::new(handed_over),
            datagrams: start.datagrams,
            queries: MessageInbox::new(start.queries),
            recorder: start.recorder,
            stop: start.stop,
            random_seed: start.random_seed,
        }
    }
}

/// The end of a channel, of which a task takes messages as long as it lives.
pub(super) struct MessageInbox<T>(RefCell<UnboundedReceiver<T>>);

impl<T> MessageInbox<T> {
    fn new(receiver: UnboundedReceiver<T>) -> Self {
        Self(RefCell::new(receiver))
    }

    /// The next message.
    pub(super) async fn next(&self) -> Option<T> {
        poll_fn(|cx| self.0.borrow_mut().poll_recv(cx)).await
    }
}

/// The last crashes of a worker.
#[derive(Debug, Default)]
pub(super) struct CrashHistory(VecDeque<Instant>);

impl CrashHistory {
    /// Takes note of a crash.
    ///
    /// # Errors
    /// When there were too many.
    pub(super) fn record(&mut self, now: Instant) -> Result<(), WorkerError> {
        self.0.retain(|at| now - *at < CRASH_WINDOW);
        self.0.push_back(now);
        if self.0.len() < CRASHES_MAX { Ok(()) } else { Err(WorkerError::Crashes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_count_for_a_minute() {
        let at = |seconds| Instant::test(Duration::from_secs(seconds));
        let mut rare = CrashHistory::default();
        assert!((1..100).all(|count| rare.record(at(count * 15)).is_ok()), "4 within a minute");
        let mut often = CrashHistory::default();
        let recorded: Vec<bool> = (1..=5).map(|count| often.record(at(count * 14)).is_ok()).collect();
        assert_eq!(recorded, [true, true, true, true, false]);
    }
}
