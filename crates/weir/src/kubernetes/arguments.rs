//! The options of `weir serve` for Kubernetes, and how those of the controller are read as well.
//!
//! The command line is the same in every build. The client of Kubernetes needs the feature `kubernetes`; without it the command names the
//! feature.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use crate::error::CommandError;

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
        value_parser = parse_controller,
        requires = "kubernetes",
        help_heading = "Kubernetes"
    )]
    pub(crate) controller_name: String,
    /// Watch this namespace only. Can be given several times.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace, requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) watch_namespace: Vec<String>,
    /// An address or name by which clients reach the Gateways, for their status. Can be given several times.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address, requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) gateway_address: Vec<String>,
    /// The Service in front of this process: its addresses are those of the Gateways, for their status.
    #[arg(long, value_name = "NAMESPACE/SERVICE", requires = "kubernetes", value_parser = parse_key, help_heading = "Kubernetes")]
    pub(crate) publish_service: Option<(String, String)>,
    /// Read Secrets of this namespace only. Can be given several times.
    #[arg(long, value_name = "NAMESPACE", value_parser = parse_namespace, requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) secrets_namespace: Vec<String>,
    /// The address at which the listeners of Gateways accept connections; without it, all of the machine.
    #[arg(long, value_name = "IP", requires = "kubernetes", help_heading = "Kubernetes")]
    pub(crate) bind: Option<IpAddr>,
    /// Ingresses of the IngressClasses with this `controller` are served; `off`: none are.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "weir.dev/ingress",
        value_parser = parse_ingress_controller,
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
    /// A ConfigMap like that of ingress-nginx, with settings for all Ingresses: `hsts`, `hsts-max-age`, `hsts-include-subdomains` and `hsts-preload`.
    #[arg(long, value_name = "NAMESPACE/CONFIGMAP", requires = "kubernetes", value_parser = parse_key, help_heading = "Kubernetes")]
    pub(crate) ingress_config_map: Option<(String, String)>,
    /// The Lease whose holder writes statuses, or `off`: this process writes none. By default in the namespace of the pod, `weir`, `weir-ingress` or `weir-GATEWAY`.
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "kubernetes", value_parser = parse_lease, help_heading = "Kubernetes")]
    pub(crate) lease: Option<LeaseChoice>,
}

impl KubernetesArguments {
    /// What the options together cannot mean, and what to do.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        let refused =
            |what: String, help: &str| Err(CommandError::Usage { what, help: Some(help.to_owned()) });
        let has_ingresses = match &self.kubernetes {
            None => return Ok(()),
            Some(ServedObjects::Ingresses) if self.ingress_controller == NO_CONTROLLER => {
                let what = "`--kubernetes=ingress` with `--ingress-controller off` serves nothing";
                let help = "name the controller of the IngressClasses, or leave the option out";
                return refused(what.to_owned(), help);
            }
            Some(ServedObjects::Gateway(namespace, _)) => {
                if !(self.watch_namespace.is_empty() || self.watch_namespace.contains(namespace)) {
                    let what = format!(
                        "`--watch-namespace` leaves out `{namespace}`, where the Gateway of `--kubernetes` is"
                    );
                    return refused(what, "add `--watch-namespace` for the namespace of the Gateway");
                }
                false
            }
            Some(ServedObjects::All | ServedObjects::Ingresses) => self.ingress_controller != NO_CONTROLLER,
        };
        if has_ingresses && self.ingress_http_port == self.ingress_https_port {
            let port = self.ingress_http_port;
            let what = format!("`--ingress-http-port` and `--ingress-https-port` are both {port}");
            return refused(what, "give each a port of its own");
        }
        Ok(())
    }
}

/// Stands for no controller of Ingresses.
const NO_CONTROLLER: &str = "off";

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

/// The name of a controller as classes have it: a domain and a path.
pub(crate) fn parse_controller(text: &str) -> Result<String, String> {
    let is_name = |(domain, path): (&str, &str)| {
        is_dns_name(domain) && !path.is_empty() && path.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match text.split_once('/').filter(|parts| is_name(*parts)) {
        Some(_) => Ok(text.to_owned()),
        None => Err("it must be a domain and a path, such as `weir.dev/gateway`".to_owned()),
    }
}

fn parse_ingress_controller(text: &str) -> Result<String, String> {
    match text {
        NO_CONTROLLER => Ok(text.to_owned()),
        text => parse_controller(text),
    }
}

fn parse_namespace(text: &str) -> Result<String, String> {
    match is_dns_name(text) && text.len() <= 63 && !text.contains('.') {
        true => Ok(text.to_owned()),
        false => Err("it must be the name of a namespace, such as `default`".to_owned()),
    }
}

/// An address or a name as the status of a Gateway can have it.
fn parse_address(text: &str) -> Result<String, String> {
    // What has digits and dots alone is an address, or a mistake.
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    match text.parse::<IpAddr>().is_ok() || is_dns_name(text) && !is_number {
        true => Ok(text.to_owned()),
        false => Err("it must be an IP address or a name in lower case, without a port".to_owned()),
    }
}

/// Whether it is a name of DNS in lower case.
fn is_dns_name(text: &str) -> bool {
    let is_label = |label: &str| {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        (1..=63).contains(&label.len())
            && label.bytes().all(is_allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
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
    use clap::FromArgMatches as _;

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

    fn parsed(arguments: &[&str]) -> Result<KubernetesArguments, String> {
        let command = KubernetesArguments::augment_args(clap::Command::new("serve"));
        let others = ["listen", "to"].map(|name| clap::Arg::new(name).long(name));
        let command = command.args(others);
        let matches = command.try_get_matches_from(["serve"].iter().chain(arguments));
        let matches = matches.map_err(|error| error.to_string())?;
        let parsed = KubernetesArguments::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        parsed.check().map_err(|error| error.line())?;
        Ok(parsed)
    }

    #[test]
    fn options_that_cannot_be_meant_are_refused() {
        for (arguments, cause) in [
            (&["--kubernetes=ingress", "--ingress-controller=off"][..], "serves nothing"),
            (&["--kubernetes=infra/gw", "--watch-namespace=alice"], "leaves out `infra`"),
            (&["--kubernetes", "--ingress-http-port=80", "--ingress-https-port=80"], "are both 80"),
            (&["--kubernetes", "--controller-name="], "a domain and a path"),
            (&["--kubernetes", "--controller-name=weir"], "a domain and a path"),
            (&["--kubernetes", "--ingress-controller="], "a domain and a path"),
            (&["--kubernetes", "--watch-namespace="], "name of a namespace"),
            (&["--kubernetes", "--secrets-namespace=a/b"], "name of a namespace"),
            (&["--kubernetes", "--gateway-address=1.2.3"], "an IP address"),
            (&["--kubernetes", "--gateway-address=192.0.2.1:80"], "an IP address"),
            (&["--kubernetes", "--gateway-address=http://a.test"], "an IP address"),
        ] {
            let error = parsed(arguments).map(drop).expect_err("it is refused");
            assert!(error.contains(cause), "{arguments:?}: {error}");
        }
        for arguments in [
            &["--kubernetes=infra/gw", "--watch-namespace=alice", "--watch-namespace=infra"][..],
            &["--kubernetes", "--ingress-controller=off", "--ingress-http-port=443"],
            &["--kubernetes=ingress", "--ingress-controller=k8s.io/ingress-nginx"],
            &["--kubernetes", "--gateway-address=2001:db8::1", "--gateway-address=lb.example.net"],
        ] {
            assert!(parsed(arguments).is_ok(), "{arguments:?}: {:?}", parsed(arguments).err());
        }
    }
}
