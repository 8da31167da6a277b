//! Whether a worker has crashed: a task has panicked that it cannot do without, such as the one that accepts connections.
//!
//! A panic in the task of a connection ends that connection alone, and is no crash. What follows from a crash is decided in
//! `worker/restart.rs`.

use std::cell::Cell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Whether the worker has crashed, and who waits for that.
#[derive(Debug, Default)]
pub(crate) struct CrashState {
    has_crashed: Cell<bool>,
    crashed: Notify,
}

impl CrashState {
    /// Starts a task that the worker cannot do without.
    pub(crate) fn spawn(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) -> JoinHandle<()> {
        let guard = CrashGuard(Rc::clone(self));
        tokio::task::spawn_local(async move {
            let _guard = guard;
            task.await;
        })
    }

    /// Waits for a crash.
    pub(crate) async fn crashed(&self) {
        self.crashed.notified().await;
    }

    /// Whether there was one: whatever is dropped from then on is lost.
    pub(crate) fn has_crashed(&self) -> bool {
        self.has_crashed.get()
    }

    /// Takes note of one.
    pub(crate) fn set(&self) {
        self.has_crashed.set(true);
        self.crashed.notify_one();
    }
}

/// Part of a task that the worker cannot do without.
struct CrashGuard(Rc<CrashState>);

impl Drop for CrashGuard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_crash_and_an_end_is_none() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("there is memory");
        let crash = Rc::new(CrashState::default());
        tokio::task::LocalSet::new().block_on(&runtime, async {
            crash.spawn(async {}).await.expect("it ends");
            let aborted = crash.spawn(std::future::pending());
            aborted.abort();
            assert!(aborted.await.is_err_and(|error| error.is_cancelled()));
            assert!(!crash.has_crashed());
            let panicked = crash.spawn(async { panic!("as it should") });
            crash.crashed().await;
            assert!(crash.has_crashed() && panicked.await.is_err_and(|error| error.is_panic()));
        });
    }
}
