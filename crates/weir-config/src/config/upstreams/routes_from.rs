//! `[routes_from.NAME]`: stores whose keys hold routes and upstreams.

use std::fmt;
use std::path::PathBuf;

/// A store that is followed, whose keys are parts of the config.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteSource {
    /// Its name in the config.
    pub name: Box<str>,
    /// Which keys.
    pub store: RouteStore,
    /// Where the fragments in use are kept over a restart; `None`: nowhere.
    pub state_file: Option<PathBuf>,
}

impl RouteSource {
    /// A store, by its name in the config.
    pub fn new(name: impl Into<Box<str>>, store: RouteStore, state_file: Option<PathBuf>) -> Self {
        Self { name: name.into(), store, state_file }
    }
}

/// The keys of a store that are fragments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteStore {
    /// The keys of etcd below this one, which ends with `/`.
    Etcd(Box<str>),
    /// The keys of Consul.
    Consul {
        /// They are below this one, which ends with `/`.
        prefix: Box<str>,
        /// The datacenter; `None`: that of the agent.
        datacenter: Option<Box<str>>,
    },
}

impl RouteStore {
    /// A key as diagnostics name it: `etcd:/weir/routes/shop`.
    pub fn shown_key(&self, key: &str) -> String {
        match self {
            Self::Etcd(_) => format!("etcd:{key}"),
            Self::Consul { .. } => format!("consul:{key}"),
        }
    }
}

impl fmt::Display for RouteStore {
    /// As shown to operators: `etcd /weir/routes/`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Etcd(prefix) => write!(f, "etcd {prefix}"),
            Self::Consul { prefix, datacenter: None } => write!(f, "consul {prefix}"),
            Self::Consul { prefix, datacenter: Some(datacenter) } => {
                write!(f, "consul {prefix} ({datacenter})")
            }
        }
    }
}
