//! Where the servers of an upstream come from when the text does not list them: `discovery` of an upstream, and `[discovery]`, which has
//! what all sources share.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::certificate::{Authorities, LoadedCertificate};

/// What all sources share.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DiscoverySettings {
    /// How long a source must name no server at all before that is believed.
    pub empty_grace: Duration,
    /// Where the last known servers are kept over a restart; `None`: nowhere.
    pub state_file: Option<PathBuf>,
    /// Where Consul answers.
    pub consul: ConsulAgent,
    /// Where etcd answers.
    pub etcd: EtcdCluster,
    /// Where the control plane answers.
    pub xds: XdsControlPlane,
}

impl Default for DiscoverySettings {
    fn default() -> Self {
        let local = |port: u16| SourceUrl { is_tls: false, authority: format!("127.0.0.1:{port}").into() };
        Self {
            empty_grace: Duration::from_secs(30),
            state_file: None,
            consul: ConsulAgent { url: local(8500), token: None, tls: None },
            etcd: EtcdCluster { urls: vec![local(2379)], login: None, tls: None },
            xds: XdsControlPlane::default(),
        }
    }
}

/// Where the servers of one upstream come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ServerSource {
    /// A file that is watched.
    File(PathBuf),
    /// Every address of a name is a server.
    Dns {
        /// The name in lower case.
        host: Box<str>,
        /// The port of all servers.
        port: u16,
    },
    /// The records of type SRV of this name.
    Srv(Box<str>),
    /// The instances of a service.
    Consul(ConsulService),
    /// The keys below this one, which ends with `/`.
    Etcd(Box<str>),
    /// The endpoints of this cluster of the control plane.
    Cds(Box<str>),
    /// The endpoints of this name in the control plane.
    Eds(Box<str>),
}

impl fmt::Display for ServerSource {
    /// As shown to operators: `dns app.example:8080`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Dns { host, port } => write!(f, "dns {host}:{port}"),
            Self::Srv(name) => write!(f, "srv {name}"),
            Self::Consul(service) => service.fmt(f),
            Self::Etcd(prefix) => write!(f, "etcd {prefix}"),
            Self::Cds(name) => write!(f, "cds {name}"),
            Self::Eds(name) => write!(f, "eds {name}"),
        }
    }
}

/// A service of Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsulService {
    /// The name of the service.
    pub name: Box<str>,
    /// Tags that an instance must have, all of them.
    pub tags: Vec<Box<str>>,
    /// The datacenter; `None`: that of the agent.
    pub datacenter: Option<Box<str>>,
    /// An expression of Consul that instances must fulfil.
    pub filter: Option<Box<str>>,
    /// How many instances get requests, the nearest to the agent; others are backups. `None`: all.
    pub nearest: Option<u16>,
}

impl ConsulService {
    /// All instances of a service.
    pub fn new(name: impl Into<Box<str>>) -> Self {
        Self { name: name.into(), tags: Vec::new(), datacenter: None, filter: None, nearest: None }
    }
}

impl fmt::Display for ConsulService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "consul {}", self.name)?;
        for tag in &self.tags {
            write!(f, " tag {tag}")?;
        }
        if let Some(datacenter) = &self.datacenter {
            write!(f, " in {datacenter}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, " where {filter}")?;
        }
        self.nearest.map_or(Ok(()), |nearest| write!(f, " nearest {nearest}"))
    }
}

/// The agent of Consul that is asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ConsulAgent {
    /// Where it answers.
    pub url: SourceUrl,
    /// The token of the requests.
    pub token: Option<SourceSecret>,
    /// TLS with it; present whenever its URL has `https`.
    pub tls: Option<SourceTls>,
}

/// The members of etcd that are asked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct EtcdCluster {
    /// Where they answer; at least one.
    pub urls: Vec<SourceUrl>,
    /// User and password.
    pub login: Option<(Box<str>, SourceSecret)>,
    /// TLS with them; present whenever a URL has `https`.
    pub tls: Option<SourceTls>,
}

/// The control plane that is asked by xDS.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct XdsControlPlane {
    /// Where it answers; at least one whenever an upstream uses it.
    pub urls: Vec<SourceUrl>,
    /// What Weir tells it about itself.
    pub node: XdsNode,
    /// The token of the stream.
    pub token: Option<SourceSecret>,
    /// TLS with it; present whenever a URL has `https`.
    pub tls: Option<SourceTls>,
    /// How long a resource may be missing before that is a failure.
    pub answer_timeout: Duration,
}

impl Default for XdsControlPlane {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            node: XdsNode::default(),
            token: None,
            tls: None,
            answer_timeout: Duration::from_secs(15),
        }
    }
}

/// A node of xDS: the name by which a control plane knows this Weir.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdsNode {
    /// The name; `None`: that of the host.
    pub id: Option<Box<str>>,
    /// The cluster that the node belongs to.
    pub cluster: Box<str>,
    /// The region, or nothing.
    pub region: Box<str>,
    /// The zone, or nothing.
    pub zone: Box<str>,
    /// The part of the zone, or nothing.
    pub sub_zone: Box<str>,
    /// Further words, by key.
    pub metadata: Vec<(Box<str>, Box<str>)>,
}

impl Default for XdsNode {
    fn default() -> Self {
        let none = Box::<str>::default;
        Self {
            id: None,
            cluster: "weir".into(),
            region: none(),
            zone: none(),
            sub_zone: none(),
            metadata: Vec::new(),
        }
    }
}

/// TLS with a source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourceTls {
    /// The authorities for its certificate.
    pub authorities: Arc<Authorities>,
    /// What Weir presents when it is asked for a certificate.
    pub certificate: Option<Arc<LoadedCertificate>>,
}

impl SourceTls {
    /// TLS with a source whose certificate is of these authorities, and which may be presented one.
    pub fn new(authorities: Arc<Authorities>, certificate: Option<Arc<LoadedCertificate>>) -> Self {
        Self { authorities, certificate }
    }
}

/// Scheme, host and port of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceUrl {
    /// Whether it is one of `https`.
    pub is_tls: bool,
    /// Host and port.
    pub authority: Box<str>,
}

impl SourceUrl {
    /// The URL of `https`, or else of `http`, with this host and port.
    pub fn new(is_tls: bool, authority: impl Into<Box<str>>) -> Self {
        Self { is_tls, authority: authority.into() }
    }
}

impl fmt::Display for SourceUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}", if self.is_tls { "s" } else { "" }, self.authority)
    }
}

/// A token or a password: never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct SourceSecret(pub Box<str>);

impl fmt::Debug for SourceSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SourceSecret")
    }
}
