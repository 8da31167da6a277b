//! A reload: the running proxy goes over to another config.
//!
//! First all steps that can fail, beside the running config: TLS, addresses, logs. Then the workers change over, each between two steps of its event
//! loop. Only when all have done so do servers leave and limits change: until then some worker still uses the old config. docs/reload.md
//! lists what survives, docs/decisions/0029 says why.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_config::{Config, Server, UpstreamIndex};
use weir_discovery::{NamesInUse, RememberedServers};
use weir_observe::overview::RoutesFromOverview;

use super::{NewNames, Proxy, known_addresses};
use crate::lifecycle::privileges;
use crate::lifecycle::process::open_files_max;
use crate::lifecycle::sockets::listening_sockets::OpenedSockets;
use crate::servers::discovery::DiscoveryThread;
use crate::servers::health::ProbeThread;
use crate::start_error::StartError;
use crate::tls::acme::AcmeThread;
use crate::tls::internal_authority;
use crate::workers::commands::{CommandRejected, ReloadReport, ServerChange};
use weir_proxy::net::descriptors::DescriptorBudget;
use weir_proxy::net::listening::SocketFile;
use weir_proxy::state::snapshot::{Snapshot, UpstreamPlan};
use weir_proxy::worker::apply_config::{ConfigUpdate, WorkerChange};

/// How long is waited for the workers to turn, each between two steps of its event loop.
pub(super) const APPLY_TIME: Duration = Duration::from_secs(10);

impl Proxy {
    /// Goes over to `config`.
    ///
    /// # Errors
    /// When an address, a log or TLS cannot be had, or a name that has to be resolved cannot be; then nothing has changed.
    pub fn reload(&mut self, config: &Config, new_names: NewNames) -> Result<ReloadReport, StartError> {
        let before = self.file_config.load_full();
        let completed = self.discovered.complete(config, &before, &self.in_use);
        let report = self.apply_config(&completed, new_names);
        self.reloads.count(report.is_ok());
        if report.is_ok() {
            self.discovered.forget_others(config, &before);
            let mut of_file = self.current.load().share(config.clone());
            // Its plan has the servers that its source names, too.
            let with_source = config.upstreams.iter().enumerate().filter(|(_, it)| it.discovery.is_some());
            for (place, declared) in with_source {
                of_file.replace_upstream(UpstreamIndex(place), Arc::clone(declared));
            }
            self.in_use = self.current.load().share(of_file.clone());
            self.file_config.store(Arc::new(of_file));
            self.follow_sources();
        }
        report
    }

    /// The config of the last start or reload, without changes of servers since. It shares its parts with the config in use.
    pub fn config_of_file(&self) -> Config {
        Config::clone(&self.file_config.load())
    }

    /// Changes a server of the config in use, as a reload would; returns it before and after. The next reload restores the values of its file.
    ///
    /// # Errors
    /// When there is no such server, or it cannot be so; then nothing has changed.
    pub fn change(
        &mut self,
        change: &ServerChange,
        requester: &str,
    ) -> Result<(Server, Server), CommandRejected> {
        let mut config = self.in_use.clone();
        let (before, after) = change.apply(&mut config, &self.file_config.load())?;
        if before != after {
            self.apply_config(&config, NewNames::MustResolve)
                .map_err(|error| CommandRejected::Refused(error.to_string()))?;
            self.in_use = config;
        }
        tracing::info!(
            upstream = change.upstream,
            server = change.server,
            weight = after.weight,
            address = %after.address,
            max_requests = after.max_requests.map_or_else(|| "off".to_owned(), |max| max.to_string()),
            who = requester,
            "the server was changed, until the next reload"
        );
        Ok((before, after))
    }

    /// Takes note of a reload that failed before it began: the config has mistakes.
    pub fn count_failed_reload(&self) {
        self.reloads.count(false);
    }

    /// Has reports show where routes come from besides the file.
    pub fn show_routes_from(&self, sources: Vec<RoutesFromOverview>) {
        self.reloads.routes_from.store(Arc::new(sources));
    }

    fn apply_config(&mut self, config: &Config, new_names: NewNames) -> Result<ReloadReport, StartError> {
        privileges::check_sources(config)?;
        let before = self.current.load_full();
        let mut snapshot = before.succeeded_by(config, &self.inputs)?;
        internal_authority::prepare(&snapshot)?;
        self.resolve_new_names(&snapshot, &before, new_names)?;
        let OpenedSockets { listening_sockets, assignments, stale_files } =
            self.listening_sockets.succeeded_by(config, self.inputs.workers)?;
        if let Some(traces) = &mut self.traces {
            snapshot.traces = traces.follow(config, self.inputs.workers).map_err(StartError::Traces)?;
        }
        if let Some(logs) = &mut self.logs {
            logs.follow(config).map_err(StartError::AccessLog)?;
        }
        self.passwords.follow(&snapshot)?;
        // From here on nothing can fail.
        let snapshot = Arc::new(snapshot);
        snapshot.prepare(&before);
        self.queries.names.learn(&snapshot);
        self.follow_in_background(&snapshot);
        snapshot.settle_modes(&before);
        self.current.store(Arc::clone(&snapshot));
        self.names_changed.notify_one();
        let assignments = self.hold_back(assignments);
        let (done, all_done) = channel::<()>();
        for (worker, sockets) in assignments.into_iter().enumerate() {
            let (snapshot, logs) = (Arc::clone(&snapshot), self.logs_of(worker));
            let change = ConfigUpdate { snapshot, logs, sockets, done: Some(done.clone()) };
            let _stopped = self.changes[worker].send(WorkerChange::Config(Box::new(change)));
        }
        drop(done);
        // Ends when every worker has turned.
        let _disconnected = all_done.recv_timeout(APPLY_TIME);
        self.descriptors = DescriptorBudget::new(open_files_max(), config, self.inputs.workers);
        self.descriptors.take_effect();
        self.shared.connections.set_count_max(self.descriptors.clients);
        // Before the rest: no verdict of an old check may come after the new config has taken effect.
        self.follow_checks(&snapshot);
        self.follow_acme(&snapshot);
        snapshot.take_effect(&before);
        if let Some(traces) = &mut self.traces {
            traces.settle();
        }
        if let Some(access) = &self.admin_access {
            access.follow(config);
        }
        self.listening_sockets = listening_sockets;
        self.bound_now.store(Arc::new(self.bound_listeners()));
        stale_files.iter().for_each(SocketFile::remove);
        let needs_restart = self.restart_only.needs_restart(config);
        Ok(ReloadReport { generation: snapshot.generation, needs_restart })
    }

    fn follow_acme(&mut self, snapshot: &Snapshot) {
        if let Some(acme) = &self.acme {
            acme.follow(snapshot);
        } else {
            let started = AcmeThread::start(snapshot);
            self.acme = started.unwrap_or_else(|error| {
                tracing::error!(%error, "certificates cannot be obtained: the system refuses a thread");
                None
            });
        }
    }

    /// Has the servers of some upstreams of a snapshot probed, where they are to be.
    pub(super) fn follow_checks_of(&mut self, snapshot: &Arc<Snapshot>, plans: Vec<Arc<UpstreamPlan>>) {
        match &self.checks {
            Some(checks) => checks.follow_upstreams(plans),
            None if plans.iter().any(|plan| plan.config.health.is_some()) => self.follow_checks(snapshot),
            None => {}
        }
    }

    /// Asks the sources of servers that the config names, and no others.
    pub(super) fn follow_sources(&mut self) {
        let config = self.file_config.load_full();
        match &self.discovered.thread {
            Some(discovery) => discovery.follow(&config),
            None if DiscoveryThread::is_needed(&config) => {
                self.ask_sources(RememberedServers::stored(&config.discovery));
            }
            None => {}
        }
    }

    /// Begins to ask the sources of servers that the config names; what is `known` is in use until they answer.
    pub(super) fn ask_sources(&mut self, known: RememberedServers) {
        let config = self.file_config.load_full();
        let current = Arc::clone(&self.current);
        let names = NamesInUse::new(
            move || known_addresses::collect(&current.load()),
            Arc::clone(&self.names_changed),
        );
        let started = DiscoveryThread::start(&config, (known, names), self.commands.clone());
        self.discovered.thread = started.unwrap_or_else(|error| {
            tracing::error!(%error, "sources of servers cannot be asked: the system refuses a thread");
            None
        });
    }

    fn follow_checks(&mut self, snapshot: &Arc<Snapshot>) {
        if let Some(checks) = &self.checks {
            checks.follow(snapshot);
        } else {
            let started = ProbeThread::start(snapshot, &self.queries, self.inputs.seed);
            self.checks = started.unwrap_or_else(|error| {
                tracing::error!(%error, "servers cannot be probed: the system refuses a thread");
                None
            });
        }
    }
}
