//! `weir serve`: starts the proxy and stays until a signal ends it.
//!
//! The lines `listening listener=NAME address=ADDRESS` and `ready` on standard error are a promise to scripts: after
//! `ready`, every address takes connections.

mod first_answers;
mod reload;
mod route_fragments;
mod kubernetes;
mod upgrade;
mod events;
mod predecessor;
mod beside;
mod successor;
mod watch;
mod supervisor;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use weir_config::{Config, ConfigFile, Diagnostics};
use weir_control::{
    AdminCommand, CommandKind, CommandRejected, FragmentSet, Handover, InheritedSockets, Proxy, ReloadReport,
};

use crate::allocator;
use crate::error::CommandError;
use crate::features;
use crate::help_text::with_exit_codes;
use crate::kubernetes_arguments::KubernetesArguments;
use crate::log;
use crate::output;
use crate::start::{self, Origin};

pub(crate) use successor::UPGRADE_TIME_MAX;

use beside::ProcessesBeside;
use events::{ServeEvent, ServeEvents, ServeSignals};
use first_answers::{accept, await_sources};
use kubernetes::KubernetesRoutes;
use predecessor::Predecessor;
use route_fragments::RouteFragments;
use successor::Successor;
use upgrade::{UPGRADING, Upgrade, UpgradeOutcome};
use watch::ConfigWatch;

const EXAMPLES: &str = "\
Examples:
  weir serve weir.toml
  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80
  weir serve --listen unix:/run/weir.sock --to app.internal:8080
  weir serve --kubernetes
  weir serve --kubernetes=infra/web --gateway-address 203.0.113.7 base.toml";

const EXIT_CODES: &str = "\
Signals:
  SIGTERM, SIGINT  fail `/ready`, serve for `process.stop_delay`, then stop accepting and complete running exchanges
                   within `process.stop_grace`; a second signal ends them at once
  SIGHUP           reload the config without dropping connections; one with errors changes nothing;
                   reopen the files of the access log in any case
  SIGUSR1          reopen the files of the access log
  SIGUSR2          start the program anew and leave all connections to that process, as `weir upgrade` does

Exit codes:
  0  stopped by a signal, and all running exchanges completed
  1  an address cannot be bound or a file cannot be opened, or a worker has crashed again and again
  2  the config or the command line cannot be used
  3  stopped by a signal, and exchanges were cut off that still ran after `process.stop_grace` or at the second signal";

/// How long exchanges of other workers have when one does not work any more: new connections are refused meanwhile.
const GIVE_UP_GRACE: Duration = Duration::from_secs(5);

const GIVE_UP_HELP: &str = "this is a defect of Weir: report it with the lines of the log that begin with `panic` and their backtraces; \
    under a supervisor (`Restart=on-failure` of systemd) Weir is started again";

/// Why a process of a cluster is not replaced by another one in its place.
const CLUSTER_UPGRADE: &str = "with `--kubernetes`, replace the pod: a rolling update serves without a gap";

/// Exit code for a stop that cut what was still running.
const CUT: u8 = 3;

/// How long connections are still accepted at least, once another node was told to take over: ten advertisements of VRRP in the examples.
const TAKEOVER_TIME: Duration = Duration::from_secs(1);

/// Run the proxy, from a config or from the addresses alone.
///
/// Prints the address of each listener on standard error, then `ready`. Warnings about the config are shown first;
/// with errors in it, Weir does not start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ServeArguments {
    /// The config.
    #[arg(required_unless_present_any = ["listen", "to", "kubernetes"], conflicts_with_all = ["listen", "to"])]
    file: Option<PathBuf>,
    /// Where to accept connections: `:8080`, `127.0.0.1:8080`, `unix:/run/weir.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", requires = "to")]
    listen: Vec<String>,
    /// A server to balance requests over: `10.0.0.1:80`, `app.internal:8080`, `unix:/run/app.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    #[command(flatten)]
    kubernetes: KubernetesArguments,
}

/// Runs until SIGTERM or SIGINT, or until another process has replaced this one.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitCode, CommandError> {
    // Before any descriptor is opened.
    let inherited = InheritedSockets::take();

    let mut predecessor = Predecessor::find()?;
    let beside = ProcessesBeside::start();
    let outcome = predecessor
        .as_ref()
        .map_or_else(|| Ok(Handover::default()), Predecessor::receive)
        .and_then(|handover| read_and_serve(arguments, (inherited, handover), beside, &mut predecessor));
    if let (Err(error), Some(predecessor)) = (&outcome, &predecessor) {
        predecessor.tell_failed(error);
    }
    outcome
}

fn read_and_serve(
    arguments: &ServeArguments,
    sockets: (InheritedSockets, Handover),
    beside: ProcessesBeside,
    predecessor: &mut Option<Predecessor>,
) -> Result<ExitCode, CommandError> {
    let watch = ConfigWatch::default();
    if let Some(routes) = KubernetesRoutes::prepare(&arguments.kubernetes)? {
        let path = arguments.file.clone();
        let (config, warnings) = routes.read_base(path.as_deref())?;
        note_and_log(&config, &warnings);
        let source = ConfigSource::Kubernetes(Box::new(routes), path);
        return serve(&config, source, sockets, (&watch, beside), predecessor);
    }
    let reading = arguments.file.as_deref().map(|file| watch.before_reading(file));
    let mut file = arguments
        .file
        .as_deref()
        .map(|file| ConfigFile::with_check(file, features::check).restoring(route_fragments::restore))
        .map(|file| route_fragments::take_over(file, sockets.1.fragments()));
    let (config, warnings) = load(arguments, file.as_mut())?;
    note_and_log(&config, &warnings);
    if let Some(reading) = reading {
        watch.follow(reading, config.process.reload, &warnings);
    }
    let source = file.map_or(ConfigSource::Arguments, |file| ConfigSource::File(Box::new(file)));
    serve(&config, source, sockets, (&watch, beside), predecessor)
}

/// Shows the warnings of a config, and begins to log as it says.
fn note_and_log(config: &Config, warnings: &Diagnostics) {
    if !warnings.is_empty() {
        output::note(&warnings.render(output::colour_of(&std::io::stderr())));
    }
    log::start(&config.log);
}

/// Where the config comes from.
enum ConfigSource {
    /// From the command line.
    Arguments,
    /// From this file.
    File(Box<ConfigFile>),
    /// From a cluster; what is beside the routes from this file, if any.
    Kubernetes(Box<KubernetesRoutes>, Option<PathBuf>),
}

impl ConfigSource {
    fn origin(&self) -> Origin<'_> {
        match self {
            Self::File(file) => Origin::File(file.path()),
            Self::Kubernetes(_, Some(path)) => Origin::File(path),
            Self::Arguments | Self::Kubernetes(_, None) => Origin::Arguments,
        }
    }
}

fn load(
    arguments: &ServeArguments,
    file: Option<&mut ConfigFile>,
) -> Result<(Config, Diagnostics), CommandError> {
    let loaded = match file {
        Some(file) => file.read(),
        None => Config::from_arguments(&arguments.listen, &arguments.to)
            .map(|config| (config, Diagnostics::default())),
    };
    loaded.map_err(CommandError::Config)
}

fn serve(
    config: &Config,
    mut source: ConfigSource,
    (inherited, handover): (InheritedSockets, Handover),
    (watch, beside): (&ConfigWatch, ProcessesBeside),
    predecessor: &mut Option<Predecessor>,
) -> Result<ExitCode, CommandError> {
    let (launcher, watcher) = beside.follow(config)?;
    let signals = ServeSignals::register(&[SIGTERM, SIGINT, SIGUSR1, SIGUSR2, SIGHUP])?;
    let origin = source.origin();
    let opened = start::open(config, inherited, handover, origin)?;
    // Not before: until its addresses are bound, the process may be one too many.
    if let Some(watcher) = watcher.as_ref().filter(|_| predecessor.is_none()) {
        watcher.tell_starting();
    }
    start::give_up_privileges(config, origin)?;
    // From here on there are threads.
    log::start_thread(&config.log);
    weir_control::watch_panics();
    start::tell_confinement();
    let events = ServeEvents::start(signals)?;
    let mut proxy = start::proxy(config, opened, origin, events.commands())?;
    watch.start()?;
    let routes = await_sources(&mut proxy, &mut source, &events);
    for listened in proxy.bound_listeners() {
        start::tell_listening(&listened);
    }
    let times = StopTimes::new(config);
    let has_routes = accept(&mut proxy, config, &mut source, &events)?;
    if let Some(predecessor) = predecessor.take() {
        predecessor.tell_ready(proxy.takeover(), proxy.slots_to_occupy());
    }
    proxy.write_pid_file();
    if let Some(watcher) = watcher {
        proxy.announce_by(watcher)?;
    }
    if has_routes {
        log::note("ready");
        supervisor::tell_ready();
    }
    if let Some(interval) = supervisor::watchdog_interval() {
        events.watch(interval)?;
    }
    let (upgrade, watchdog) = (Upgrade::by(launcher), supervisor::Watchdog::default());
    // What reading the config took.
    allocator::give_back();
    Serving { proxy, source, routes, watch, events, times, upgrade, watchdog }.run()
}

/// The process from `ready` on.
struct Serving<'a> {
    proxy: Proxy,
    source: ConfigSource,
    routes: RouteFragments,
    watch: &'a ConfigWatch,
    events: ServeEvents,
    times: StopTimes,
    upgrade: Upgrade,
    watchdog: supervisor::Watchdog,
}

impl Serving<'_> {
    fn run(mut self) -> Result<ExitCode, CommandError> {
        loop {
            match self.events.next() {
                ServeEvent::Signal(SIGUSR1) => self.proxy.reopen_logs(),
                ServeEvent::Routes(update) => drop(update(&mut self.proxy)),
                ServeEvent::Signal(SIGUSR2) if self.is_of_cluster() => {
                    tracing::warn!("no upgrade: {CLUSTER_UPGRADE}");
                }
                ServeEvent::Signal(SIGUSR2) => {
                    self.begin_upgrade("SIGUSR2", None);
                }
                ServeEvent::Signal(SIGHUP) => {
                    let _told_by_the_log = self.reload();
                    // As rotations expect it that were written for other servers.
                    self.proxy.reopen_logs();
                }
                ServeEvent::Signal(_) => break,
                ServeEvent::Watchdog => self.watchdog.answer(&self.proxy),
                ServeEvent::Command(AdminCommand { kind: CommandKind::GiveUp(why), .. }) => {
                    return self.give_up(why);
                }
                ServeEvent::Command(AdminCommand { kind, requester }) => self.obey(kind, &requester),
                ServeEvent::Upgraded(outcome) => {
                    if let Some(successor) = self.upgrade.end(outcome) {
                        return Ok(self.leave_to(&successor));
                    }
                    self.take_fragments(Vec::new());
                }
            }
        }
        supervisor::tell_stopping();
        // A process that is about to take over ends, too.
        self.upgrade.abort();
        if !self.proxy.is_announced() {
            self.times.hand_over_delay = None;
        }
        if self.is_of_cluster() {
            self.announce_stop_in_cluster();
        }
        if let ConfigSource::Kubernetes(routes, _) = self.source {
            routes.stop();
        }
        Ok(stop(self.proxy, self.times, &self.events, |_| {}))
    }

    fn begin_upgrade(&mut self, requester: &str, outcome: Option<UpgradeOutcome>) {
        let fragments = match &self.source {
            ConfigSource::File(file) => route_fragments::to_hand_over(file, &self.proxy),
            ConfigSource::Arguments | ConfigSource::Kubernetes(..) => Vec::new(),
        };
        self.upgrade.begin((&self.proxy, fragments), &self.events, requester, outcome);
    }

    fn is_of_cluster(&self) -> bool {
        matches!(self.source, ConfigSource::Kubernetes(..))
    }

    /// Lets `/ready` fail for the delay, in which servers still come and go; a second signal ends it.
    fn announce_stop_in_cluster(&mut self) {
        let delay = std::mem::take(&mut self.times.delay);
        tracing::info!(?delay, "about to stop: /ready says so, and connections are still taken");
        self.proxy.announce_stop(Duration::ZERO, |_| false);
        let end = crate::clock::now() + delay;
        while let Some(event) = self.events.next_until(end) {
            match event {
                ServeEvent::Routes(update) => drop(update(&mut self.proxy)),
                ServeEvent::Signal(SIGUSR1) => self.proxy.reopen_logs(),
                ServeEvent::Signal(SIGTERM | SIGINT) => return,
                ServeEvent::Watchdog => self.watchdog.answer(&self.proxy),
                ServeEvent::Signal(_) | ServeEvent::Command(_) | ServeEvent::Upgraded(_) => {}
            }
        }
    }

    fn obey(&mut self, command: CommandKind, requester: &str) {
        match command {
            CommandKind::Reload(outcome) => {
                tracing::info!(who = requester, "a reload was requested");
                let _gone = outcome.send(self.reload().map_err(CommandRejected::Diagnostics));
            }
            CommandKind::Upgrade(outcome) if self.is_of_cluster() => {
                let _gone = outcome.send(Err(CommandRejected::Refused(CLUSTER_UPGRADE.to_owned())));
            }
            CommandKind::Upgrade(outcome) => {
                self.begin_upgrade(requester, Some(outcome));
            }
            // The next process would not know it.
            CommandKind::Change(_, outcome) if self.upgrade.is_running() => {
                let _gone = outcome.send(Err(CommandRejected::Refused(UPGRADING.to_owned())));
            }
            CommandKind::Change(change, outcome) => {
                let _gone = outcome.send(self.proxy.change(&change, requester));
            }
            CommandKind::Servers(sets, _under_way) => self.proxy.take_server_sets(sets),
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
        supervisor::tell_reloading();
        let outcome = match &mut self.source {
            ConfigSource::Kubernetes(routes, path) => routes.reload(path.as_deref()).map(|config| {
                // The routes follow, with the next generation.
                let generation = self.proxy.generation() + 1;
                (ReloadReport { generation, needs_restart: Vec::new() }, config)
            }),
            ConfigSource::File(file) => reload::run(&mut self.proxy, Some(file), self.watch),
            ConfigSource::Arguments => reload::run(&mut self.proxy, None, self.watch),
        };
        supervisor::tell_ready();
        let (reloaded, config) = outcome?;
        if let ConfigSource::File(file) = &self.source {
            self.routes.tell(&self.proxy, file);
        }
        self.times = StopTimes::new(&config);
        drop(config);
        // Several times what a large config takes afterwards.
        allocator::give_back();
        Ok(reloaded)
    }

    /// A part of this process does not work any more: it ends, for its supervisor to start it anew.
    fn give_up(mut self, why: String) -> Result<ExitCode, CommandError> {
        supervisor::tell_stopping();
        self.upgrade.abort();
        self.times.delay = Duration::ZERO;
        self.times.grace = self.times.grace.min(GIVE_UP_GRACE);
        let _cut = stop(self.proxy, self.times, &self.events, |_| {});
        Err(CommandError::Failed { error: anyhow!(why), help: Some(GIVE_UP_HELP.to_owned()) })
    }

    /// Another process accepts on all addresses: this one ends what it has begun.
    fn leave_to(mut self, successor: &Successor) -> ExitCode {
        supervisor::tell_main_process(successor.process);
        self.proxy.leave(successor.takeover.clone());
        let mut told = self.proxy.running_requests();
        successor.confirm(told.clone());
        (self.times.hand_over_delay, self.times.delay) = (None, Duration::ZERO);
        self.times.grace = self.times.grace_of_upgrade;
        let mut is_there = true;
        stop(self.proxy, self.times, &self.events, |proxy| {
            let running = if is_there { proxy.running_requests() } else { Vec::new() };
            if is_there && running != told {
                told.clone_from(&running);
                is_there = successor.tell_running(running);
            }
        })
    }
}

/// How much time a stop has.
#[derive(Debug, Clone, Copy)]
struct StopTimes {
    /// For connections to end, before another node is told to take over; `None`: there is none.
    hand_over_delay: Option<Duration>,
    /// Until connections are refused.
    delay: Duration,
    /// From then on.
    grace: Duration,
    /// From then on, where another process serves.
    grace_of_upgrade: Duration,
}

impl StopTimes {
    fn new(config: &Config) -> Self {
        let process = &config.process;
        Self {
            hand_over_delay: Some(process.hand_over_delay),
            delay: process.stop_delay,
            grace: process.stop_grace,
            grace_of_upgrade: process.reload_grace,
        }
    }
}

/// Stops; `look` is called again and again meanwhile.
fn stop(proxy: Proxy, times: StopTimes, events: &ServeEvents, mut look: impl FnMut(&Proxy)) -> ExitCode {
    let mut hurried = false;
    let mut hurry = |proxy: &Proxy| {
        look(proxy);
        for event in events.pending() {
            match event {
                ServeEvent::Signal(SIGTERM | SIGINT) => hurried = true,
                ServeEvent::Signal(SIGUSR1) => proxy.reopen_logs(),
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
        return ExitCode::SUCCESS;
    }
    let why = if hurried { "a second signal came" } else { "their time was up" };
    tracing::warn!(cut = stopped.cut, "exchanges or tunnels were cut: {why}");
    ExitCode::from(CUT)
}
