//! `[store.NAME]`: where several nodes share limits.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;

use crate::certificate::{Authorities, LoadedCertificate};
use crate::value::ServerAddress;

/// A Redis or Valkey in which several nodes share limits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct LimitStore {
    /// The name in the config and in logs.
    pub name: Box<str>,
    /// Where it accepts connections, or who knows.
    pub place: StorePlace,
    /// TLS with it; `None`: without.
    pub tls: Option<StoreTls>,
    /// The database.
    pub database: u32,
    /// How this node logs in.
    pub login: Option<StoreLogin>,
    /// What the names of all keys begin with.
    pub prefix: Box<str>,
    /// The time between two exchanges.
    pub interval: Duration,
    /// The time limit of a connection attempt and of an exchange.
    pub timeout: Duration,
}

/// Where a store is.
#[derive(Debug, Clone, PartialEq)]
pub enum StorePlace {
    /// At this address.
    Address(ServerAddress),
    /// Wherever its master is.
    Master(MonitoredMaster),
}

/// A master that Sentinel looks after.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MonitoredMaster {
    /// Its name, as the sentinels know it.
    pub name: Box<str>,
    /// The sentinels; at least one.
    pub sentinels: Vec<Sentinel>,
    /// How this node logs in at them.
    pub login: Option<StoreLogin>,
}

/// A Sentinel.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Sentinel {
    /// Where it accepts connections.
    pub address: ServerAddress,
    /// TLS with it; `None`: without.
    pub tls: Option<StoreTls>,
}

/// TLS with a store or a sentinel.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoreTls {
    /// The authorities for its certificate.
    pub authorities: Arc<Authorities>,
    /// What Weir presents when it is asked for a certificate.
    pub certificate: Option<Arc<LoadedCertificate>>,
    /// The name that the certificate has to be valid for; `None`: the host of the address.
    pub server_name: Option<ServerName<'static>>,
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Master(master) => write!(f, "the master {}", master.name),
        }
    }
}

/// A password and its user; never printed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreLogin {
    /// The user; `None`: the usual one.
    pub user: Option<Box<str>>,
    /// Its password.
    pub password: Box<str>,
}

impl fmt::Debug for StoreLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoreLogin(..)")
    }
}
