//! `weir serve`: starts the proxy and stays until a signal ends it.
//!
//! The lines `listening listener=NAME address=ADDRESS` and `ready` on standard error are a promise to scripts: after
//! `ready`, every address takes connections.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use weir_config::{Config, ConfigFile, Diagnostics};
use weir_control::{AdminCommand, CommandKind, CommandRejected, InheritedSockets, Proxy};

use crate::error::CommandError;
use crate::events::{ServeEvent, ServeEvents, ServeSignals};
use crate::features;
use crate::help_text::with_exit_codes;
use crate::log;
use crate::output;
use crate::reload;
use crate::start::{self, Origin};
use crate::supervisor;
use crate::watch::ConfigWatch;

const EXAMPLES: &str = "\
Examples:
  weir serve weir.toml
  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80
  weir serve --listen unix:/run/weir.sock --to app.internal:8080";

const EXIT_CODES: &str = "\
Signals:
  SIGTERM, SIGINT  fail `/ready`, serve for `process.stop_delay`, then stop accepting and complete running exchanges
                   within `process.stop_grace`; a second signal ends them at once
  SIGHUP           reload the config without dropping connections; one with errors changes nothing
  SIGUSR1          reopen the files of the access log

Exit codes:
  0  stopped by a signal, and all running exchanges completed
  1  an address cannot be bound or a file cannot be opened
  2  the config or the command line cannot be used
  3  stopped by a signal, and exchanges were cut off that still ran after `process.stop_grace` or at the second signal";

/// Exit code for a stop that cut what was still running.
const CUT: u8 = 3;

/// Run the proxy, from a config or from the addresses alone.
///
/// Prints the address of each listener on standard error, then `ready`. Warnings about the config are shown first;
/// with errors in it, Weir does not start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ServeArguments {
    /// The config.
    #[arg(required_unless_present = "to", conflicts_with_all = ["listen", "to"])]
    file: Option<PathBuf>,
    /// Where to accept connections: `:8080`, `127.0.0.1:8080`, `unix:/run/weir.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    listen: Vec<String>,
    /// A server to balance requests over: `10.0.0.1:80`, `app.internal:8080`, `unix:/run/app.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &ServeArguments) -> Result<ExitCode, CommandError> {
    // Before any descriptor is opened.
    let inherited = InheritedSockets::take();
    let watch = ConfigWatch::default();
    let reading = arguments.file.as_deref().map(|file| watch.before_reading(file));
    let mut file = arguments.file.as_deref().map(|file| ConfigFile::with_check(file, features::check));
    let (config, warnings) = load(arguments, file.as_mut())?;
    if !warnings.is_empty() {
        output::note(&warnings.render(output::colour_of(&std::io::stderr())));
    }
    log::start(&config.log);
    if let Some(reading) = reading {
        watch.follow(reading, config.process.reload, &warnings);
    }
    serve(config, file, inherited, &watch)
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
    config: Config,
    mut file: Option<ConfigFile>,
    inherited: InheritedSockets,
    watch: &ConfigWatch,
) -> Result<ExitCode, CommandError> {
    // Before anything runs, so that no signal is missed.
    let signals = ServeSignals::register(&[SIGTERM, SIGINT, SIGUSR1, SIGHUP])?;
    let origin = file.as_ref().map_or(Origin::Arguments, |file| Origin::File(file.path()));
    let opened = start::open(&config, inherited, origin)?;
    start::give_up_privileges(&config, origin)?;
    // From here on there are threads.
    log::start_thread(&config.log);
    start::tell_confinement();
    let events = ServeEvents::start(signals)?;
    let mut proxy = start::proxy(&config, opened, origin, events.commands())?;
    watch.start()?;
    let mut times = StopTimes::of(&config);
    if let Some(file) = &mut file {
        file.follow(config);
    }
    for listened in proxy.bound_listeners() {
        log::note(&format!("listening listener={} address={}", listened.listener, listened.address));
    }
    proxy.write_pid_file();
    log::note("ready");
    supervisor::tell_ready();
    let mut reload = |proxy: &mut Proxy| {
        supervisor::tell_reloading();
        let outcome = reload::run(proxy, file.as_mut(), watch);
        supervisor::tell_ready();
        let (reloaded, config) = outcome?;
        times = StopTimes::of(&config);
        Ok(reloaded)
    };
    let mut watchdog = supervisor::Watchdog::default();
    if let Some(interval) = supervisor::watchdog_interval() {
        events.watch(interval)?;
    }
    loop {
        match events.next() {
            ServeEvent::Signal(SIGUSR1) => proxy.reopen_logs(),
            ServeEvent::Signal(SIGHUP) => {
                let _told_by_the_log = reload(&mut proxy);
            }
            ServeEvent::Signal(_) => break,
            ServeEvent::Watchdog => watchdog.answer(&proxy),
            ServeEvent::Command(AdminCommand { kind: CommandKind::Reload(outcome), requester }) => {
                tracing::info!(who = requester, "a reload was requested");
                let _gone = outcome.send(reload(&mut proxy).map_err(CommandRejected::Diagnostics));
            }
            ServeEvent::Command(AdminCommand { kind: CommandKind::Change(change, outcome), requester }) => {
                let _gone = outcome.send(proxy.change(&change, &requester));
            }
        }
    }
    supervisor::tell_stopping();
    Ok(stop(proxy, times, &events))
}

/// How much time a stop has.
#[derive(Debug, Clone, Copy)]
struct StopTimes {
    /// Until connections are refused.
    delay: Duration,
    /// From then on.
    grace: Duration,
}

impl StopTimes {
    fn of(config: &Config) -> Self {
        Self { delay: config.process.stop_delay, grace: config.process.stop_grace }
    }
}

fn stop(proxy: Proxy, times: StopTimes, events: &ServeEvents) -> ExitCode {
    let mut hurried = false;
    let mut hurry = |proxy: &Proxy| {
        for event in events.pending() {
            match event {
                ServeEvent::Signal(SIGTERM | SIGINT) => hurried = true,
                ServeEvent::Signal(SIGUSR1) => proxy.reopen_logs(),
                // Commands are rejected by then: their channels close.
                ServeEvent::Signal(_) | ServeEvent::Command(_) | ServeEvent::Watchdog => {}
            }
        }
        hurried
    };
    if !times.delay.is_zero() {
        tracing::info!(delay = ?times.delay, "about to stop: /ready says so, and connections are still taken");
        proxy.announce_stop(times.delay, &mut hurry);
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
