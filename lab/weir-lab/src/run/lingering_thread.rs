//! A thread that stays until it is released: the kernel drops the CPU time of a thread that has ended, and it is read after the
//! work. Must not use CPU time while it stays, and does not end the work early: a caller that wants that has to tell the work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{Result, Scope, ScopedJoinHandle};

/// Work on a thread that is still there when it is done.
pub(super) struct LingeringThread<'scope, T> {
    thread: ScopedJoinHandle<'scope, T>,
    is_done: Arc<AtomicBool>,
    /// Dropped to let it go.
    held: Sender<()>,
}

/// Starts it.
pub(super) fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> LingeringThread<'scope, T> {
    let (held, until_let_go) = mpsc::channel::<()>();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let thread = scope.spawn(move || {
        let result = work();
        done.store(true, Ordering::Relaxed);
        let _dropped = until_let_go.recv();
        result
    });
    LingeringThread { thread, is_done, held }
}

impl<T> LingeringThread<'_, T> {
    /// Whether its work is done, by a panic too.
    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Relaxed) || self.thread.is_finished()
    }

    /// Stops it and waits for its result; an error when it has panicked.
    pub(super) fn join(self) -> Result<T> {
        drop(self.held);
        self.thread.join()
    }
}

#[cfg(test)]
mod tests {
    use super::spawn;
    use crate::clock;
    use procfs::process::Process;
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn its_cpu_time_is_seen_when_its_work_is_done() {
        let work = Duration::from_millis(20);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let thread = spawn(scope, move || {
                clock::burn(work);
                sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            });
            let id = receiver.recv().unwrap();
            assert!(clock::wait_until(Duration::from_secs(60), || thread.is_done()));
            let task = Process::myself().unwrap().task_from_tid(id).unwrap();
            assert!(u128::from(task.schedstat().unwrap().sum_exec_runtime) >= work.as_nanos());
            thread.join().unwrap();
        });
    }

    #[test]
    fn a_panic_ends_it() {
        let result = std::thread::scope(|scope| {
            let thread = spawn(scope, || -> u32 { panic!("on purpose") });
            assert!(clock::wait_until(Duration::from_secs(60), || thread.is_done()));
            thread.join().err()
        });
        assert!(result.is_some());
    }
}
