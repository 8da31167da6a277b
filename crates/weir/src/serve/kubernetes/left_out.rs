//! In the place of the client of Kubernetes, in a build without it.

use std::convert::Infallible;
use std::path::Path;

use weir_config::{Config, Diagnostics};

use crate::error::CommandError;
use crate::features::KUBERNETES;
use crate::kubernetes_arguments::KubernetesArguments;
use crate::serve::events::ServeEvents;

/// Does not exist.
pub(crate) struct AbsentRoutes(Infallible);

impl AbsentRoutes {
    /// Nothing without `--kubernetes`, else an error.
    pub(crate) fn prepare(arguments: &KubernetesArguments) -> Result<Option<Self>, CommandError> {
        arguments.check()?;
        match arguments.kubernetes {
            None => Ok(None),
            Some(_) => Err(CommandError::without_feature("`--kubernetes`", KUBERNETES)),
        }
    }

    pub(crate) fn read_base(&self, _file: Option<&Path>) -> Result<(Config, Diagnostics), CommandError> {
        match self.0 {}
    }

    pub(crate) fn start(&mut self, _base: &Config, _events: &ServeEvents) -> Result<(), CommandError> {
        match self.0 {}
    }

    pub(crate) fn reload(&self, _file: Option<&Path>) -> Result<Config, Vec<String>> {
        match self.0 {}
    }

    pub(crate) fn stop(self) {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::command_line::{CommandLine, Subcommand};

    #[test]
    fn the_feature_is_named() {
        let Subcommand::Serve(arguments) =
            CommandLine::parse_from(["weir", "serve", "--kubernetes"]).subcommand
        else {
            panic!("it is `weir serve`");
        };
        let error = crate::serve::run(&arguments).expect_err("this build cannot do it");
        assert_eq!(
            error.line(),
            "`--kubernetes` needs the feature `kubernetes`, and this weir was built without it"
        );
    }
}
