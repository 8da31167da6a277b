//! A reload: the running proxy goes over to another config.
//!
//! First everything that can fail, beside what runs: TLS, addresses, logs. Then the workers turn, each between two steps of its event
//! loop. Only when all have turned do servers leave and limits change: until then there is a worker that knows no other. What survives
//! stands in docs/reload.md, and why in docs/decisions/0029.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_config::{Admin, Config, LogSettings, Process, RecorderSettings, Server};
use weir_observe::ReloadStats;

use crate::control::commands::{ServerChange, Unfulfilled};
use crate::control::doors::Opened;
use crate::control::health::CheckThread;
use crate::control::proxy::{Proxy, StartError, open_files_max};
use crate::net::clock;
use crate::net::descriptors::DescriptorBudget;
use crate::net::listening::SocketFile;
use crate::state::snapshot::Snapshot;
use crate::worker::apply_config::Turn;

/// How long is waited for the workers to turn, each between two steps of its event loop.
const TURN_TIME: Duration = Duration::from_secs(10);

/// How a reload went that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Which config is in use now: 1 is that of the start.
    pub generation: u64,
    /// Keys whose new values do not hold before Weir is started anew.
    pub needs_restart: Vec<&'static str>,
}

/// The sections of a config that hold from the start of the process to its end, or partly so.
#[derive(Debug, Clone)]
pub(crate) struct Fixed {
    process: Process,
    admin: Admin,
    log: LogSettings,
    recorder: RecorderSettings,
}

impl Fixed {
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            process: config.process.clone(),
            admin: config.admin.clone(),
            log: config.log.clone(),
            recorder: config.recorder.clone(),
        }
    }

    /// The keys by which `config` differs and that nothing but a restart can change.
    fn needs_restart(&self, config: &Config) -> Vec<&'static str> {
        let (process, next) = (&self.process, &config.process);
        [
            ("process.workers", process.workers != next.workers),
            ("process.pin_workers", process.pin_workers != next.pin_workers),
            ("process.buffer_size", process.buffer_size != next.buffer_size),
            ("process.buffers_max", process.buffers_max != next.buffers_max),
            ("process.name", process.name != next.name),
            ("log", self.log != config.log),
            ("admin.address", self.admin.address != config.admin.address),
            ("admin.socket", self.admin.socket != config.admin.socket),
            ("admin.socket_mode", self.admin.socket_mode != config.admin.socket_mode),
            ("recorder", self.recorder != config.recorder),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

/// What is counted of reloads.
#[derive(Debug)]
pub(crate) struct Reloads {
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_succeeded: AtomicBool,
    /// When the config in use was taken over, in seconds since 1970.
    since: AtomicU64,
}

impl Default for Reloads {
    fn default() -> Self {
        Self {
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_succeeded: AtomicBool::new(true),
            since: AtomicU64::new(clock::unix_now().as_secs()),
        }
    }
}

impl Reloads {
    fn count(&self, succeeded: bool) {
        self.last_succeeded.store(succeeded, Ordering::Relaxed);
        if succeeded {
            self.succeeded.fetch_add(1, Ordering::Relaxed);
            self.since.store(clock::unix_now().as_secs(), Ordering::Relaxed);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The figures, with what is known of the snapshots.
    pub(crate) fn figures(&self, generation: u64, snapshots: usize) -> ReloadStats {
        ReloadStats {
            succeeded: self.succeeded.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            last_succeeded: self.last_succeeded.load(Ordering::Relaxed),
            since_seconds: self.since.load(Ordering::Relaxed),
            generation,
            snapshots: snapshots as u64,
        }
    }
}

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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use weir_config::{ChangeKind, CheckedConfig, ConfigDiff, Effect};

    use super::*;

    #[test]
    fn a_plan_and_a_reload_agree_on_what_needs_a_restart() {
        let rest = "listener.web = { address = \":0\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
        let text = format!(
            "process = {{ workers = 3, pin_workers = true, buffer_size = \"8KiB\", buffers_max = 99, name = \"n\", reload_grace = \"1s\", \
             connections_max = 9 }}\nlog = {{ level = \"warn\", format = \"json\" }}\nrecorder = {{ exchanges = 1, failures = 2 }}\n\
             admin = {{ address = \"127.0.0.1:1\", changes = true, socket = \"unix:/a\", socket_mode = \"0660\", socket_changes = true }}\n\
             dns.timeout = \"1s\"\naccess_log.format = \"json\"\n{rest}"
        );
        let (before, after) =
            (CheckedConfig::parse(rest, "old.toml"), CheckedConfig::parse(&text, "new.toml"));
        let difference = ConfigDiff::between(&before, &after);
        let of_sections = ["log", "recorder"];
        let mut planned = BTreeSet::new();
        for change in &difference.changes {
            let ChangeKind::Changed(keys) = &change.kind else { continue };
            for key in keys.iter().filter(|key| key.effect == Effect::Restart) {
                let section = change.part.kind();
                let whole = of_sections.contains(&section);
                planned.insert(if whole { section.to_owned() } else { format!("{section}.{}", key.key) });
            }
        }
        let told = |checked: CheckedConfig| checked.into_result().expect("it has no mistake");
        let fixed = Fixed::of(&told(before));
        let needed: BTreeSet<String> =
            fixed.needs_restart(&told(after)).into_iter().map(str::to_owned).collect();
        assert_eq!(planned, needed);
    }
}
