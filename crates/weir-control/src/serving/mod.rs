//! The process that serves, from its first config to its end: one loop waits for signals, commands of the admin API and the runtime socket, what sources
//! say and the outcome of an upgrade, and carries them out one after the other.
//!
//! The loop is the only owner of the [`Proxy`]. What only the program can do, it does by [`ServingProgram`].

mod first_answers;
mod reload;
mod route_fragments;
mod upgrade;
mod stop;
mod watch;
mod events;
mod successor;
mod watchdog;
mod program;

use std::io;
use std::time::Duration;

use weir_config::{Config, ConfigFile};
use weir_discovery::FragmentSet;
use weir_proxy::net::{clock, memory};

use crate::lifecycle::upgrade::launcher::UpgradeLauncher;
use crate::proxy::Proxy;
use crate::start_error::StartError;
use crate::workers::commands::{AdminCommand, CommandKind, CommandRejected, ReloadReport};

pub use events::{RoutesUpdate, ServeEvents, ServeSignal};
pub use program::{ProcessState, RoutesElsewhere, ServingProgram};
pub use route_fragments::with_known_fragments;
pub use successor::UPGRADE_TIME_MAX;
pub use watch::ConfigWatch;

use events::ServeEvent;
use route_fragments::RouteFragments;
use stop::{StopTimes, stop};
use successor::Successor;
use upgrade::{UPGRADING, Upgrade, UpgradeOutcome};
use watchdog::Watchdog;

/// How long exchanges of other workers have when one does not work any more: new connections are refused meanwhile.
const GIVE_UP_GRACE: Duration = Duration::from_secs(5);

/// Where the config comes from.
pub enum ConfigSource {
    /// From the command line.
    Arguments,
    /// From this file.
    File(Box<ConfigFile>),
    /// What is beside the routes from somewhere, and the routes by updates.
    Elsewhere(Box<dyn RoutesElsewhere>),
}

/// How a process has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServeEnd {
    /// By a signal, or another process has taken over.
    Stopped {
        /// Whether exchanges were cut off.
        cut: bool,
    },
    /// A part of it did not work any more, for this reason.
    GaveUp(String),
}

/// The process that serves.
pub struct Serving<'a> {
    proxy: Proxy,
    source: ConfigSource,
    routes: RouteFragments,
    watch: &'a ConfigWatch,
    events: ServeEvents,
    times: StopTimes,
    upgrade: Upgrade,
    watchdog: Watchdog,
    program: &'a dyn ServingProgram,
}

impl<'a> Serving<'a> {
    /// With a proxy that accepts no connections yet; `launcher` starts the program anew, where the system allows it.
    pub fn new(
        (config, source): (&Config, ConfigSource),
        proxy: Proxy,
        (events, watch): (ServeEvents, &'a ConfigWatch),
        launcher: Option<UpgradeLauncher>,
        program: &'a dyn ServingProgram,
    ) -> Self {
        Self {
            proxy,
            source,
            routes: RouteFragments::default(),
            watch,
            events,
            times: StopTimes::new(config),
            upgrade: Upgrade::by(launcher),
            watchdog: Watchdog::default(),
            program,
        }
    }

    /// The proxy.
    pub fn proxy(&mut self) -> &mut Proxy {
        &mut self.proxy
    }

    /// Takes the servers and routes that sources name, and waits for addresses of names, so that the first requests find them. What is known from before
    /// is in use already; what is not is waited for with patience.
    pub fn await_sources(&mut self) {
        first_answers::await_sources(&mut self.proxy, &mut self.source, &mut self.routes, &self.events);
    }

    /// Where updates of routes and servers from elsewhere are sent; whether there is a receiver.
    pub fn updates(&self) -> impl Fn(RoutesUpdate) -> bool + Send + Sync + 'static {
        self.events.routes()
    }

    /// Routes come from elsewhere, by [`Serving::updates`].
    pub fn take_routes_from(&mut self, elsewhere: Box<dyn RoutesElsewhere>) {
        self.proxy.set_awaits_routes(true);
        self.source = ConfigSource::Elsewhere(elsewhere);
    }

    /// Begins to answer the watchdog of a supervisor at this interval.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn answer_watchdog_every(&self, interval: Duration) -> io::Result<()> {
        self.events.watch(interval)
    }

    /// Accepts connections; where routes come from elsewhere, once the first ones are there, or after the same patience. Whether there are routes.
    ///
    /// # Errors
    /// The error of the system.
    pub fn accept(&mut self) -> Result<bool, StartError> {
        first_answers::accept(&mut self.proxy, &self.source, &self.events)
    }

    /// Serves until the end of the process.
    pub fn run(mut self) -> ServeEnd {
        loop {
            match self.events.next() {
                ServeEvent::Signal(ServeSignal::ReopenLogs) => self.proxy.reopen_logs(),
                ServeEvent::Routes(update) => drop(update(&mut self.proxy)),
                ServeEvent::Signal(ServeSignal::Upgrade) => match &self.source {
                    ConfigSource::Elsewhere(routes) => tracing::warn!("no upgrade: {}", routes.no_upgrade()),
                    ConfigSource::File(_) | ConfigSource::Arguments => self.begin_upgrade("SIGUSR2", None),
                },
                ServeEvent::Signal(ServeSignal::Reload) => {
                    let _told_by_the_log = self.reload();
                    // As rotations expect it that were written for other servers.
                    self.proxy.reopen_logs();
                }
                ServeEvent::Signal(ServeSignal::Stop) => return self.stop(),
                ServeEvent::Watchdog => self.answer_watchdog(),
                ServeEvent::Command(AdminCommand { kind: CommandKind::GiveUp(why), .. }) => {
                    return self.give_up(why);
                }
                ServeEvent::Command(AdminCommand { kind, requester }) => self.obey(kind, &requester),
                ServeEvent::Upgraded(outcome) => {
                    if let Some(successor) = self.upgrade.end(outcome) {
                        return self.leave_to(&successor);
                    }
                    self.take_fragments(Vec::new());
                }
            }
        }
    }

    fn answer_watchdog(&mut self) {
        if self.watchdog.is_alive(&self.proxy) {
            self.program.tell_state(ProcessState::Alive);
        }
    }

    fn begin_upgrade(&mut self, requester: &str, outcome: Option<UpgradeOutcome>) {
        let fragments = match &self.source {
            ConfigSource::File(file) => route_fragments::to_hand_over(file, &self.proxy),
            ConfigSource::Arguments | ConfigSource::Elsewhere(_) => Vec::new(),
        };
        self.upgrade.begin((&self.proxy, fragments), &self.events, requester, outcome);
    }

    fn obey(&mut self, command: CommandKind, requester: &str) {
        match command {
            CommandKind::Reload(outcome) => {
                tracing::info!(who = requester, "a reload was requested");
                let _gone = outcome.send(self.reload().map_err(CommandRejected::Diagnostics));
            }
            CommandKind::Upgrade(outcome) => match &self.source {
                ConfigSource::Elsewhere(routes) => {
                    let _gone = outcome.send(Err(CommandRejected::Refused(routes.no_upgrade().to_owned())));
                }
                ConfigSource::File(_) | ConfigSource::Arguments => {
                    self.begin_upgrade(requester, Some(outcome));
                }
            },
            // The next process would not know it.
            CommandKind::Change(_, outcome) if self.upgrade.is_running() => {
                let _gone = outcome.send(Err(CommandRejected::Refused(UPGRADING.to_owned())));
            }
            CommandKind::Change(change, outcome) => {
                let _gone = outcome.send(self.proxy.change(&change, requester));
            }
            CommandKind::Servers(sets, _under_way) => self.proxy.take_server_sets(sets),
            CommandKind::Names(upstream, under_way) => {
                // What comes from here on is for the next command.
                drop(under_way);
                self.proxy.take_requested_names(&upstream);
            }
            CommandKind::Fragments(sets, _under_way) => self.take_fragments(sets),
            CommandKind::GiveUp(_) => {}
        }
    }

    /// What stores of routes say takes effect, as a reload would; while another process is about to take over, that process reads it.
    fn take_fragments(&mut self, sets: Vec<FragmentSet>) {
        let ConfigSource::File(file) = &mut self.source else { return };
        if self.upgrade.is_running() {
            self.routes.hear(sets, file);
            self.routes.show(&self.proxy);
        } else {
            self.routes.take(sets, &mut self.proxy, file);
        }
    }

    fn reload(&mut self) -> Result<ReloadReport, Vec<String>> {
        if self.upgrade.is_running() {
            tracing::warn!("no reload: {UPGRADING}");
            return Err(vec![UPGRADING.to_owned()]);
        }
        self.program.tell_state(ProcessState::Reloading);
        let outcome = match &mut self.source {
            ConfigSource::Elsewhere(routes) => routes.reload().map(|config| {
                // The routes follow, with the next generation.
                let generation = self.proxy.generation() + 1;
                (ReloadReport { generation, needs_restart: Vec::new() }, config)
            }),
            ConfigSource::File(file) => reload::run(&mut self.proxy, Some(file), self.watch, self.program),
            ConfigSource::Arguments => reload::run(&mut self.proxy, None, self.watch, self.program),
        };
        self.program.tell_state(ProcessState::Ready);
        let (reloaded, config) = outcome?;
        if let ConfigSource::File(file) = &self.source {
            self.routes.tell(&self.proxy, file);
        }
        self.times = StopTimes::new(&config);
        drop(config);
        // Several times what a large config takes afterwards.
        memory::give_back();
        Ok(reloaded)
    }

    fn stop(mut self) -> ServeEnd {
        self.program.tell_state(ProcessState::Stopping);
        // A process that is about to take over ends, too.
        self.upgrade.abort();
        if !self.proxy.is_announced() {
            self.times.hand_over_delay = None;
        }
        if matches!(self.source, ConfigSource::Elsewhere(_)) {
            self.announce_stop_elsewhere();
        }
        if let ConfigSource::Elsewhere(routes) = self.source {
            routes.stop();
        }
        ServeEnd::Stopped { cut: stop(self.proxy, self.times, &self.events, |_| {}) }
    }

    /// Lets `/ready` fail for the delay, in which servers still come and go; a second signal ends it.
    fn announce_stop_elsewhere(&mut self) {
        let delay = std::mem::take(&mut self.times.delay);
        tracing::info!(?delay, "about to stop: /ready says so, and connections are still taken");
        self.proxy.announce_stop(Duration::ZERO, |_| false);
        let end = clock::now() + delay;
        while let Some(event) = self.events.next_until(end) {
            match event {
                ServeEvent::Routes(update) => drop(update(&mut self.proxy)),
                ServeEvent::Signal(ServeSignal::ReopenLogs) => self.proxy.reopen_logs(),
                ServeEvent::Signal(ServeSignal::Stop) => return,
                ServeEvent::Watchdog => self.answer_watchdog(),
                ServeEvent::Signal(_) | ServeEvent::Command(_) | ServeEvent::Upgraded(_) => {}
            }
        }
    }

    /// A part of this process does not work any more: it ends, for its supervisor to start it anew.
    fn give_up(mut self, why: String) -> ServeEnd {
        self.program.tell_state(ProcessState::Stopping);
        self.upgrade.abort();
        self.times.delay = Duration::ZERO;
        self.times.grace = self.times.grace.min(GIVE_UP_GRACE);
        let _cut = stop(self.proxy, self.times, &self.events, |_| {});
        ServeEnd::GaveUp(why)
    }

    /// Another process accepts on all addresses: this one ends what it has begun.
    fn leave_to(mut self, successor: &Successor) -> ServeEnd {
        self.program.tell_state(ProcessState::LeftTo(successor.process));
        self.proxy.leave(successor.takeover.clone());
        let mut told = self.proxy.running_requests();
        successor.confirm(told.clone());
        (self.times.hand_over_delay, self.times.delay) = (None, Duration::ZERO);
        self.times.grace = self.times.grace_of_upgrade;
        let mut is_there = true;
        let cut = stop(self.proxy, self.times, &self.events, |proxy| {
            let running = if is_there { proxy.running_requests() } else { Vec::new() };
            if is_there && running != told {
                told.clone_from(&running);
                is_there = successor.tell_running(running);
            }
        });
        ServeEnd::Stopped { cut }
    }
}
