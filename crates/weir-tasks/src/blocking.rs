//! Work of a task that may wait for a disk, on a thread of its own.

use std::panic::resume_unwind;

/// Does it elsewhere; a panic goes on in the task that awaits it, which is begun anew if it is kept. `None`: the event loop ends.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Some(done),
        Err(ended) => match ended.try_into_panic() {
            // Its hook has logged it where it happened.
            Ok(panic) => resume_unwind(panic),
            Err(_event_loop_ends) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_one_of_the_task_that_waits() {
        let made = Cell::new(0);
        let make = || {
            made.set(made.get() + 1);
            let turn = made.get();
            async move {
                let done = blocking(move || {
                    assert!(turn > 1, "a panic of the test");
                    turn
                });
                assert_eq!(done.await, Some(2));
            }
        };
        crate::keep("test", make).await;
        assert_eq!(made.get(), 2);
    }
}
