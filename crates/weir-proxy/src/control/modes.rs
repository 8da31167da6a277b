//! What the operator wants of servers: serving, draining, maintenance; changed while Weir runs.
//!
//! A change holds from the next choice on; what runs on the server runs on. A task of the control thread watches a server
//! that leaves service: it closes it at its deadline and tells when nothing is left.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use weir_traffic::drain::{Drain, Step};
use weir_traffic::{Health, Mode, ServerId, ServerState};

use crate::clock;
use crate::snapshot::{Current, UpstreamPlan};

/// How often a server that leaves service is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The mode of a server that the config does not name any more, as it is shown.
pub(crate) const LEAVING: &str = "leaving";

/// The names of an upstream and of one of its servers.
type ServerName = (Box<str>, Box<str>);

/// The modes of all servers.
#[derive(Debug)]
pub(crate) struct Modes {
    current: Current,
    leaving: Mutex<HashMap<ServerName, Leaving>>,
}

/// A server that leaves service, and the task that watches it.
#[derive(Debug)]
struct Leaving {
    drain: Drain,
    watch: AbortHandle,
}

/// Why a mode was not changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    #[error("there is no upstream `{0}`; `GET /servers` lists them")]
    Upstream(String),
    #[error("the upstream `{0}` has no server `{1}`; `GET /servers` lists them")]
    Server(String, String),
}

impl Modes {
    pub(crate) fn new(current: &Current) -> Arc<Self> {
        Arc::new(Self { current: Arc::clone(current), leaving: Mutex::default() })
    }

    /// Sets what is wanted of a server; with a `deadline`, one that drains takes no bound requests either after it.
    ///
    /// # Errors
    /// When there is no such server.
    pub(crate) fn set(
        self: &Arc<Self>,
        upstream: &str,
        server: &str,
        mode: Mode,
        deadline: Option<Duration>,
    ) -> Result<(), Unknown> {
        let snapshot = self.current.load_full();
        let (_, plan) = snapshot.upstream(upstream).ok_or_else(|| Unknown::Upstream(upstream.to_owned()))?;
        let servers = plan.config.servers.iter().zip(&plan.leaves_at);
        let server_at =
            servers.clone().position(|(one, leaves_at)| &*one.name == server && leaves_at.is_none());
        let server_at = server_at.ok_or_else(|| Unknown::Server(upstream.to_owned(), server.to_owned()))?;
        let key = (upstream.into(), server.into());
        let mut leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = leaving.remove(&key) {
            before.watch.abort();
        }
        let state = plan.balancer().state(ServerId(server_at as u32));
        state.set_mode(mode);
        plan.standings[server_at].note(format!("an operator set the mode to {}", mode.name()));
        plan.settle_ejections();
        let left = state.in_flight();
        tracing::info!(upstream, server, mode = mode.name(), left, "the mode of the server was changed");
        if mode != Mode::Serving {
            let now_ms = plan.millis(clock::now());
            let deadline_ms = deadline.map(|deadline| now_ms + deadline.as_millis() as u64);
            let takes_bound = mode == Mode::Draining;
            let drain = Drain { began_ms: now_ms, deadline_ms, takes_bound };
            let task = tokio::spawn(watch(Arc::clone(plan), server_at, drain));
            leaving.insert(key, Leaving { drain, watch: task.abort_handle() });
        }
        drop(leaving);
        // Those who wait may be served by a server that came back, or must not wait for one that went.
        plan.serve_queue();
        Ok(())
    }

    /// When what is bound to a server that drains is cut off, in milliseconds from `now_ms` of its upstream.
    pub(crate) fn deadline_in(&self, upstream: &str, server: &str, now_ms: u64) -> Option<u64> {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let drain = leaving.get(&(upstream.into(), server.into()))?.drain;
        drain.deadline_ms.map(|deadline_ms| deadline_ms.saturating_sub(now_ms))
    }

    /// One line per server: what is wanted of it, whether it is up, and what runs on it.
    pub(crate) fn table(&self) -> String {
        let leaving = self.leaving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text =
            String::from("upstream\tserver\tmode\thealth\tweight\tin_flight\tmode_for\tdeadline_in\n");
        for plan in &self.current.load().upstreams {
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

/// Looks at a server until nothing is left on it.
async fn watch(plan: Arc<UpstreamPlan>, server: usize, mut drain: Drain) {
    let state = plan.balancer().state(ServerId(server as u32));
    let (upstream, name) = (&*plan.config.name, &*plan.config.servers[server].name);
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let left = state.in_flight();
        let now_ms = plan.millis(clock::now());
        let seconds = now_ms.saturating_sub(drain.began_ms) as f64 / 1000.0;
        match drain.step(left, now_ms) {
            Step::Wait => {}
            Step::Close => {
                drain = drain.closed();
                state.set_mode(Mode::Maintenance);
                plan.standings[server].note("the deadline of the drain is over");
                plan.settle_ejections();
                plan.serve_queue();
                tracing::info!(
                    upstream,
                    server = name,
                    left,
                    seconds,
                    "the deadline of the drain is over: the server is in maintenance now"
                );
            }
            Step::Done => {
                tracing::info!(upstream, server = name, seconds, "nothing is left on the server");
                return;
            }
        }
    }
}
