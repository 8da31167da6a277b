//! The threads that verify passwords, started when a config first asks for some.
//!
//! Few, and with less claim to a CPU than the workers: passwords that are guessed must not take time from other requests.

use std::io;
use std::sync::Arc;

use weir_proxy::net::cpus;
use weir_proxy::state::routes::access::password_checks::PasswordChecks;
use weir_proxy::state::snapshot::Snapshot;

use crate::system::threads;

/// One thread for so many CPUs, and the most there are.
const CPUS_PER_THREAD: usize = 4;
const THREADS_MAX: usize = 4;

/// How much less they may claim than others (setpriority(2)).
const NICENESS: i32 = 10;

/// The threads; they end when this is dropped, each after the hash that it computes.
#[derive(Debug)]
pub(crate) struct PasswordThreads {
    checks: Arc<PasswordChecks>,
    are_started: bool,
}

impl PasswordThreads {
    /// No threads yet.
    pub(crate) fn new(checks: &Arc<PasswordChecks>) -> Self {
        Self { checks: Arc::clone(checks), are_started: false }
    }

    /// Starts them, if this config has routes with passwords.
    ///
    /// # Errors
    /// When a thread cannot be started.
    pub(crate) fn follow(&mut self, snapshot: &Snapshot) -> io::Result<()> {
        let mut routes = snapshot.listeners.iter().flat_map(|listener| &listener.route_plans);
        let has_users =
            routes.any(|route| route.access.as_ref().is_some_and(|access| access.users.is_some()));
        if self.are_started || !has_users {
            return Ok(());
        }
        for number in 0..(cpus::usable().len() / CPUS_PER_THREAD).clamp(1, THREADS_MAX) {
            let checks = Arc::clone(&self.checks);
            let run = move || {
                let _registration = threads::register();
                // Linux has a priority for each thread. Without it they are as good as others.
                let _refused = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
                weir_tasks::keep_thread("the verification of passwords", || checks.work());
            };
            std::thread::Builder::new().name(format!("weir-password-{number}")).spawn(run)?;
            self.are_started = true;
        }
        Ok(())
    }
}

impl Drop for PasswordThreads {
    fn drop(&mut self) {
        self.checks.end();
    }
}
