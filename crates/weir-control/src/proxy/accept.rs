//! The last part of the start: what is known of servers is complete, and from then on connections are accepted.
//!
//! Until then the workers have no listening socket: connections wait in the backlog, or are accepted by the process that this one replaces.

use std::os::fd::AsFd as _;
use std::sync::mpsc::channel;
use std::time::Duration;

use weir_proxy::net::listening;
use weir_proxy::worker::apply_config::{ConfigUpdate, SocketAssignment, WorkerChange};

use super::known_addresses::{with_stored_address, without_address};
use super::reload::APPLY_TIME;
use super::{NAMES_GRACE, Proxy};
use crate::servers::health::ProbeThread;
use crate::start_error::StartError;
use crate::tls::acme::AcmeThread;

/// Names in a log line.
const NAMES_LOGGED_MAX: usize = 10;

/// The sockets of each worker.
pub(super) type WorkerSockets = Vec<Vec<SocketAssignment>>;

impl Proxy {
    /// Waits until every name of a server of which no address is known has had its first answer, or with patience, at most for `time`: a name may
    /// also come up later. Where all addresses are known from an earlier process, for `stored_time` at most: they may be old.
    pub fn await_names(&mut self, time: Duration, stored_time: Duration) {
        let Some((asked, all_asked)) = self.first_answers.take() else { return };
        drop(asked);
        let has_unknown =
            self.current.load().upstreams.iter().any(|plan| without_address(plan).next().is_some());
        let time = if has_unknown { time } else { time.min(stored_time) };
        let time = time.min(self.current.load().dns.timeout + NAMES_GRACE);
        let _timed_out = all_asked.recv_timeout(time);
    }

    /// Accepts connections from now on; what is not known yet is in the log.
    ///
    /// # Errors
    /// When the system refuses a thread; then none is accepted.
    pub fn accept(&mut self) -> Result<(), StartError> {
        self.first_answers = None;
        let snapshot = self.current.load_full();
        // Only now: before its name is resolved, a server is not dead.
        if self.checks.is_none() {
            self.checks = ProbeThread::start(&snapshot, &self.queries, self.inputs.seed)?;
        }
        // Only now: an authority may ask the listeners.
        if self.acme.is_none() {
            self.acme = AcmeThread::start(&snapshot)?;
        }
        self.tell_unknown();
        let Some(held_back) = self.held_back.take() else { return Ok(()) };
        let connecting = held_back.iter().flatten().filter(|assignment| !assignment.receives_datagrams);
        for SocketAssignment { listener, socket, .. } in connecting {
            let config = &snapshot.listeners[*listener].config;
            // Those that were bound beside sockets of the process before do not listen yet.
            socket.as_ref().map_or(Ok(()), |socket| listening::listen(socket.as_fd(), config))?;
        }
        let (done, all_done) = channel::<()>();
        for (worker, sockets) in held_back.into_iter().enumerate() {
            let (snapshot, logs) = (snapshot.clone(), self.logs_of(worker));
            let change = ConfigUpdate { snapshot, logs, sockets, done: Some(done.clone()) };
            let _stopped = self.changes[worker].send(WorkerChange::Config(Box::new(change)));
        }
        drop(done);
        // Ends when every worker has turned.
        let _disconnected = all_done.recv_timeout(APPLY_TIME);
        self.left_to = None;
        self.admin_accepts.send_replace(true);
        self.hand_over.set_starting(false);
        Ok(())
    }

    /// The sockets that the workers get now: none as long as connections are not accepted.
    pub(super) fn hold_back(&mut self, assignments: WorkerSockets) -> WorkerSockets {
        let Some(held_back) = &mut self.held_back else { return assignments };
        let none = assignments.iter().map(|_| Vec::new()).collect();
        let before = std::mem::replace(held_back, assignments);
        for (sockets, before) in held_back.iter_mut().zip(before) {
            for assignment in sockets.iter_mut().filter(|assignment| assignment.socket.is_none()) {
                let known = before.iter().find(|known| known.id == assignment.id);
                assignment.socket = known.and_then(|known| known.socket.clone());
            }
        }
        none
    }

    /// Names what the first requests may miss.
    fn tell_unknown(&self) {
        let unknown = self.sources_unknown();
        for plan in &self.current.load().upstreams {
            let upstream = &*plan.config.name;
            if unknown.contains(&plan.config.name) {
                let said = plan.source.said();
                let problem =
                    said.as_ref().and_then(|said| said.problem.as_deref()).unwrap_or("no answer yet");
                let source = plan.config.discovery.as_ref().map(ToString::to_string).unwrap_or_default();
                if plan.declared().servers.is_empty() {
                    tracing::warn!(
                        upstream,
                        source,
                        problem,
                        "no server of the upstream is known: its requests fail until its source has answered"
                    );
                } else {
                    let servers = plan.declared().servers.len();
                    tracing::warn!(
                        upstream,
                        source,
                        servers,
                        problem,
                        "the source of servers has not answered: requests get the servers that are known"
                    );
                }
            }
            let nameless: Vec<&str> =
                without_address(plan).map(|at| &*plan.config.servers[at].name).collect();
            if !nameless.is_empty() {
                tracing::warn!(
                    upstream,
                    servers = shown(&nameless),
                    count = nameless.len(),
                    "no address of these servers is known: requests cannot reach them until their names are resolved"
                );
            }
            let stored: Vec<&str> =
                with_stored_address(plan).map(|at| &*plan.config.servers[at].name).collect();
            if !stored.is_empty() {
                tracing::warn!(
                    upstream,
                    servers = shown(&stored),
                    count = stored.len(),
                    "the names of these servers are not resolved: requests go to their last known addresses, those of `discovery.state_file`"
                );
            }
        }
    }
}

/// Names as a log line has them.
fn shown(names: &[&str]) -> String {
    names[..names.len().min(NAMES_LOGGED_MAX)].join(" ")
}
