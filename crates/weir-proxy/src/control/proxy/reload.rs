//! A reload: the running proxy goes over to another config.
//!
//! First everything that can fail, beside what runs: TLS, addresses, logs. Then the workers turn, each between two steps of its event
//! loop. Only when all have turned do servers leave and limits change: until then there is a worker that knows no other. What survives
//! stands in docs/reload.md, and why in docs/decisions/0029.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_config::{Config, Server};

use super::Proxy;
use crate::control::commands::{Reloaded, ServerChange, Unfulfilled};
use crate::control::health::CheckThread;
use crate::control::listening_sockets::Opened;
use crate::control::process::open_files_max;
use crate::control::start_error::StartError;
use crate::net::descriptors::DescriptorBudget;
use crate::net::listening::SocketFile;
use crate::state::snapshot::Snapshot;
use crate::worker::apply_config::Turn;

/// How long is waited for the workers to turn, each between two steps of its event loop.
const TURN_TIME: Duration = Duration::from_secs(10);

impl Proxy {
    /// Goes over to `config`.
    ///
    /// # Errors
    /// When an address, a log or TLS cannot be had; then nothing has changed.
    pub fn reload(&mut self, config: &Config) -> Result<Reloaded, StartError> {
        let reloaded = self.turn_to(config);
        self.reloads.count(reloaded.is_ok());
        if reloaded.is_ok() {
            let config = self.current.load().share(config.clone());
            self.written.store(Arc::new(config.clone()));
            self.in_use = config;
        }
        reloaded
    }

    /// The config of the last start or reload, without what was changed of servers since. It shares its parts with what is in use.
    pub fn config_of_file(&self) -> Config {
        Config::clone(&self.written.load())
    }

    /// Changes a server of the config in use, as a reload would; gives it as it was and as it is. The next reload takes what its file says.
    ///
    /// # Errors
    /// When there is no such server, or it cannot be so; then nothing has changed.
    pub fn change(&mut self, change: &ServerChange, who: &str) -> Result<(Server, Server), Unfulfilled> {
        let mut config = self.in_use.clone();
        let (before, after) = change.apply(&mut config, &self.written.load())?;
        if before != after {
            self.turn_to(&config).map_err(|error| Unfulfilled::Refused(error.to_string()))?;
            self.in_use = config;
        }
        tracing::info!(
            upstream = change.upstream,
            server = change.server,
            weight = after.weight,
            address = %after.address,
            max_requests = after.max_requests.map_or_else(|| "off".to_owned(), |max| max.to_string()),
            who,
            "the server was changed, until the next reload"
        );
        Ok((before, after))
    }

    /// Takes note of a reload that failed before it began: the config has mistakes.
    pub fn count_failed_reload(&self) {
        self.reloads.count(false);
    }

    fn turn_to(&mut self, config: &Config) -> Result<Reloaded, StartError> {
        let before = self.current.load_full();
        let mut snapshot = before.succeeded_by(config, &self.around)?;
        let Opened { doors, turns, stale_files } = self.doors.succeeded_by(config, self.around.workers)?;
        if let Some(traces) = &mut self.traces {
            snapshot.traces = traces.follow(config, self.around.workers).map_err(StartError::Traces)?;
        }
        if let Some(logs) = &mut self.logs {
            logs.follow(config).map_err(StartError::AccessLog)?;
        }
        // From here on nothing can fail.
        let snapshot = Arc::new(snapshot);
        snapshot.prepare(&before);
        self.desk.names.learn(&snapshot);
        self.follow_on_control(&snapshot);
        snapshot.settle_modes(&before);
        self.current.store(Arc::clone(&snapshot));
        let (done, all_done) = channel::<()>();
        for (worker, doors) in turns.into_iter().enumerate() {
            let (snapshot, logs) = (Arc::clone(&snapshot), self.logs_of(worker));
            let turn = Turn { snapshot, logs, doors, done: Some(done.clone()) };
            let _stopped = self.turns[worker].send(turn);
        }
        drop(done);
        // Ends when every worker has turned.
        let _disconnected = all_done.recv_timeout(TURN_TIME);
        self.descriptors = DescriptorBudget::new(open_files_max(), config, self.around.workers);
        self.descriptors.take_effect();
        self.shared.connections.set_count_max(self.descriptors.clients);
        // Before the rest: what the checks of before say must not follow what holds without them.
        self.follow_checks(&snapshot);
        snapshot.take_effect(&before);
        if let Some(traces) = &mut self.traces {
            traces.settle();
        }
        if let Some(guard) = &self.admin_guard {
            guard.follow(config);
        }
        self.doors = doors;
        self.listened_now.store(Arc::new(self.listened()));
        stale_files.iter().for_each(SocketFile::remove);
        let needs_restart = self.fixed.needs_restart(config);
        Ok(Reloaded { generation: snapshot.generation, needs_restart })
    }

    fn follow_checks(&mut self, snapshot: &Arc<Snapshot>) {
        if let Some(checks) = &self.checks {
            checks.follow(snapshot);
        } else {
            let started = CheckThread::start(snapshot, &self.desk, self.around.seed);
            self.checks = started.unwrap_or_else(|error| {
                tracing::error!(%error, "servers cannot be probed: the system refuses a thread");
                None
            });
        }
    }
}
