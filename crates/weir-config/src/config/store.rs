//! `[store.NAME]`: where several nodes share limits.

use std::fmt;
use std::time::Duration;

use crate::value::ServerAddress;

/// A Redis or Valkey in which several nodes share limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitStore {
    /// The name in the config and in logs.
    pub name: Box<str>,
    /// Where it accepts connections.
    pub address: ServerAddress,
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

/// A password and its user; never printed.
#[derive(Clone, PartialEq, Eq)]
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
