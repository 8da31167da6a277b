//! The operator's mode of servers: serving, draining, maintenance; changed while Weir runs.
//!
//! A change holds from the next choice on; running exchanges continue. A task of the control thread watches a server
//! that leaves service: it closes it at its deadline and logs when nothing is left. It ends as soon as the mode is changed
//! otherwise: by a reload, or by the operator again.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use weir_traffic::drain::{Drain, DrainStep};
use weir_traffic::{Health, Mode, ServerId, ServerState};

use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::snapshot::{CurrentSnapshot, Snapshot, UpstreamPlan};

/// How often a server that leaves service is polled.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The mode of a server that the config does not name any more, as it is shown.
pub(crate) const LEAVING: &str = "leaving";

/// The names of an upstream and of one of its servers.
type ServerKey = (Box<str>, Box<str>);

/// The modes of all servers.
///
/// Lives on the control thread, with the tasks that it starts: one that was aborted does nothing any more.
#[derive(Debug)]
pub(crate) struct ServerModes {
    current: CurrentSnapshot,
    leaving: Mutex<HashMap<ServerKey, LeavingServer>>,
}

/// A server that leaves service or has left it, and the task that watches it until then.
#[derive(Debug)]
struct LeavingServer {
    drain: Drain,
    watch: AbortHandle,
}

/// Why a mode was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UnknownServer {
    #[error("there is no upstream `{0}`; `GET /servers` lists them")]
    Upstream(String),
    #[error("the upstream `{0}` has no server `{1}`; `GET /servers` lists them")]
    Server(String, String),
}

impl ServerModes {
    pub(crate) fn new(current: &CurrentSnapshot) -> Arc<Self> {
        Arc::new(Self { current: Arc::clone(current), leaving: Mutex::default() })
    }

    /// Sets the mode of a server; with a `deadline`, one that drains takes no bound requests either after it.
    ///
    /// # Errors
    /// When there is no such server.
    pub(crate) fn set(
        self: &Arc<Self>,
        upstream: &str,
        server: &str,
        mode: Mode,
        deadline: Option<Duration>,
    ) -> Result<(), UnknownServer> {
        let snapshot = self.current.load_full();
        let (_, plan) =
            snapshot.upstream(upstream).ok_or_else(|| UnknownServer::Upstream(upstream.to_owned()))?;
        let unknown = || UnknownServer::Server(upstream.to_owned(), server.to_owned());
        let server_at = plan.in_service(server).ok_or_else(unknown)?;
        let key: ServerKey = (upstream.into(), server.into());
        let mut leaving = self.leaving(&snapshot);
        if let Some(before) = leaving.remove(&key) {
            before.watch.abort();
        }
        let state = plan.balancer().state(ServerId(server_at as u32));
        state.set_mode(mode);
        plan.live[server_at].last_change.record(format!("an operator set the mode to {}", mode.name()));
        plan.settle_ejections();
        let left = state.in_flight();
        tracing::info!(upstream, server, mode = mode.name(), left, "the mode of the server was changed");
        if mode != Mode::Serving {
            let now = clock::now();
            let began_ms = plan.millis(now);
            let deadline_ms = deadline.map(|deadline| began_ms + deadline.as_millis() as u64);
            let takes_bound = mode == Mode::Draining;
            let drain = Drain { began_ms, deadline_ms, takes_bound };
            let watch = DrainWatch {
                modes: Arc::clone(self),
                key: key.clone(),
                plan: Arc::clone(plan),
                began: now,
                drain,
                was_removed: false,
            };
            let task = tokio::spawn(watch.keep());
            leaving.insert(key, LeavingServer { drain, watch: task.abort_handle() });
        }
        drop(leaving);
        // Waiting requests may be served by a server that came back, or must not wait for one that went.
        plan.serve_queue();
        Ok(())
    }

    /// When sessions that are bound to a draining server are cut off, in milliseconds from `now_ms` of its upstream.
    pub(crate) fn deadline_in(&self, upstream: &str, server: &str, now_ms: u64) -> Option<u64> {
        let leaving = self.lock();
        let drain = leaving.get(&(upstream.into(), server.into()))?.drain;
        let deadline_ms = drain.deadline_ms?;
        let mode = mode_of(&self.current.load(), upstream, server);
        mode.filter(|mode| *mode != Mode::Serving).map(|_| deadline_ms.saturating_sub(now_ms))
    }

    /// One line per server: its mode, whether it is up, and its running requests.
    pub(crate) fn table(&self) -> String {
        let snapshot = self.current.load();
        let leaving = self.leaving(&snapshot);
        let mut text =
            String::from("upstream\tserver\tmode\thealth\tweight\tin_flight\tmode_for\tdeadline_in\n");
        for plan in &snapshot.upstreams {
            for (server_at, state) in plan.balancer().states().iter().enumerate() {
                if plan.is_vacant(server_at) {
                    continue;
                }
                let key = (plan.config.name.clone(), plan.config.servers[server_at].name.clone());
                let drain = leaving.get(&key).map(|leaving| leaving.drain);
                push_line(&mut text, plan, server_at, state, drain);
            }
        }
        text
    }

    /// Servers that leave service or have left it, without those that serve again by another change.
    fn leaving(&self, snapshot: &Snapshot) -> MutexGuard<'_, HashMap<ServerKey, LeavingServer>> {
        let mut leaving = self.lock();
        leaving.retain(|(upstream, server), leaving| match mode_of(snapshot, upstream, server) {
            Some(Mode::Serving) => {
                leaving.watch.abort();
                false
            }
            Some(_) => true,
            None => !leaving.watch.is_finished(),
        });
        leaving
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerKey, LeavingServer>> {
        self.leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mode of a server, if the config names it.
fn mode_of(snapshot: &Snapshot, upstream: &str, server: &str) -> Option<Mode> {
    let (_, plan) = snapshot.upstream(upstream)?;
    plan.in_service(server).map(|at| plan.balancer().states()[at].mode())
}

fn push_line(
    text: &mut String,
    plan: &UpstreamPlan,
    server: usize,
    state: &ServerState,
    drain: Option<Drain>,
) {
    let now_ms = plan.millis(clock::now());
    let seconds = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{}s", ms.div_ceil(1000)));
    let mode_for = seconds(drain.map(|drain| now_ms.saturating_sub(drain.began_ms)));
    let leaves_ms = plan.leaves_at[server].map(|at| plan.millis(at));
    let deadline_ms = leaves_ms.or(drain.and_then(|drain| drain.deadline_ms));
    let deadline_in = seconds(deadline_ms.map(|at| at.saturating_sub(now_ms)));
    let name = &plan.config.servers[server].name;
    let mode = if leaves_ms.is_some() { LEAVING } else { state.mode().name() };
    let health = match state.health() {
        Health::Up if state.is_ejected() => "ejected",
        health => health.name(),
    };
    let (weight, in_flight) = (state.weight(), state.in_flight());
    writeln!(
        text,
        "{}\t{name}\t{mode}\t{health}\t{weight}\t{in_flight}\t{mode_for}\t{deadline_in}",
        plan.config.name
    )
    .expect("a string takes everything");
}

/// Watches a server that leaves service, by its name: a change of its address does not change its mode.
struct DrainWatch {
    modes: Arc<ServerModes>,
    key: ServerKey,
    /// The newest that had the server.
    plan: Arc<UpstreamPlan>,
    began: Instant,
    drain: Drain,
    /// Whether the config did not name it at the last look.
    was_removed: bool,
}

impl DrainWatch {
    /// Watches through panics: the deadline holds, and what was closed stays closed.
    async fn keep(self) {
        let watch = tokio::sync::Mutex::new(self);
        let run = || async { watch.lock().await.run().await };
        weir_tasks::keep("the watch of a server that leaves service", run).await;
    }

    /// Polls the server until nothing is left on it, or its mode was changed otherwise.
    async fn run(&mut self) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let server = self.find();
            // A server that comes back has the mode of the config.
            if server.is_some_and(|server| self.was_removed || !self.holds(server)) {
                return self.forget();
            }
            self.was_removed = server.is_none();
            let left = self.plan.in_flight_of(&self.key.1);
            let drain = if self.was_removed { self.drain.closed() } else { self.drain };
            match drain.step(left, self.plan.millis(clock::now())) {
                DrainStep::Wait => {}
                DrainStep::Close => server.into_iter().for_each(|server| self.close(server, left)),
                DrainStep::Done => {
                    let ((upstream, server), seconds) = (&self.key, self.seconds());
                    tracing::info!(upstream, server, seconds, "nothing is left on the server");
                    if self.was_removed {
                        self.forget();
                    }
                    return;
                }
            }
        }
    }

    /// The place of the server, if the config names it.
    fn find(&mut self) -> Option<usize> {
        let snapshot = self.modes.current.load();
        let (_, plan) = snapshot.upstream(&self.key.0)?;
        self.plan = Arc::clone(plan);
        plan.in_service(&self.key.1)
    }

    /// Whether the server still has the mode that this task watches.
    fn holds(&self, server: usize) -> bool {
        let wanted = if self.drain.takes_bound { Mode::Draining } else { Mode::Maintenance };
        self.plan.balancer().state(ServerId(server as u32)).mode() == wanted
    }

    /// Closes the server, unless its mode is changed at this moment.
    fn close(&mut self, server: usize, left: u32) {
        let plan = &self.plan;
        if !plan.balancer().state(ServerId(server as u32)).turn_mode(Mode::Draining, Mode::Maintenance) {
            return;
        }
        self.drain = self.drain.closed();
        plan.live[server].last_change.record("the deadline of the drain is over");
        plan.settle_ejections();
        plan.serve_queue();
        let ((upstream, server), seconds) = (&self.key, self.seconds());
        let what = "the deadline of the drain is over: the server is in maintenance now";
        tracing::info!(upstream, server, left, seconds, "{what}");
    }

    /// How long it has left service.
    fn seconds(&self) -> f64 {
        clock::now().saturating_duration_since(self.began).as_millis() as f64 / 1000.0
    }

    fn forget(&self) {
        self.modes.lock().remove(&self.key);
    }
}
