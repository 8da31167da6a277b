//! Keeps a task, or the work of a thread, through its panics. What is to outlive a panic is held outside of what is begun anew.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use crate::restarts::{RestartPauses, note_restart};
use crate::{clock, faults};

/// Runs what `make` makes, and makes it again after a panic; `what` names the task in the log. The panic itself is logged and kept by its hook.
pub async fn keep<F: Future<Output = ()>>(what: &'static str, make: impl FnMut() -> F) {
    keep_telling(what, make, || {}).await;
}

/// The same for a task that others hear from: `tell` is called after each panic, before the pause.
pub async fn keep_telling<F: Future<Output = ()>>(
    what: &'static str,
    mut make: impl FnMut() -> F,
    mut tell: impl FnMut(),
) {
    let mut pauses = RestartPauses::default();
    loop {
        let mut task = Box::pin(make());
        let is_done = poll_fn(|cx| {
            let turn = || {
                faults::strike(what);
                task.as_mut().poll(cx)
            };
            // The task is not polled again after a panic.
            match catch_unwind(AssertUnwindSafe(turn)) {
                Ok(polled) => polled.map(|()| true),
                Err(_) => Poll::Ready(false),
            }
        })
        .await;
        if is_done {
            return;
        }
        drop(task);
        tell();
        tokio::time::sleep(note_restart(what, &mut pauses)).await;
    }
}

/// The same for what has a thread to itself. What it holds outside of `work` is there after a panic as well.
pub fn keep_thread(what: &'static str, mut work: impl FnMut()) {
    let mut pauses = RestartPauses::default();
    let mut turn = || {
        faults::strike(what);
        work();
    };
    while catch_unwind(AssertUnwindSafe(&mut turn)).is_err() {
        clock::pause(note_restart(what, &mut pauses));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::restarts;

    #[tokio::test]
    async fn a_task_that_panics_is_begun_anew_until_it_ends() {
        let (made, told, before) = (Cell::new(0), Cell::new(0), restarts());
        let make = || {
            made.set(made.get() + 1);
            let turn = made.get();
            async move {
                tokio::task::yield_now().await;
                assert!(turn > 1, "a panic of the test");
            }
        };
        keep_telling("test", make, || told.set(told.get() + 1)).await;
        assert_eq!((made.get(), told.get()), (2, 1));
        assert!(restarts() > before);
    }
}
