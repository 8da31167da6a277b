//! A reload of the config: read and checked anew, and taken over only when nothing is wrong with it.
//!
//! The outcome is logged with every error, since the standard error of a service is seen only there. Must not stop the process,
//! whatever the config says.

use weir_config::{Config, ConfigFile, Diagnostics};

use super::program::ServingProgram;
use super::watch::ConfigWatch;
use crate::lifecycle::privileges::{why_missing, why_unreadable};
use crate::proxy::{NewNames, Proxy};
use crate::workers::commands::ReloadReport;

/// How the system's errors read, in any message about a file.
const PERMISSION_DENIED: &str = "Permission denied";
const NOT_FOUND: &str = "No such file";

/// Reads the config again and goes over to it; gives it when that is done.
///
/// # Errors
/// All errors, one line each; then nothing has changed.
pub(super) fn run(
    proxy: &mut Proxy,
    file: Option<&mut ConfigFile>,
    watch: &ConfigWatch,
    program: &dyn ServingProgram,
) -> Result<(ReloadReport, Config), Vec<String>> {
    let Some(file) = file else {
        let what = "there is no config to read again: the addresses are on the command line";
        tracing::warn!("{what}");
        return Err(vec![what.to_owned()]);
    };
    let reading = watch.before_reading(file.path());
    let (config, warnings) = match file.read() {
        Ok(read) => read,
        Err(diagnostics) => {
            warn(&diagnostics);
            watch.note_refusal(reading, &diagnostics);
            proxy.count_failed_reload();
            for diagnostic in diagnostics.errors() {
                tracing::error!("{}", diagnostics.line(diagnostic));
            }
            let says = |text| diagnostics.errors().any(|error| diagnostics.line(error).contains(text));
            let denied = says(PERMISSION_DENIED).then(why_unreadable).flatten();
            if let Some(why) = denied.or_else(|| says(NOT_FOUND).then(why_missing).flatten()) {
                tracing::error!("{why}");
            }
            let count = diagnostics.errors().count();
            tracing::error!(file = %file.path().display(), errors = count, "the config was not reloaded: the previous one stays in use");
            return Err(diagnostics.errors().map(|error| diagnostics.line(error)).collect());
        }
    };
    warn(&warnings);
    let before = proxy.bound_listeners();
    match proxy.reload(&config, NewNames::MustResolve) {
        Ok(reloaded) => {
            watch.follow(reading, config.process.reload, &warnings);
            file.follow(proxy.config_of_file());
            for key in &reloaded.needs_restart {
                tracing::warn!(key, "a change of this key holds only after a restart");
            }
            for listened in proxy.bound_listeners().iter().filter(|listened| !before.contains(listened)) {
                program.tell_listening(listened);
            }
            let generation = reloaded.generation;
            tracing::info!(file = %file.path().display(), generation, "the config was reloaded");
            proxy
                .descriptor_budget()
                .warnings(&config)
                .iter()
                .for_each(|warning| tracing::warn!("{warning}"));
            Ok((reloaded, config))
        }
        Err(error) => {
            watch.note_refusal(reading, &warnings);
            let help = program.advice(&error).map(|help| format!(" ({help})")).unwrap_or_default();
            tracing::error!("{error}{help}");
            tracing::error!(file = %file.path().display(), errors = 1, "the config was not reloaded: the previous one stays in use");
            Err(vec![format!("{error}{help}")])
        }
    }
}

fn warn(diagnostics: &Diagnostics) {
    for warning in diagnostics.warnings() {
        tracing::warn!("{}", diagnostics.line(warning));
    }
}
