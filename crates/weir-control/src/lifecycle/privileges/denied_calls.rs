//! System calls that the filter denies: each is counted and logged, so that a call that is missing in its list is not a riddle.
//!
//! The kernel stops the thread that makes one until this one has answered, so that thread must not do anything that waits.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::system::sys::seccomp;
use crate::system::threads;

static LISTENER: Mutex<Option<OwnedFd>> = Mutex::new(None);
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Takes what the kernel reports denied calls to.
pub(super) fn follow(listener: OwnedFd) {
    *LISTENER.lock().expect("no thread panics while it holds it") = Some(listener);
}

/// Calls denied since the start.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}

/// Starts the thread that answers, if there is anything to answer.
///
/// # Errors
/// When the system refuses a thread.
pub(crate) fn report() -> io::Result<()> {
    let Some(listener) = LISTENER.lock().expect("no thread panics while it holds it").take() else {
        return Ok(());
    };
    std::thread::Builder::new().name("weir-sandbox".into()).spawn(move || {
        let _registration = threads::register();
        let mut logged = BTreeSet::new();
        while let Some(denied) = seccomp::next(listener.as_fd()) {
            COUNT.fetch_add(1, Ordering::Relaxed);
            seccomp::refuse(listener.as_fd(), &denied);
            if logged.insert(denied.number) {
                tracing::error!(
                    number = denied.number,
                    thread = denied.thread,
                    "a system call was denied: it is not in the list of `process.sandbox`; please report this, and set it to \"off\" meanwhile"
                );
            }
        }
    })?;
    Ok(())
}
