//! The change from one process to the next: what the running proxy hands over, and how it goes on after that.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_config::{Config, ListenAddress};
use weir_http::WallTime;
use weir_traffic::health::AgentReport;
use weir_traffic::{Health, Mode};

use super::{Proxy, handed_tables, known_addresses};
use crate::lifecycle::upgrade::handover::{
    AddressRole, HandedAddress, HandedAgent, HandedChange, HandedDatagrams, HandedHealth, HandedMode,
    HandedState, Handover, Takeover,
};
use crate::lifecycle::upgrade::running_requests::{OccupiedSlots, RunningRequests};
use crate::servers::modes::ServerModes;
use crate::workers::commands::CommandRejected;
use weir_proxy::net::clock;
use weir_proxy::net::listening::SocketFile;
use weir_proxy::state::node_hand_over::NodeHandOver;
use weir_proxy::state::snapshot::Snapshot;

impl Proxy {
    /// Everything that the next process needs.
    ///
    /// # Errors
    /// When the descriptors of the process end.
    pub fn to_hand_over(&self) -> io::Result<Handover> {
        let mut addresses = self.listening_sockets.to_hand_over()?;
        let admin = [(AddressRole::Admin, &self.admin), (AddressRole::Runtime, &self.runtime)];
        for (role, socket) in admin {
            if let Some(socket) = socket {
                addresses.push(socket.to_hand_over(role)?);
            }
        }
        let sockets = self.listening_sockets.datagrams_to_hand_over()?;
        let datagrams = match sockets.is_empty() {
            true => HandedDatagrams::default(),
            false => HandedDatagrams { sockets, generations: self.shared.datagrams.to_hand_over()? },
        };
        Ok(Handover { addresses, datagrams, state: self.state_to_hand_over() })
    }

    fn state_to_hand_over(&self) -> HandedState {
        let snapshot = self.current.load();
        let of_file = self.file_config.load();
        let said_at = |upstream: &str| {
            let said = snapshot.upstream(upstream).and_then(|(_, plan)| plan.source.said());
            WallTime::EPOCH + Duration::from_millis(said.map_or(0, |said| said.said_at_ms))
        };
        let mut state = HandedState {
            process: std::process::id(),
            is_handed_over: self.shared.node_hand_over.load() != NodeHandOver::None,
            is_standby: self.hand_over.is_standby(),
            changes: HandedChange::between(&self.discovered.named(&of_file), &self.in_use),
            sources: self.discovered.to_hand_over(&of_file, &self.in_use, said_at),
            names: known_addresses::collect(&snapshot),
            tables: handed_tables::collect(&snapshot),
            taken_at_ns: clock::now().since_boot_ns(),
            ..HandedState::default()
        };
        for plan in &snapshot.upstreams {
            let now_ms = plan.millis(clock::now());
            for (at, known) in plan.balancer().states().iter().enumerate() {
                if plan.is_vacant(at) || plan.leaves_at[at].is_some() {
                    continue;
                }
                let (upstream, server) = (&*plan.config.name, &plan.config.servers[at]);
                if known.mode() != server.mode {
                    let deadline_ms = self
                        .modes
                        .as_ref()
                        .and_then(|modes| modes.deadline_in(upstream, &server.name, now_ms));
                    state.modes.push(HandedMode::new(upstream, server, known.mode(), deadline_ms));
                }
                let report = plan.live[at].agent_report();
                if *report != AgentReport::default() {
                    state.agents.push(HandedAgent::new(upstream, &server.name, &report));
                }
                if known.probed_health() == Health::Down {
                    let (upstream, server) = (upstream.to_owned(), server.name.to_string());
                    state.health.push(HandedHealth { upstream, server });
                }
            }
        }
        state
    }

    /// Requests on servers with a limit, for the process that has replaced this one.
    pub fn running_requests(&self) -> Vec<RunningRequests> {
        RunningRequests::new(&self.current.load())
    }

    /// The slots for requests of the process before; `None`: no server may have a limit.
    pub fn slots_to_occupy(&self) -> Option<OccupiedSlots> {
        let is_limited = self.in_use.upstreams.iter().any(|upstream| {
            let has_agents = upstream.health.as_ref().is_some_and(|health| health.agent.is_some());
            let of_config = || upstream.servers.iter().any(|server| server.max_requests.is_some());
            upstream.max_requests.is_some() || has_agents || of_config()
        });
        is_limited.then(|| OccupiedSlots::new(&self.current))
    }

    /// What this process has taken over from the one before.
    pub fn takeover(&self) -> Takeover {
        let listeners = self.offered.iter().filter(|(role, _)| *role == AddressRole::Listener).count();
        let mut of_listeners = self.listening_sockets.taken(listeners).into_iter();
        let taken = |(role, address): &(AddressRole, ListenAddress)| match role {
            AddressRole::Listener => of_listeners.next().unwrap_or(0),
            AddressRole::Admin => usize::from(self.admin.as_ref().is_some_and(|it| it.address == *address)),
            AddressRole::Runtime => {
                usize::from(self.runtime.as_ref().is_some_and(|it| it.address == *address))
            }
        };
        Takeover {
            sockets: self.offered.iter().map(taken).collect(),
            datagrams: self.listening_sockets.datagram_addresses(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Leaves the addresses to the next process, which accepts on them already: [`Proxy::stop`] closes the sockets and refuses nothing.
    ///
    /// The command line and the admin API reach the next process from now on.
    pub fn leave(&mut self, takeover: Takeover) {
        let mut taken = takeover.sockets;
        if !takeover.datagrams.is_empty() {
            self.shared.datagrams.leave_to_next(takeover.datagrams);
        }
        // The reverse of the order in which they were offered.
        for socket in [self.runtime.take(), self.admin.take()].into_iter().flatten() {
            let is_taken = taken.pop().is_some_and(|count| count > 0);
            socket.leave(is_taken);
        }
        self.left_to = Some(taken);
        if let Some(file) = &self.pid_file {
            file.leave();
        }
        // The other process announces from now on.
        self.announcements.leave();
        if let Some(watcher) = &self.watcher {
            watcher.leave();
        }
        self.shared.replaced.store(true, Ordering::SeqCst);
    }

    /// Rejects new connections where no other process accepts them.
    pub(super) fn refuse_new(&self) {
        match &self.left_to {
            None => {
                self.listening_sockets.refuse_new();
                self.listening_sockets.files().for_each(SocketFile::remove);
            }
            Some(taken) => {
                self.listening_sockets.refuse_new_beyond(taken);
                self.listening_sockets.files_beyond(taken).for_each(SocketFile::remove);
            }
        }
    }
}

/// The sockets of the process before that are not those of a listener.
pub(super) struct HandedAdminSockets(Vec<HandedAddress>);

impl HandedAdminSockets {
    /// Parts them from the sockets of listeners.
    pub(super) fn split_off(addresses: Vec<HandedAddress>) -> (Vec<HandedAddress>, Self) {
        let is_of_listener = |handed: &HandedAddress| handed.role == AddressRole::Listener;
        let (listeners, admin) = addresses.into_iter().partition(is_of_listener);
        (listeners, Self(admin))
    }

    /// The one with this role and this address.
    pub(super) fn take(&mut self, role: AddressRole, address: &ListenAddress) -> Option<HandedAddress> {
        let at = self.0.iter().position(|handed| {
            handed.role == role && handed.address == *address && !handed.sockets.is_empty()
        })?;
        Some(self.0.swap_remove(at))
    }
}

/// `config` with the changes of operators that it does not contradict.
pub(super) fn changed(config: &Config, state: &HandedState) -> Config {
    let mut changed = config.clone();
    for change in state.changes.iter().filter_map(|change| change.change_in(config)) {
        let outcome: Result<_, CommandRejected> = change.apply(&mut changed, config);
        if let Err(error) = outcome {
            tracing::warn!(upstream = change.upstream, server = change.server, %error, "a changed server is as in the config again");
        }
    }
    changed
}

/// Marks the servers that were down, before any of them gets a request: the next check decides.
pub(super) fn mark_down(snapshot: &Snapshot, state: &HandedState) {
    for HandedHealth { upstream, server } in &state.health {
        let Some((_, plan)) = snapshot.upstream(upstream) else { continue };
        // Without a check, no server would ever be up again.
        if let Some(at) = plan.in_service(server).filter(|at| plan.probes[*at].is_some()) {
            plan.balancer().states()[at].set_health(Health::Down);
            plan.live[at].last_change.record("it was down when another process took over".to_owned());
        }
    }
}

/// Goes on with what agents have said, before any server gets a request.
pub(super) fn resume_agents(snapshot: &Snapshot, state: &HandedState) {
    for handed in &state.agents {
        let Some((_, plan)) = snapshot.upstream(&handed.upstream) else { continue };
        let has_agent = |at: &usize| plan.config.agent(&plan.config.servers[*at]).is_some();
        let place = plan.in_service(&handed.server).filter(has_agent);
        if let (Some(at), Some(report)) = (place, handed.report()) {
            plan.live[at].set_agent_report(report);
            plan.apply_agent(at);
            plan.live[at].last_change.record("its agent has said so to the process before".to_owned());
        }
    }
}

/// Goes on with the tables of the process before; no worker runs yet.
pub(super) fn resume_tables(config: &Config, snapshot: &Snapshot, state: &HandedState) {
    let later_ns = clock::now().since_boot_ns().saturating_sub(state.taken_at_ns);
    handed_tables::resume(config, snapshot, &state.tables, Duration::from_nanos(later_ns));
}

/// Gives servers the modes that operators had set.
pub(super) fn set_modes(config: &Config, modes: &Arc<ServerModes>, state: &HandedState) {
    for handed in &state.modes {
        let Some(mode) = handed.mode_in(config) else { continue };
        let deadline = handed.deadline_ms.filter(|_| mode == Mode::Draining);
        let deadline = deadline.map(Duration::from_millis);
        if let Err(error) = modes.set(&handed.upstream, &handed.server, mode, deadline) {
            tracing::warn!(%error, "a mode of the process before is not set");
        }
    }
}
