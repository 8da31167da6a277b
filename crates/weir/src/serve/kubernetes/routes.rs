//! Routes and servers of Kubernetes, from the thread that follows the API server to the running proxy.

use std::path::PathBuf;

use anyhow::Context as _;
use weir_config::{CheckedConfig, Config, Diagnostics};
use weir_control::{NewNames, Proxy, RoutesElsewhere, RoutesUpdate, ServerChanges};
use weir_kubernetes::{
    ChangeRefusal, ClusterReport, GatewaySettings, IngressSettings, KubernetesChange, KubernetesSource,
    KubernetesUpdate, ObjectKey, SourceSettings, UpdateSender,
};
use weir_observe::overview::{RefusedFragment, RoutesFromOverview};

use crate::error::CommandError;
use crate::features;
use crate::kubernetes::arguments::{KubernetesArguments, ServedObjects};
use crate::kubernetes::election::election;
use crate::start::{self, Origin};

/// What is beside listeners and upstreams where no file says so. Endpoints of a Service are taken out everywhere within the delay.
const DEFAULT_BASE: &str = "\
[process]
stop_delay = \"10s\"

[admin]
address = \"0.0.0.0:9000\"
";

const BASE_HELP: &str = "remove it: with `--kubernetes`, the objects of the cluster say this";

/// Tables that the file may not have: Kubernetes says this.
const FORBIDDEN: [&str; 3] = ["listener", "upstream", "routes_from"];

/// The routes of a cluster.
pub(crate) struct KubernetesRoutes {
    arguments: KubernetesArguments,
    served: ServedObjects,
    /// What is beside the routes, if any.
    file: Option<PathBuf>,
    source: Option<KubernetesSource>,
}

impl KubernetesRoutes {
    /// Nothing without `--kubernetes`.
    pub(crate) fn prepare(
        arguments: &KubernetesArguments,
        file: Option<PathBuf>,
    ) -> Result<Option<Self>, CommandError> {
        arguments.check()?;
        let served = arguments.kubernetes.clone();
        Ok(served.map(|served| Self { arguments: arguments.clone(), served, file, source: None }))
    }

    /// Reads what is beside listeners, routes and upstreams.
    pub(crate) fn read_base(&self) -> Result<(Config, Diagnostics), CommandError> {
        let checked = match self.file.as_deref() {
            None => CheckedConfig::parse_base(DEFAULT_BASE, "defaults of --kubernetes"),
            Some(path) if self.arguments.restricted_config => CheckedConfig::load_restricted(path),
            Some(path) => CheckedConfig::load_base(path),
        };
        let checked = FORBIDDEN.iter().fold(features::check(checked), |checked, table| {
            let message = format!("`{table}` has no place in the config of `weir serve --kubernetes`");
            checked.reject_table(table, message, BASE_HELP)
        });
        match checked.config {
            Some(config) => Ok((config, checked.diagnostics)),
            None => Err(CommandError::Config(checked.diagnostics)),
        }
    }

    /// Begins to follow the API server.
    pub(crate) fn start(
        &mut self,
        base: &Config,
        send: impl Fn(RoutesUpdate) -> bool + Send + Sync + 'static,
    ) -> Result<(), CommandError> {
        let updates = UpdateSender::new(move |update| send(Box::new(|proxy| apply(update, proxy))));
        let source = KubernetesSource::start(self.settings(base), updates)
            .context("the API server of Kubernetes cannot be followed")
            .map_err(|error| CommandError::Failed { error, help: None })?;
        self.source = Some(source);
        Ok(())
    }

    /// How Ingresses are served: not by a process that serves one Gateway.
    fn ingress(&self) -> Option<IngressSettings> {
        let arguments = &self.arguments;
        let is_served =
            !matches!(self.served, ServedObjects::Gateway(..)) && arguments.ingress_controller != "off";
        is_served.then(|| IngressSettings {
            controller_name: arguments.ingress_controller.as_str().into(),
            http_port: arguments.ingress_http_port,
            https_port: arguments.ingress_https_port,
            default_certificate: arguments
                .default_certificate
                .as_ref()
                .map(|(namespace, name)| ObjectKey::new(namespace, name)),
            config_map: arguments
                .ingress_config_map
                .as_ref()
                .map(|(namespace, name)| ObjectKey::new(namespace, name)),
        })
    }

    fn settings(&self, base: &Config) -> SourceSettings {
        let arguments = &self.arguments;
        let served = match &self.served {
            ServedObjects::Gateway(namespace, name) => Some(ObjectKey::new(namespace, name)),
            ServedObjects::All | ServedObjects::Ingresses => None,
        };
        let name = match &self.served {
            ServedObjects::All => "weir".to_owned(),
            ServedObjects::Ingresses => "weir-ingress".to_owned(),
            ServedObjects::Gateway(_, name) => format!("weir-{name}"),
        };
        let election = election(arguments.lease.as_ref(), &name);
        SourceSettings {
            gateway: GatewaySettings {
                controller_name: arguments.controller_name.as_str().into(),
                has_own_pods: served.is_some(),
                ingress: self.ingress(),
                served,
                bind: arguments.bind,
                published_service: arguments
                    .publish_service
                    .as_ref()
                    .map(|(namespace, name)| ObjectKey::new(namespace, name)),
                system_authorities: weir_config::Authorities::of_system().ok(),
                base: base.clone(),
                ..GatewaySettings::default()
            },
            gateways: self.served != ServedObjects::Ingresses,
            addresses: arguments.gateway_address.iter().map(|text| text.as_str().into()).collect(),
            kubeconfig: arguments.kubeconfig.clone(),
            namespaces: arguments.watch_namespace.iter().map(|name| name.as_str().into()).collect(),
            secrets_namespaces: arguments.secrets_namespace.iter().map(|name| name.as_str().into()).collect(),
            election,
        }
    }
}

impl RoutesElsewhere for KubernetesRoutes {
    fn reload(&self) -> Result<Config, Vec<String>> {
        let (config, _warnings) = self.read_base().map_err(|error| {
            let lines: Vec<String> = error.line().lines().map(str::to_owned).collect();
            lines.iter().for_each(|line| tracing::error!("{line}"));
            tracing::error!("the config was not reloaded: the previous one stays in use");
            lines
        })?;
        if let Some(source) = &self.source {
            source.set_base(config.clone());
        }
        Ok(config)
    }

    fn none_known(&self) -> &'static str {
        "no route of the cluster is known: the API server has not answered"
    }

    fn no_upgrade(&self) -> &'static str {
        "with `--kubernetes`, replace the pod: a rolling update serves without a gap"
    }

    /// Lets another process write statuses, too.
    fn stop(self: Box<Self>) {
        drop(self.source);
    }
}

/// Has the proxy go over to it, and tells the outcome; whether it went well.
fn apply(update: KubernetesUpdate, proxy: &mut Proxy) -> bool {
    let KubernetesUpdate { change, outcome } = update;
    let result = match change {
        KubernetesChange::Config { config, is_whole } => {
            let applied = apply_config(proxy, &config);
            if applied.is_ok() {
                proxy.set_lacks_listeners(!is_whole);
            }
            applied
        }
        KubernetesChange::Servers(sets) => {
            let changes =
                sets.into_iter().map(|(upstream, servers)| ServerChanges { upstream, servers }).collect();
            proxy.set_servers(changes).map(drop).map_err(|error| ChangeRefusal::new(error.to_string()))
        }
        KubernetesChange::Report(report) => {
            // Routes are awaited still.
            proxy.show_routes_from(vec![shown(*report)]);
            return false;
        }
    };
    let is_applied = result.is_ok();
    let _ending = outcome.send(result);
    is_applied
}

/// The state of the source, for the page, metrics and `/api/overview`.
fn shown(report: ClusterReport) -> RoutesFromOverview {
    let millis = |at: Option<i64>| at.and_then(|at| u64::try_from(at).ok());
    let refused = |key: String, why: Box<str>| RefusedFragment { key, errors: vec![why.into()] };
    let whole = report.refusal.into_iter().map(|why| refused("of all objects".to_owned(), why));
    let held = report.held_back.into_iter().map(|(owner, why)| refused(owner.into(), why));
    RoutesFromOverview {
        name: "kubernetes".to_owned(),
        store: "the API server of Kubernetes".to_owned(),
        said_at_ms: millis(report.heard_at_ms),
        lost_at_ms: millis(report.lost_at_ms),
        problem: report.problem.map(Into::into),
        missing: report.absent.into_iter().map(Into::into).collect(),
        keys: Vec::new(),
        refused: whole.chain(held).collect(),
    }
}

fn apply_config(proxy: &mut Proxy, config: &Config) -> Result<(), ChangeRefusal> {
    let before = proxy.bound_listeners();
    match proxy.reload(config, NewNames::MayComeLater) {
        Ok(reloaded) => {
            for key in &reloaded.needs_restart {
                tracing::warn!(key, "a change of this key holds only after a restart");
            }
            for listened in proxy.bound_listeners().iter().filter(|listened| !before.contains(listened)) {
                start::tell_listening(listened);
            }
            tracing::debug!(generation = reloaded.generation, "routes of Kubernetes took effect");
            Ok(())
        }
        Err(error) => {
            let help = start::help(&error, Origin::Kubernetes).map(|help| format!(" ({help})"));
            let why = format!("{error}{}", help.unwrap_or_default());
            let listener = error.listener().map(Into::into);
            tracing::debug!(why, "a configuration of Kubernetes was refused");
            Err(ChangeRefusal { why, listener })
        }
    }
}
