//! The end of the process: how much time it has, and what it hears meanwhile.

use std::time::Duration;

use weir_config::Config;

use super::events::{ServeEvent, ServeEvents, ServeSignal};
use crate::proxy::Proxy;

/// How long connections are still accepted at least, once another node was told to take over: ten advertisements of VRRP in the examples.
const TAKEOVER_TIME: Duration = Duration::from_secs(1);

/// How much time a stop has.
#[derive(Debug, Clone, Copy)]
pub(super) struct StopTimes {
    /// For connections to end, before another node is told to take over; `None`: there is none.
    pub(super) hand_over_delay: Option<Duration>,
    /// Until connections are refused.
    pub(super) delay: Duration,
    /// From then on.
    pub(super) grace: Duration,
    /// From then on, where another process serves.
    pub(super) grace_of_upgrade: Duration,
}

impl StopTimes {
    pub(super) fn new(config: &Config) -> Self {
        let process = &config.process;
        Self {
            hand_over_delay: Some(process.hand_over_delay),
            delay: process.stop_delay,
            grace: process.stop_grace,
            grace_of_upgrade: process.reload_grace,
        }
    }
}

/// Stops; `look` is called again and again meanwhile. Whether exchanges were cut off.
pub(super) fn stop(
    proxy: Proxy,
    times: StopTimes,
    events: &ServeEvents,
    mut look: impl FnMut(&Proxy),
) -> bool {
    let mut hurried = false;
    let mut hurry = |proxy: &Proxy| {
        look(proxy);
        for event in events.pending() {
            match event {
                ServeEvent::Signal(ServeSignal::Stop) => hurried = true,
                ServeEvent::Signal(ServeSignal::ReopenLogs) => proxy.reopen_logs(),
                // Commands are rejected by then: their channels close.
                ServeEvent::Signal(_)
                | ServeEvent::Command(_)
                | ServeEvent::Upgraded(_)
                | ServeEvent::Routes(_)
                | ServeEvent::Watchdog => {}
            }
        }
        hurried
    };
    let mut delay = times.delay;
    if let Some(hand_over_delay) = times.hand_over_delay {
        proxy.hand_over(hand_over_delay, &mut hurry);
        delay = delay.max(TAKEOVER_TIME);
    }
    if !delay.is_zero() {
        tracing::info!(?delay, "about to stop: /ready says so, and connections are still taken");
        proxy.announce_stop(delay, &mut hurry);
    }
    let open = proxy.connections_open();
    tracing::info!(
        connections = open,
        grace = ?times.grace,
        "stopping: running exchanges may finish, a second signal ends them"
    );
    let stopped = proxy.stop(times.grace, hurry);
    if stopped.cut == 0 {
        return false;
    }
    let why = if hurried { "a second signal came" } else { "their time was up" };
    tracing::warn!(cut = stopped.cut, "exchanges or tunnels were cut: {why}");
    true
}
