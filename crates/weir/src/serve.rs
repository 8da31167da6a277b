//! `weir serve`: starts the proxy and stays until a signal ends it.
//!
//! The lines `listening listener=NAME address=ADDRESS` and `ready` on standard error are a promise to scripts: after
//! `ready`, every address takes connections.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use weir_config::{Checked, Config, Mistakes};
use weir_proxy::{Proxy, Unfulfilled, Wanted, Wish};

use crate::command_line::with_exit_codes;
use crate::error::{CommandError, FAILED};
use crate::events::{Event, Events};
use crate::log;
use crate::output;
use crate::reload;
use crate::start::{self, Origin};
use crate::watch::Watch;

const EXAMPLES: &str = "\
Examples:
  weir serve weir.toml
  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80
  weir serve --listen unix:/run/weir.sock --to app.internal:8080";

const EXIT_CODES: &str = "\
Signals:
  SIGTERM, SIGINT  stop accepting, let running exchanges end within `process.stop_grace`; the second one ends them at once
  SIGHUP           read the config again and go over to it, without losing a connection; one with a mistake changes nothing
  SIGUSR1          open the files of the access log again

Exit codes:
  0  stopped by a signal; what was still running after `process.stop_grace` has been cut
  1  an address or a file cannot be had, or a second signal cut what was still running
  2  the config or the command line cannot be used";

/// Run the proxy, from a config or from the addresses alone.
///
/// It says on standard error which address each listener has, then `ready`. Warnings about the config are shown first;
/// mistakes keep it from starting.
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
    let (config, warnings) = load(arguments)?;
    if !warnings.is_empty() {
        output::note(&warnings.render(output::colour_of(&std::io::stderr())));
    }
    log::start(&config.log);
    let watch = Watch::default();
    watch.follow(config.process.reload, &warnings);
    serve(&config, arguments.file.as_deref().map_or(Origin::Arguments, Origin::File), &watch)
}

fn load(arguments: &ServeArguments) -> Result<(Config, Mistakes), CommandError> {
    match &arguments.file {
        Some(file) => {
            let checked = Checked::load(file);
            match checked.config {
                Some(config) => Ok((config, checked.mistakes)),
                None => Err(CommandError::Config(checked.mistakes)),
            }
        }
        None => Config::from_arguments(&arguments.listen, &arguments.to)
            .map(|config| (config, Mistakes::default()))
            .map_err(CommandError::Config),
    }
}

fn serve(config: &Config, origin: Origin<'_>, watch: &Watch) -> Result<ExitCode, CommandError> {
    // Before anything runs, so that no signal is missed.
    let events = Events::start(&[SIGTERM, SIGINT, SIGUSR1, SIGHUP])?;
    let mut proxy = start::proxy(config, origin, events.wishes())?;
    watch.start()?;
    let mut grace = config.process.stop_grace;
    for listened in proxy.listened() {
        output::note(&format!("listening listener={} address={}", listened.listener, listened.address));
    }
    output::note("ready");
    let mut reload = |proxy: &mut Proxy| {
        let (reloaded, config) = reload::run(proxy, origin, watch)?;
        grace = config.process.stop_grace;
        Ok(reloaded)
    };
    loop {
        match events.next() {
            Event::Signal(SIGUSR1) => proxy.reopen_logs(),
            Event::Signal(SIGHUP) => {
                let _told_by_the_log = reload(&mut proxy);
            }
            Event::Signal(_) => break,
            Event::Wish(Wish { what: Wanted::Reload(outcome), who }) => {
                tracing::info!(who, "a reload was asked for");
                let _gone = outcome.send(reload(&mut proxy).map_err(Unfulfilled::Mistakes));
            }
            Event::Wish(Wish { what: Wanted::Change(change, outcome), who }) => {
                let _gone = outcome.send(proxy.change(&change, &who));
            }
        }
    }
    Ok(stop(proxy, grace, &events))
}

fn stop(proxy: Proxy, grace: Duration, events: &Events) -> ExitCode {
    let open = proxy.sessions_open();
    tracing::info!(
        sessions = open,
        ?grace,
        "stopping: running exchanges may finish, a second signal ends them"
    );
    let mut hurried = false;
    let stopped = proxy.stop(grace, || {
        hurried |= events.pending().any(|event| matches!(event, Event::Signal(SIGTERM | SIGINT)));
        hurried
    });
    if stopped.sessions_cut > 0 {
        tracing::warn!(sessions = stopped.sessions_cut, "sessions were cut");
    }
    if hurried && stopped.sessions_cut > 0 { ExitCode::from(FAILED) } else { ExitCode::SUCCESS }
}
