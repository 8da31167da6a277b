//! `weir serve`: starts the proxy and stays until a signal ends it.

use std::io::IsTerminal as _;
use std::process::ExitCode;

use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use weir_config::{Colour, Config, Mistakes};
use weir_proxy::Proxy;

use crate::commands::ServeArguments;
use crate::log;

/// Exit code for a config that cannot be used.
const BAD_CONFIG: u8 = 2;

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: &ServeArguments) -> ExitCode {
    let config = match load(arguments) {
        Ok(config) => config,
        Err(mistakes) => {
            let colour = if std::io::stderr().is_terminal() { Colour::Always } else { Colour::Never };
            eprint!("{}", mistakes.render(colour));
            return ExitCode::from(BAD_CONFIG);
        }
    };
    log::start(&config.log);
    match serve(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn load(arguments: &ServeArguments) -> Result<Config, Mistakes> {
    match &arguments.file {
        Some(file) => Config::load(file),
        None => Config::from_arguments(&arguments.listen, &arguments.to),
    }
}

fn serve(config: &Config) -> anyhow::Result<()> {
    // Before anything runs, so that no signal is missed.
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1])?;
    let proxy = Proxy::start(config)?;
    for listened in proxy.listened() {
        eprintln!("listening listener={} address={}", listened.listener, listened.address);
    }
    eprintln!("ready");
    for signal in signals.forever() {
        match signal {
            SIGUSR1 => proxy.reopen_logs(),
            _ => break,
        }
    }
    let grace = config.process.stop_grace;
    let open = proxy.sessions_open();
    tracing::info!(sessions = open, grace = ?grace, "stopping: running exchanges may finish, a second signal ends them");
    let stopped = proxy.stop(grace, || signals.pending().any(|signal| signal != SIGUSR1));
    if stopped.sessions_cut > 0 {
        tracing::warn!(sessions = stopped.sessions_cut, "sessions were cut");
    }
    Ok(())
}
