//! Tasks and threads of the control plane that a panic does not end: each is begun anew, after a pause that grows.
//!
//! Unlike a worker, which serves nothing while it crashes, such a task never ends the process: traffic goes on without it, by what it has found out
//! before. Must not know what the tasks do.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use weir_proxy::net::clock::{self, Instant};

/// The pause before a task is begun anew for the first time; it doubles with each panic that follows within [`FORGOTTEN_AFTER`].
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A task that has run for so long begins with the first pause again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

static RESTARTS: AtomicU64 = AtomicU64::new(0);

/// Tasks begun anew since the start.
pub(crate) fn restarts() -> u64 {
    RESTARTS.load(Ordering::Relaxed)
}

/// Counts one more.
pub(crate) fn count_restart() {
    RESTARTS.fetch_add(1, Ordering::Relaxed);
}

/// Runs what `make` makes, and makes it again after a panic; `what` names the task in the log. The panic itself is logged and kept by its hook.
pub(crate) async fn keep<F: Future<Output = ()>>(what: &'static str, mut make: impl FnMut() -> F) {
    let mut pauses = RestartPauses::default();
    loop {
        let mut task = Box::pin(make());
        let is_done = poll_fn(|cx| {
            // The task is not polled again after a panic.
            match catch_unwind(AssertUnwindSafe(|| task.as_mut().poll(cx))) {
                Ok(polled) => polled.map(|()| true),
                Err(_) => Poll::Ready(false),
            }
        })
        .await;
        if is_done {
            return;
        }
        drop(task);
        tokio::time::sleep(note_restart(what, &mut pauses)).await;
    }
}

/// The same for what has a thread to itself. What it holds outside of `work` is there after a panic as well.
pub(crate) fn keep_thread(what: &'static str, mut work: impl FnMut()) {
    let mut pauses = RestartPauses::default();
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        clock::pause(note_restart(what, &mut pauses));
    }
}

/// Counts and logs that a task has ended by a panic; gives the pause before it is to begin anew.
pub(crate) fn note_restart(what: &'static str, pauses: &mut RestartPauses) -> Duration {
    let pause = pauses.next(clock::now());
    count_restart();
    tracing::error!(
        task = what,
        pause_in_s = pause.as_secs(),
        "a task of the control plane has ended by a defect of Weir and is begun anew after a pause; the log has the panic above"
    );
    pause
}

/// The pauses of one task.
#[derive(Debug, Default)]
pub(crate) struct RestartPauses {
    /// How many panics in a row, and when the last one was.
    last: Option<(u32, Instant)>,
}

impl RestartPauses {
    /// The pause after a panic.
    fn next(&mut self, now: Instant) -> Duration {
        let in_row = self
            .last
            .filter(|(_, at)| now.saturating_duration_since(*at) < FORGOTTEN_AFTER)
            .map_or(0, |(count, _)| count);
        self.last = Some((in_row.saturating_add(1), now));
        PAUSE_FIRST.saturating_mul(1 << in_row.min(16)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_anew_until_it_ends() {
        let (made, before) = (Cell::new(0), restarts());
        keep("test", || {
            made.set(made.get() + 1);
            let turn = made.get();
            async move {
                tokio::task::yield_now().await;
                assert!(turn > 1, "a panic of the test");
            }
        })
        .await;
        assert_eq!(made.get(), 2);
        assert!(restarts() > before);
    }

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let (mut pauses, start) = (RestartPauses::default(), clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let seconds = [0, 1, 3, 7, 15, 31, 63, 400].map(|now| pauses.next(at(now)).as_secs());
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 1]);
    }
}
