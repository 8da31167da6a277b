//! In the place of the client of Kubernetes, in a build without it.

use std::convert::Infallible;
use std::path::PathBuf;

use weir_config::{Config, Diagnostics};
use weir_control::{RoutesElsewhere, RoutesUpdate};

use crate::error::CommandError;
use crate::features::KUBERNETES;
use crate::kubernetes::arguments::KubernetesArguments;

/// Does not exist.
pub(crate) struct AbsentRoutes(Infallible);

impl AbsentRoutes {
    /// Nothing without `--kubernetes`, else an error.
    pub(crate) fn prepare(
        arguments: &KubernetesArguments,
        _file: Option<PathBuf>,
    ) -> Result<Option<Self>, CommandError> {
        arguments.check()?;
        match arguments.kubernetes {
            None => Ok(None),
            Some(_) => Err(CommandError::without_feature("`--kubernetes`", KUBERNETES)),
        }
    }

    pub(crate) fn read_base(&self) -> Result<(Config, Diagnostics), CommandError> {
        match self.0 {}
    }

    pub(crate) fn start(
        &mut self,
        _base: &Config,
        _send: impl Fn(RoutesUpdate) -> bool + Send + Sync + 'static,
    ) -> Result<(), CommandError> {
        match self.0 {}
    }
}

impl RoutesElsewhere for AbsentRoutes {
    fn reload(&self) -> Result<Config, Vec<String>> {
        match self.0 {}
    }

    fn none_known(&self) -> &'static str {
        match self.0 {}
    }

    fn no_upgrade(&self) -> &'static str {
        match self.0 {}
    }

    fn stop(self: Box<Self>) {
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
