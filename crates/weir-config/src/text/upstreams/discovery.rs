//! `discovery` of an upstream and `[discovery]` in the text.

use std::time::Duration;

use crate::config::SourceUrl;
use crate::key::{Map, OneOrMany, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::text::routing::route::is_host_with_port;
use crate::value::{ServerAddress, ValueError};

section! {
    /// Where the servers come from, in place of `servers`: exactly one of `file`, `dns`, `srv`, `consul`, `etcd`, `cds` and `eds`. The source is
    /// followed while Weir runs; its last known servers stay when it does not answer. See [docs/discovery.md](discovery.md).
    #[derive(Debug, Clone)]
    pub(crate) struct UpstreamDiscoveryText at "upstream.NAME.discovery" {
        /// A file with the servers, in TOML or JSON, or in the format `file_sd` of Prometheus. It is read again when it changes; a file with a
        /// mistake changes nothing.
        file: Spanned<Box<str>> = optional, like "Traefik `providers.file`";
        /// A name and a port: every address (A, AAAA) of the name is a server. Without it, a name in `servers` is one server with several
        /// addresses.
        dns: Spanned<ServerAddress> = optional, like "nginx `resolve`, HAProxy `server-template`, Envoy `STRICT_DNS`";
        /// A name with SRV records (RFC 2782), which have ports, weights and priorities: the lowest priority gets the requests, all others are
        /// backups.
        srv: Spanned<Box<str>> = optional, like "nginx `service=`";
        /// The name of a service in the catalog of Consul (`discovery.consul`). Instances with a critical check are left out.
        consul: Spanned<Box<str>> = optional, like "Traefik `providers.consulCatalog`";
        /// Tags that an instance of the service in Consul must have, all of them.
        tags: OneOrMany<Spanned<Box<str>>> = optional;
        /// The datacenter of the service in Consul. Without it, that of the agent.
        datacenter: Spanned<Box<str>> = optional;
        /// An expression of Consul that instances must fulfil, such as `Service.Meta.version == "2"`. Consul evaluates it.
        filter: Spanned<Box<str>> = optional, like "Consul `filter=`";
        /// How many instances in Consul get requests: the nearest to its agent, by the round trip times that Consul measures. The others are
        /// backups. Without it, all get requests.
        nearest: u16 = optional, in 1..=10_000, like "Consul `near=_agent`";
        /// A prefix of keys in etcd (`discovery.etcd`): each key below it is a server, in the layout of etcd's own package `naming/endpoints`.
        etcd: Spanned<Box<str>> = optional;
        /// The name of a cluster in the control plane (`discovery.xds`), whose servers are those of its endpoints. Needs the feature `xds`.
        cds: Spanned<Box<str>> = optional, like "Envoy `cds_config`";
        /// The name of a set of endpoints (`ClusterLoadAssignment`) in the control plane (`discovery.xds`), for control planes that have no
        /// clusters. Needs the feature `xds`.
        eds: Spanned<Box<str>> = optional, like "Envoy `eds_cluster_config.service_name`";
    }
}

section! {
    /// What the sources of servers share. Upstreams name their source in `discovery`.
    #[derive(Debug, Clone)]
    pub(crate) struct DiscoveryText at "discovery" {
        /// How long a source must return an empty list before the upstream loses its servers. An empty answer is more often a fault of the
        /// source, such as a registry that is restarting, than an intended change.
        empty_grace: Duration = "30s", in 0..=86_400_000;
        /// A file in which the last known servers are kept, and the last known addresses of the names in `servers`, so that a start does not depend on a
        /// source or on DNS that is away. Weir writes it; its folder must exist. Without it, they are kept in memory only.
        state_file: Spanned<Box<str>> = optional, like "HAProxy `server-state-file`, nginx `state`";
        /// Consul, for upstreams with `discovery = { consul = ... }`.
        consul: SpannedTable<ConsulText> = {};
        /// etcd, for upstreams with `discovery = { etcd = ... }`.
        etcd: SpannedTable<EtcdText> = {};
        /// The control plane, for upstreams with `discovery = { cds = ... }` or `discovery = { eds = ... }`. Needs the feature `xds`.
        xds: SpannedTable<XdsText> = {};
    }
}

section! {
    /// The agent of Consul that is asked, with blocking queries.
    #[derive(Debug, Clone)]
    pub(crate) struct ConsulText at "discovery.consul" {
        /// The URL of its HTTP API.
        url: Spanned<SourceUrl> = optional, like "Traefik `providers.consulCatalog.endpoint`";
        /// A file with the token (ACL) on its only line; it needs `service:read` and `node:read`. Read at start and on reload.
        token_file: Spanned<Box<str>> = optional, like "Traefik `endpoint.token`";
        /// A PEM file with the authorities for the certificate of the agent. Without it, those of the system.
        ca: Spanned<Box<str>> = optional, like "Traefik `endpoint.tls.ca`, `CONSUL_CACERT`";
        /// A PEM file with the certificate that Weir presents to an agent that requests one, followed by its intermediates. Read at start and
        /// on reload.
        certificate: Spanned<Box<str>> = optional, like "Traefik `endpoint.tls.cert`, `CONSUL_CLIENT_CERT`";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "Traefik `endpoint.tls.key`, `CONSUL_CLIENT_KEY`";
    }
}

section! {
    /// The members of etcd that are asked, by version 3 of its API as JSON.
    #[derive(Debug, Clone)]
    pub(crate) struct EtcdText at "discovery.etcd" {
        /// The URLs of the members for clients, one or a list: when one does not answer, the next is asked.
        url: OneOrMany<Spanned<SourceUrl>> = optional, like "Traefik `providers.etcd.endpoints`";
        /// The user, if etcd wants one.
        user: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.username`";
        /// A file with the password of the user on its only line.
        password_file: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.password`";
        /// A PEM file with the authorities for the certificates of the members. Without it, those of the system.
        ca: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.tls.ca`, etcdctl `--cacert`";
        /// A PEM file with the certificate that Weir presents to members that request one, followed by its intermediates. Read at start and on
        /// reload.
        certificate: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.tls.cert`, etcdctl `--cert`";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "Traefik `providers.etcd.tls.key`, etcdctl `--key`";
    }
}

section! {
    /// The control plane that is asked by xDS, version 3, over one stream of gRPC for all upstreams: `DeltaAggregatedResources`.
    #[derive(Debug, Clone)]
    pub(crate) struct XdsText at "discovery.xds" {
        /// The URLs of the control plane, one or a list: when one does not answer, the next is asked.
        url: OneOrMany<Spanned<SourceUrl>> = optional, like "Envoy `ads_config.grpc_services`";
        /// How this Weir calls itself. Without it, the name of the host.
        node: Spanned<Box<str>> = optional, like "Envoy `node.id`";
        /// The cluster of the node: a control plane may have other resources for each.
        node_cluster: Spanned<Box<str>> = "weir", like "Envoy `node.cluster`";
        /// Further words about the node that the control plane wants.
        node_metadata: Map<Spanned<Box<str>>> = {}, like "Envoy `node.metadata`";
        /// The region of the node, a part of its locality.
        region: Spanned<Box<str>> = optional, like "Envoy `node.locality.region`";
        /// The zone of the node, a part of its locality.
        zone: Spanned<Box<str>> = optional, like "Envoy `node.locality.zone`";
        /// The part of the zone, a part of the locality of the node.
        sub_zone: Spanned<Box<str>> = optional, like "Envoy `node.locality.sub_zone`";
        /// A file with a token on its only line, which is sent as `Authorization: Bearer`. Read at start and on reload.
        token_file: Spanned<Box<str>> = optional;
        /// A PEM file with the authorities for the certificate of the control plane. Without it, those of the system.
        ca: Spanned<Box<str>> = optional, like "Envoy `trusted_ca`";
        /// A PEM file with the certificate that Weir presents to a control plane that requests one, followed by its intermediates. Read at
        /// start and on reload.
        certificate: Spanned<Box<str>> = optional, like "Envoy `certificate_chain`";
        /// A PEM file with the private key of `certificate`. It may be the same file.
        key: Spanned<Box<str>> = optional, like "Envoy `private_key`";
        /// How long the control plane may take to name a resource that it was asked for, before that counts as a failure of the source. A
        /// control plane says nothing of what it does not have.
        answer_timeout: Duration = "15s", in 100..=600_000, like "Envoy `initial_fetch_timeout`";
    }
}

text_values! {
    SourceUrl, parse_url, |value: &SourceUrl| value.to_string(), TextFormat {
        name: "source URL",
        article: "the URL of a source",
        examples: &["http://127.0.0.1:8500", "https://consul.example.com:8501"],
        pattern: r#"^https?://[^/\s@?#"<>]+/?$"#,
        about: "An `http` or `https` URL with a host and a port, without a path.",
    };
}

fn parse_url(text: &str) -> Result<SourceUrl, ValueError> {
    let refused = |message: &str, help: &str| Err(ValueError::new(format!("`{text}` {message}")).help(help));
    let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => {
            let help = "write for example `http://127.0.0.1:8500`";
            return refused("begins with neither `http://` nor `https://`", help);
        }
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains('@') {
        return refused("holds credentials", "name a file with them: `token_file`, `password_file`");
    }
    if authority.contains(['/', '?', '#']) {
        return refused("has a path", "write scheme, host and port only");
    }
    if !is_host_with_port(authority) {
        return refused("has no host", "write for example `http://127.0.0.1:8500`");
    }
    Ok(SourceUrl { is_tls, authority: authority.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_printed() {
        for (text, printed) in [
            ("http://127.0.0.1:8500", "http://127.0.0.1:8500"),
            ("https://consul.example.com/", "https://consul.example.com"),
            ("http://[::1]:2379", "http://[::1]:2379"),
        ] {
            assert_eq!(parse_url(text).unwrap().to_string(), printed);
        }
        for text in
            ["", "127.0.0.1:8500", "http://", "http://a/v1", "http://u:p@a", "http://a:99999", "http://a b"]
        {
            assert!(parse_url(text).is_err(), "{text:?}");
        }
    }
}
