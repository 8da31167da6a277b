//! How a command fails: the message on standard error, and the exit code.

use std::process::ExitCode;

use weir_config::Diagnostics;
#[cfg(not(all(feature = "top", feature = "kubernetes")))]
use weir_control::{BUILD_HELP, Feature};
use weir_observe::printable;

use crate::{diagnostics, output};

/// Exit code for what failed while it ran.
pub(crate) const FAILED: u8 = 1;
/// Exit code for a config or a command line that cannot be used; clap gives it too.
pub(crate) const UNUSABLE: u8 = 2;

/// The reason of a failed command.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// The config has errors.
    Config(Diagnostics),
    /// The arguments are invalid, by themselves or with this config.
    Usage { what: String, help: Option<String> },
    /// Something failed while it ran.
    Failed { error: anyhow::Error, help: Option<String> },
}

impl CommandError {
    /// `what` needs a feature that this program was built without.
    #[cfg(not(all(feature = "top", feature = "kubernetes")))]
    pub(crate) fn without_feature(what: &str, feature: Feature) -> Self {
        Self::Usage { what: feature.missing_for(what), help: Some(BUILD_HELP.to_owned()) }
    }

    /// The message in a few lines, for another program.
    pub(crate) fn line(&self) -> String {
        match self {
            Self::Config(diagnostics) => {
                let errors: Vec<String> = diagnostics.errors().map(|error| diagnostics.line(error)).collect();
                errors.join("\n")
            }
            Self::Usage { what, .. } => what.clone(),
            Self::Failed { error, help } => {
                let help = help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
                format!("{error:#}{help}")
            }
        }
    }

    /// Prints the message to standard error, and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let (what, help, code) = match self {
            Self::Config(diagnostics) => {
                let colour = output::colour_of(&std::io::stderr());
                output::note(&diagnostics::render(&diagnostics, colour));
                return ExitCode::from(UNUSABLE);
            }
            Self::Usage { what, help } => (what, help, UNUSABLE),
            Self::Failed { error, .. } if is_broken_pipe(&error) => return ExitCode::SUCCESS,
            Self::Failed { error, help } => (format!("{error:#}"), help, FAILED),
        };
        output::note(&printable::shown_lines(&format!("error: {what}")));
        if let Some(help) = help {
            output::note(&printable::shown_lines(&format!("help: {help}")));
        }
        ExitCode::from(code)
    }
}

impl<E: Into<anyhow::Error>> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::Failed { error: error.into(), help: None }
    }
}

/// Whether the reader of the output has closed it, as `head` does: no error.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
