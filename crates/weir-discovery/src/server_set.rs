//! What a source says: all servers of one upstream at once. Plain data.

use std::collections::BTreeMap;

use weir_config::ServerAddress;
use weir_http::WallTime;

/// The servers that a source has named for one upstream, whole: what is not in it is gone.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSet {
    /// The name of the upstream.
    pub upstream: Box<str>,
    /// The servers, sorted by name; addresses and names are unique.
    pub servers: Vec<DiscoveredServer>,
    /// Who says so.
    pub origin: ServerSetOrigin,
}

/// One server as its source describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiscoveredServer {
    /// The address.
    pub address: ServerAddress,
    /// The name in logs and metrics; `None`: the address.
    pub name: Option<Box<str>>,
    /// The share of requests, 0 to 256, relative to the weights of the others.
    pub weight: u16,
    /// Whether it gets requests only when no other server can take them.
    pub backup: bool,
    /// Where it is.
    pub zone: Option<Box<str>>,
    /// Whether it takes new requests.
    pub readiness: ServerReadiness,
    /// What the source says beside that, by key.
    pub metadata: BTreeMap<Box<str>, Box<str>>,
}

impl DiscoveredServer {
    /// A server of weight 1 of which nothing but the address is known.
    pub fn new(address: ServerAddress) -> Self {
        Self {
            address,
            name: None,
            weight: 1,
            backup: false,
            zone: None,
            readiness: ServerReadiness::Ready,
            metadata: BTreeMap::new(),
        }
    }

    /// The name that is shown.
    pub fn shown_name(&self) -> Box<str> {
        self.name.clone().unwrap_or_else(|| self.address.to_string().into())
    }
}

/// Whether a server takes new requests, according to its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerReadiness {
    /// It takes requests.
    Ready,
    /// It gets no new requests; it serves when no other server is ready.
    Draining,
}

/// Where a set comes from and how old it is: shown to operators.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerSetOrigin {
    /// The source in words: `dns app.example:8080`, `consul app`.
    pub source: Box<str>,
    /// When the source said so.
    pub said_at: WallTime,
    /// Whether the source does not answer now: these are the last known servers.
    pub is_stale: bool,
    /// Whether it has neither answered nor failed yet: an earlier process has left the servers.
    pub is_unheard: bool,
    /// Why, or what is wrong with its answer.
    pub problem: Option<Box<str>>,
    /// What it says beside the servers that has no effect.
    pub remark: Option<Box<str>>,
}
