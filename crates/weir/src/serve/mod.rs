//! `weir serve`: starts the proxy and stays until a signal ends it.
//!
//! The lines `listening listener=NAME address=ADDRESS` and `ready` on standard error are a promise to scripts: after
//! `ready`, every address takes connections.

mod kubernetes;
mod predecessor;
mod beside;
mod signals;
mod supervisor;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;
use clap::Args;
use weir_config::{Config, ConfigFile, Diagnostics};
use weir_control::{
    BoundListener, ConfigSource, ConfigWatch, Handover, InheritedSockets, ProcessState, ServeEnd,
    ServeEvents, Serving, ServingProgram, StartError, with_known_fragments,
};

use crate::allocator;
use crate::error::CommandError;
use crate::features;
use crate::foreign::LossArguments;
use crate::help_text::with_exit_codes;
use crate::kubernetes::arguments::KubernetesArguments;
use crate::log;
use crate::output;
use crate::start::{self, Origin};

use beside::ProcessesBeside;
use kubernetes::KubernetesRoutes;
use predecessor::Predecessor;
use signals::KeptSignals;

const EXAMPLES: &str = "\
Examples:
  weir serve weir.toml
  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80
  weir serve /etc/nginx/nginx.conf
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

const GIVE_UP_HELP: &str = "this is a defect of Weir: report it with the lines of the log that begin with `panic` and their backtraces; \
    under a supervisor (`Restart=on-failure` of systemd) Weir is started again";

/// Exit code for a stop that cut what was still running.
const CUT: u8 = 3;

/// Run the proxy, from a config or from the addresses alone.
///
/// Prints the address of each listener on standard error, then `ready`. Warnings about the config are shown first;
/// with errors in it, Weir does not start.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ServeArguments {
    /// The config: a `weir.toml`, `nginx.conf`, `haproxy.cfg`, `Caddyfile` or `traefik.yml`. At a reload it is read again.
    #[arg(required_unless_present_any = ["listen", "to", "kubernetes"], conflicts_with_all = ["listen", "to"])]
    file: Option<PathBuf>,
    /// Where to accept connections: `:8080`, `127.0.0.1:8080`, `unix:/run/weir.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS", default_value = ":8080", requires = "to")]
    listen: Vec<String>,
    /// A server to balance requests over: `10.0.0.1:80`, `app.internal:8080`, `unix:/run/app.sock`. Can be given several times.
    #[arg(long, value_name = "ADDRESS")]
    to: Vec<String>,
    #[command(flatten)]
    loss: LossArguments,
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
    if let Some(routes) = KubernetesRoutes::prepare(&arguments.kubernetes, arguments.file.clone())? {
        let (config, warnings) = routes.read_base()?;
        note_and_log(&config, &warnings);
        let origin = arguments.origin();
        return serve(
            &config,
            (Routes::OfCluster(Box::new(routes)), origin),
            sockets,
            (&watch, beside),
            predecessor,
        );
    }
    let reading = arguments.file.as_deref().map(|file| watch.before_reading(file));
    let mut file = arguments
        .file
        .as_deref()
        .map(|file| ConfigFile::with_check(file, features::check).translated_by(arguments.loss.translator()))
        .map(|file| with_known_fragments(file, &sockets.1));
    let (config, warnings) = load(arguments, file.as_mut())?;
    note_and_log(&config, &warnings);
    if let Some(reading) = reading {
        watch.follow(reading, config.process.reload, &warnings);
    }
    let source = file.map_or(ConfigSource::Arguments, |file| ConfigSource::File(Box::new(file)));
    let origin = arguments.origin();
    serve(&config, (Routes::OfConfig(source), origin), sockets, (&watch, beside), predecessor)
}

/// Shows the warnings of a config, and begins to log as it says.
fn note_and_log(config: &Config, warnings: &Diagnostics) {
    if !warnings.is_empty() {
        output::note(&warnings.render(output::colour_of(&std::io::stderr())));
    }
    log::start(&config.log);
}

/// Where routes come from.
enum Routes {
    OfConfig(ConfigSource),
    OfCluster(Box<KubernetesRoutes>),
}

impl ServeArguments {
    fn origin(&self) -> Origin<'_> {
        self.file.as_deref().map_or(Origin::Arguments, Origin::File)
    }
}

/// What the loop of commands has this program do.
struct ServeProgram<'a> {
    origin: Origin<'a>,
}

impl ServingProgram for ServeProgram<'_> {
    fn tell_listening(&self, listener: &BoundListener) {
        start::tell_listening(listener);
    }

    fn tell_state(&self, state: ProcessState) {
        supervisor::tell_state(state);
    }

    fn advice(&self, error: &StartError) -> Option<String> {
        start::help(error, self.origin)
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
    (routes, origin): (Routes, Origin<'_>),
    (inherited, handover): (InheritedSockets, Handover),
    (watch, beside): (&ConfigWatch, ProcessesBeside),
    predecessor: &mut Option<Predecessor>,
) -> Result<ExitCode, CommandError> {
    let (launcher, watcher) = beside.follow(config)?;
    let signals = KeptSignals::register()?;
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
    let events = ServeEvents::new();
    signals.pass_to(events.signals())?;
    let proxy = start::proxy(config, opened, origin, events.commands())?;
    watch.start(events.signals())?;
    let (source, cluster) = match routes {
        Routes::OfConfig(source) => (source, None),
        Routes::OfCluster(cluster) => (ConfigSource::Arguments, Some(cluster)),
    };
    let program = ServeProgram { origin };
    let mut serving = Serving::new((config, source), proxy, (events, watch), launcher, &program);
    serving.await_sources();
    for listened in serving.proxy().bound_listeners() {
        start::tell_listening(&listened);
    }
    if let Some(mut cluster) = cluster {
        cluster.start(config, serving.updates())?;
        serving.take_routes_from(cluster);
    }
    let has_routes = serving.accept().map_err(|error| start::failed(error, origin))?;
    let proxy = serving.proxy();
    if let Some(predecessor) = predecessor.take() {
        predecessor.tell_ready(proxy.takeover(), proxy.slots_to_occupy());
    }
    proxy.write_pid_file();
    if let Some(watcher) = watcher {
        proxy.announce_by(watcher)?;
    }
    if has_routes {
        log::note("ready");
        supervisor::tell_state(ProcessState::Ready);
    }
    if let Some(interval) = supervisor::watchdog_interval() {
        serving.answer_watchdog_every(interval)?;
    }
    // What reading the config took.
    allocator::give_back();
    match serving.run() {
        ServeEnd::Stopped { cut: false } => Ok(ExitCode::SUCCESS),
        ServeEnd::Stopped { cut: true } => Ok(ExitCode::from(CUT)),
        ServeEnd::GaveUp(why) => {
            Err(CommandError::Failed { error: anyhow!(why), help: Some(GIVE_UP_HELP.to_owned()) })
        }
    }
}
