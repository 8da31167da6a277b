//! The threads of Weir by their names, and where their stacks are. Each one enrols itself when it starts.

use std::sync::{Mutex, PoisonError};

use crate::net::sys::sampling::SampledThread;

/// The threads that run. Locked when one begins or ends, and when somebody profiles.
static ENROLLED: Mutex<Vec<Enrolled>> = Mutex::new(Vec::new());

/// A thread that can be profiled.
#[derive(Debug, Clone)]
pub(crate) struct Enrolled {
    pub(crate) name: String,
    pub(crate) thread: SampledThread,
}

/// Held by a thread for as long as it runs.
#[derive(Debug)]
pub(crate) struct Enrolment(Option<i32>);

impl Drop for Enrolment {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            ENROLLED
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|enrolled| enrolled.thread.id != id);
        }
    }
}

/// Has the thread that calls profiled under its name, until what this gives is dropped.
pub(crate) fn enrol() -> Enrolment {
    let Some(thread) = SampledThread::own() else { return Enrolment(None) };
    let name = std::thread::current().name().unwrap_or("unnamed").to_owned();
    let id = thread.id;
    let mut enrolled = ENROLLED.lock().unwrap_or_else(PoisonError::into_inner);
    enrolled.retain(|enrolled| enrolled.thread.id != id);
    enrolled.push(Enrolled { name, thread });
    Enrolment(Some(id))
}

/// All that run now.
pub(crate) fn enrolled() -> Vec<Enrolled> {
    ENROLLED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_known_by_its_name_while_it_runs() {
        let is_known = || enrolled().iter().any(|enrolled| enrolled.name == "weir-test-enrols");
        let thread = std::thread::Builder::new().name("weir-test-enrols".into()).spawn(move || {
            let enrolment = enrol();
            let local = 0_u8;
            let own = enrolled().into_iter().find(|enrolled| enrolled.name == "weir-test-enrols").unwrap();
            assert!(own.thread.stack.contains(&(&raw const local).addr()), "{own:?}");
            drop(enrolment);
            assert!(!is_known());
        });
        thread.unwrap().join().unwrap();
        assert!(!is_known());
    }
}
