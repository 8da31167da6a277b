//! `weir serve --kubernetes`: routes and servers come from the API server of a cluster.
//!
//! The command line is the same in every build. The client of Kubernetes needs the feature `kubernetes`; without it the command names the
//! feature.

#[cfg(feature = "kubernetes")]
mod routes;
#[cfg(not(feature = "kubernetes"))]
mod left_out;

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

#[cfg(not(feature = "kubernetes"))]
pub(crate) use left_out::AbsentRoutes as KubernetesRoutes;
#[cfg(feature = "kubernetes")]
pub(crate) use routes::{KubernetesRoutes, election};

/// The options of `weir serve --kubernetes`.
#[derive(Debug, Clone, Args)]
pub(crate) struct KubernetesArguments {
    /// Serve a Kubernetes cluster: the Gateways and Ingresses of the classes of Weir, one Gateway, or with `ingress` the Ingresses alone. The file
    /// then has only what is beside listeners, routes and upstreams; without a file, the admin listener is at port 9000 of all addresses, and a stop takes 10 s in which `/ready` fails.
    #[arg(
        long,
        value_name = "NAMESPACE/GATEWAY|ingress",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        value_parser = parse_served,
        conflicts_with_all = ["listen", "to"],
        help_heading = "Kubernetes"
    )]
    pub(crate) kubernetes: Option<ServedObjects>,
    /// How the API server is found. Without it: by `KUBECONFIG`, `~/.kube/config` or the service account of the pod.
    #[arg(long, value_name = "FILE", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The file may set only what the `config` of a Gateway's parameters may: no files, no socket files, no variables of the environment.
    #[arg(long, requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) restricted_config: bool,
    /// GatewayClasses with this `controllerName` are served.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "weir.dev/gateway",
        requires = "kubernetes",
        help_heading = "Kubernetes"
    )]
    pub(crate) controller_name: String,
    /// Watch this namespace only. Can be given several times.
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) watch_namespace: Vec<String>,
    /// An address or name by which clients reach the Gateways, for their status. Can be given several times.
    #[arg(long, value_name = "ADDRESS", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) gateway_address: Vec<String>,
    /// The Service in front of this process: its addresses are those of the Gateways, for their status.
    #[arg(long, value_name = "NAMESPACE/SERVICE", requires = "kubernetes", value_parser = parse_key, help_heading = "Kubernetes")]
    pub(crate) publish_service: Option<(String, String)>,
    /// Read Secrets of this namespace only. Can be given several times.
    #[arg(long, value_name = "NAMESPACE", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) secrets_namespace: Vec<String>,
    /// The address at which the listeners of Gateways accept connections; without it, all of the machine.
    #[arg(long, value_name = "IP", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) bind: Option<IpAddr>,
    /// Ingresses of the IngressClasses with this `controller` are served; `off`: none are.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "weir.dev/ingress",
        requires = "kubernetes",
        help_heading = "Kubernetes"
    )]
    pub(crate) ingress_controller: String,
    /// The port of Ingresses without TLS.
    #[arg(long, value_name = "PORT", default_value_t = 80, value_parser = clap::value_parser!(u16).range(1..), requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) ingress_http_port: u16,
    /// The port of Ingresses with TLS. It is open when there is a certificate.
    #[arg(long, value_name = "PORT", default_value_t = 443, value_parser = clap::value_parser!(u16).range(1..), requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) ingress_https_port: u16,
    /// The Secret with the certificate for hosts of Ingresses that have none of their own.
    #[arg(long, value_name = "NAMESPACE/SECRET", requires = "kubernetes", value_parser = parse_key, help_heading = "Kubernetes")]
    pub(crate) default_certificate: Option<(String, String)>,
    /// The Lease whose holder writes statuses, or `off`: this process writes none. By default in the namespace of the pod, `weir`, `weir-ingress` or `weir-GATEWAY`.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "kubernetes", value_parser = parse_lease, help_heading = "Kubernetes")]
    pub(crate) lease: Option<LeaseChoice>,
}

/// What is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ServedObjects {
    /// All Gateways and Ingresses of the classes of Weir.
    All,
    /// Ingresses, and no Gateways.
    Ingresses,
    /// The Gateway of this namespace and name, and no Ingresses.
    Gateway(String, String),
}

/// Which Lease decides about the writer of statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeaseChoice {
    /// This process writes none.
    Off,
    /// The Lease of this namespace and name.
    At(String, String),
}

fn parse_served(text: &str) -> Result<ServedObjects, String> {
    match text {
        "" => Ok(ServedObjects::All),
        "ingress" => Ok(ServedObjects::Ingresses),
        text => parse_key(text).map(|(namespace, name)| ServedObjects::Gateway(namespace, name)),
    }
}

pub(crate) fn parse_lease(text: &str) -> Result<LeaseChoice, String> {
    if text == "off" {
        return Ok(LeaseChoice::Off);
    }
    parse_key(text).map(|(namespace, name)| LeaseChoice::At(namespace, name))
}

fn parse_key(text: &str) -> Result<(String, String), String> {
    let is_name = |name: &str| {
        let is_allowed =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        !name.is_empty() && name.len() <= 253 && name.bytes().all(is_allowed)
    };
    match text.split_once('/') {
        Some((namespace, name)) if is_name(namespace) && is_name(name) => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("it must be a namespace and a name of Kubernetes, such as `default/web`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_has_a_namespace_and_a_name() {
        assert_eq!(parse_served(""), Ok(ServedObjects::All));
        assert_eq!(parse_served("ingress"), Ok(ServedObjects::Ingresses));
        let served = ServedObjects::Gateway("infra".to_owned(), "web".to_owned());
        assert_eq!(parse_served("infra/web"), Ok(served));
        for wrong in ["web", "/web", "infra/", "a/b/c", "Infra/web"] {
            assert!(parse_served(wrong).is_err_and(|why| why.contains("default/web")), "{wrong}");
        }
        assert_eq!(parse_lease("off"), Ok(LeaseChoice::Off));
        assert_eq!(parse_lease("infra/weir"), Ok(LeaseChoice::At("infra".to_owned(), "weir".to_owned())));
    }
}
