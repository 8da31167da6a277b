//! The threads that run now, with their names and stacks.

use std::sync::{Mutex, PoisonError};

use crate::system::sys::sampling::SampledThread;

/// The threads that run. Locked when one begins or ends, and while a profile is taken.
static REGISTERED: Mutex<Vec<RegisteredThread>> = Mutex::new(Vec::new());

/// A thread that can be profiled.
#[derive(Debug, Clone)]
pub(crate) struct RegisteredThread {
    pub(crate) name: String,
    pub(crate) thread: SampledThread,
}

/// Held by a thread for as long as it runs.
#[derive(Debug)]
pub(crate) struct ThreadRegistration(Option<i32>);

impl Drop for ThreadRegistration {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            REGISTERED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|registered| registered.thread.id != id);
        }
    }
}

/// Has the thread that calls profiled under its name, until what this gives is dropped.
pub(crate) fn register() -> ThreadRegistration {
    let Some(thread) = SampledThread::own() else { return ThreadRegistration(None) };
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let id = thread.id;
    let mut registered = REGISTERED.lock().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|registered| registered.thread.id != id);
    registered.push(RegisteredThread { name, thread });
    ThreadRegistration(Some(id))
}

/// All that run now.
pub(crate) fn registered() -> Vec<RegisteredThread> {
    REGISTERED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_name_while_it_runs() {
        let is_known = || registered().iter().any(|registered| registered.name == "weir-test-thread");
        let thread = std::thread::Builder::new().name("weir-test-thread".into()).spawn(move || {
            let registration = register();
            let local = 0_u8;
            let own =
                registered().into_iter().find(|registered| registered.name == "weir-test-thread").unwrap();
            assert!(own.thread.stack.contains(&(&raw const local).addr()), "{own:?}");
            drop(registration);
            assert!(!is_known());
        });
        thread.unwrap().join().unwrap();
        assert!(!is_known());
    }
}
