//! `weir kubernetes controller`: a Deployment for each Gateway of a Kubernetes cluster.
//!
//! The command line is the same in every build. The client of Kubernetes needs the feature `kubernetes`; without it the command names the
//! feature.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::kubernetes::arguments::{LeaseChoice, parse_controller, parse_lease};

const EXAMPLES: &str = "\
Examples:
  weir kubernetes controller --image registry.example/weir:0.2.0
  weir kubernetes controller --image registry.example/weir:0.2.0 --image-pull-secret registry";

const EXIT_CODES: &str = "\
Exit codes:
  0  stopped by a signal
  1  no API server is known
  2  the command line cannot be used";

/// Run Weir in Kubernetes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ClusterArguments {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClusterCommand {
    Controller(ControllerArguments),
}

/// Keep a Deployment, a Service and what belongs to them for each Gateway, in its namespace.
///
/// Several can run: one works, another one takes over when it ends.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ControllerArguments {
    /// The image of the pods.
    #[arg(long)]
    image: String,
    /// The Secret with which the image is pulled, in the namespace of each Gateway. Can be given several times.
    #[arg(long, value_name = "NAME")]
    image_pull_secret: Vec<String>,
    /// GatewayClasses with this `controllerName` are served.
    #[arg(long, value_name = "NAME", default_value = "weir.dev/gateway", value_parser = parse_controller)]
    controller_name: String,
    /// The ClusterRole that the account of a Gateway has in its own namespace: Secrets and Leases.
    #[arg(long, value_name = "NAME", default_value = "weir-gateway-namespace")]
    namespace_role: String,
    /// The ClusterRoleBinding that lets the accounts of all Gateways read routes and services. It must exist; the controller keeps its subjects.
    #[arg(long, value_name = "NAME", default_value = "weir-gateway")]
    accounts_binding: String,
    /// Let the pods read the Secrets of all namespaces, for listeners whose certificates are in other namespaces. Their ClusterRole must permit it.
    #[arg(long)]
    all_secrets: bool,
    /// Make a NetworkPolicy for each Gateway: its ports are open, its admin listener to pods of the cluster alone. The role of the controller must permit it.
    #[arg(long)]
    network_policies: bool,
    /// How the API server is found. Without it: by `KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The Lease whose holder works, where several controllers run, or `off`: this one works. By default `weir-controller` in the namespace of the pod.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_lease)]
    lease: Option<LeaseChoice>,
}

#[cfg(feature = "kubernetes")]
pub(crate) fn run(arguments: &ClusterArguments) -> Result<ExitCode, CommandError> {
    use tokio::signal::unix::{SignalKind, signal};
    use weir_kubernetes::controller::{self, ControllerSettings, GatewayPods};

    let ClusterCommand::Controller(arguments) = &arguments.command;
    crate::log::start(&weir_config::LogSettings::default());
    weir_control::watch_panics();
    let settings = ControllerSettings {
        pods: GatewayPods {
            controller_name: arguments.controller_name.as_str().into(),
            image: arguments.image.as_str().into(),
            pull_secrets: arguments.image_pull_secret.iter().map(|name| name.as_str().into()).collect(),
            namespace_role: arguments.namespace_role.as_str().into(),
            has_all_secrets: arguments.all_secrets,
            has_network_policies: arguments.network_policies,
        },
        accounts_binding: arguments.accounts_binding.as_str().into(),
        kubeconfig: arguments.kubeconfig.clone(),
        election: crate::kubernetes::election::election(arguments.lease.as_ref(), "weir-controller"),
    };
    let failed = |error: anyhow::Error| CommandError::Failed { error, help: None };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| failed(error.into()))?;
    runtime.block_on(async {
        let stopping = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
        let [Ok(mut terminated), Ok(mut interrupted)] = stopping else {
            return Err(failed(anyhow::anyhow!("signals cannot be received")));
        };
        let stop = async {
            tokio::select! { _ = terminated.recv() => {}, _ = interrupted.recv() => {} }
        };
        controller::run(settings, stop).await.map_err(|error| failed(error.into()))
    })?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(not(feature = "kubernetes"))]
pub(crate) fn run(_: &ClusterArguments) -> Result<ExitCode, CommandError> {
    Err(CommandError::without_feature("`weir kubernetes controller`", crate::features::KUBERNETES))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use crate::command_line::CommandLine;

    const MANIFESTS: &str = include_str!("../../../../packaging/kubernetes/weir.yaml");

    #[test]
    fn the_manifests_start_a_controller_that_understands_its_options() {
        let after = MANIFESTS.split("args:\n").nth(1).expect("a container with arguments");
        let arguments: Vec<&str> = after.lines().map_while(|line| line.trim().strip_prefix("- ")).collect();
        assert!(arguments.contains(&"controller"), "{arguments:?}");
        if let Err(error) = CommandLine::try_parse_from(std::iter::once("weir").chain(arguments)) {
            panic!("{error}");
        }
    }
}
