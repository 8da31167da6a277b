//! Why nothing can be exchanged: which server is to blame, what is wrong with it, and what can be done about it.

use std::fmt;
use std::io;
use std::time::Duration;

use rustls::{AlertDescription, CertificateError};
use weir_config::ServerAddress;
use weir_http::resp::RespError;

/// Sentinels of whose failures a message speaks.
const PEERS_SHOWN: usize = 3;

/// A server of the protocol of Redis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorePeer {
    pub(super) kind: StorePeerKind,
    pub(super) address: ServerAddress,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorePeerKind {
    /// The store, at the address in the config.
    Store,
    /// The store, at an address that a sentinel has named.
    Master,
    Sentinel,
}

impl fmt::Display for StorePeer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            StorePeerKind::Store => "store",
            StorePeerKind::Master => "master",
            StorePeerKind::Sentinel => "sentinel",
        };
        write!(f, "the {kind} at {}", self.address)
    }
}

/// What is wrong with a server.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    #[error("cannot be reached: {0}")]
    Connect(io::Error),
    #[error("has no TLS that can be used: {0}")]
    Tls(io::Error),
    #[error("has not ended the TLS handshake within {0:?}")]
    LateTls(Duration),
    #[error("has lost the connection: {0}")]
    Lost(io::Error),
    #[error("has closed the connection")]
    Closed,
    #[error("has not answered within {0:?}")]
    Late(Duration),
    #[error("does not speak the protocol of Redis: {0}")]
    NotRedis(RespError),
    #[error("has closed the connection without a word")]
    Mute,
    #[error("says: {0}")]
    Refused(String),
    #[error("has an unexpected reply to {0}")]
    Unexpected(&'static str),
    #[error("does not know a master `{0}`")]
    UnknownMaster(Box<str>),
    #[error("is not the master: it calls itself `{0}`")]
    NotMaster(String),
    #[error("is the master no more: the sentinels name {0}")]
    Replaced(ServerAddress),
}

impl StoreError {
    /// What a connection that is open says of its end.
    pub(super) fn of_open(error: io::Error) -> StoreError {
        match of_rustls(&error) {
            Some(_) => Self::Tls(error),
            None => Self::Lost(error),
        }
    }

    /// What can be done about it.
    fn change(&self, kind: StorePeerKind) -> &'static str {
        let is_sentinel = kind == StorePeerKind::Sentinel;
        match self {
            Self::Connect(_) => match kind {
                StorePeerKind::Store => "start the store, or correct `address` of the store",
                StorePeerKind::Master => {
                    "none while a failover goes on; else see whether Weir reaches the address that the sentinels name (`sentinel announce-ip`, `replica-announce-ip`)"
                }
                StorePeerKind::Sentinel => {
                    "start the sentinels, or correct `sentinel.addresses` of the store"
                }
            },
            Self::Tls(error) => change_of_tls(error, is_sentinel),
            Self::LateTls(_) if is_sentinel => {
                "write `redis://` in `sentinel.addresses` where its port has no TLS, else see why it is slow"
            }
            Self::LateTls(_) => {
                "write `redis://` in `address` where its port has no TLS, else see why the store is slow"
            }
            Self::Mute if is_sentinel => {
                "write `rediss://` in `sentinel.addresses` where its port has TLS, else see its log"
            }
            Self::Mute => "write `rediss://` in `address` where its port has TLS, else see its log",
            Self::Lost(_) | Self::Closed if kind == StorePeerKind::Master => {
                "none while a failover goes on; else see its log"
            }
            Self::Lost(_) | Self::Closed => "see its log",
            Self::Late(_) => "see why it is slow, or raise `timeout` of the store",
            Self::NotRedis(_) | Self::Unexpected(_) if is_sentinel => {
                "correct `sentinel.addresses`: they are those of Redis Sentinel, whose usual port is 26379"
            }
            Self::NotRedis(_) | Self::Unexpected(_) => {
                "correct `address`: it is that of a Redis 5 or later, or a Valkey, with `rediss://` where its port has TLS"
            }
            Self::Refused(said) => change_of_refusal(said, is_sentinel),
            Self::UnknownMaster(_) => {
                "correct the name in `address`: it is that of `sentinel monitor` in the config of the sentinels"
            }
            Self::NotMaster(_) => "none while a failover goes on; else see the logs of the sentinels",
            Self::Replaced(_) => "none: the new one is used next",
        }
    }
}

fn change_of_refusal(said: &str, is_sentinel: bool) -> &'static str {
    match said.split(' ').next() {
        Some("NOAUTH" | "WRONGPASS") if is_sentinel => {
            "correct `user` and `password` (or `password_file`) of `sentinel`, which are not those of the store"
        }
        Some("NOAUTH" | "WRONGPASS") => "correct `user` and `password` (or `password_file`) of the store",
        Some("NOPERM") if is_sentinel => {
            "permit the user of the sentinel `+sentinel|get-master-addr-by-name`"
        }
        Some("NOPERM") => {
            "permit the user of the store `+set +get +pexpire +del +time +evalsha +script|load +select`, with sentinels `+role`, and keys that begin with `prefix`"
        }
        Some("ERR") if is_sentinel => {
            "correct `sentinel.addresses`: they are those of Redis Sentinel, whose usual port is 26379"
        }
        Some("DENIED") => "permit connections from other machines: `protected-mode no`, with a password",
        Some("READONLY") => "correct `address`: it is that of a replica, and the master is needed",
        Some("OOM") => "give the store more memory, or a `maxmemory-policy` other than `noeviction`",
        Some("MOVED" | "CROSSSLOT" | "CLUSTERDOWN") => "correct `address`: a Redis Cluster is not supported",
        Some("NOSCRIPT") => "none: the script is loaded again",
        _ => "see the message of the store",
    }
}

fn change_of_tls(error: &io::Error, is_sentinel: bool) -> &'static str {
    use rustls::Error;
    match of_rustls(error) {
        Some(Error::InvalidCertificate(wrong)) => match wrong {
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                match is_sentinel {
                    true => {
                        "correct the host in `sentinel.addresses`, or set `sentinel.server_name` to a name in the certificate"
                    }
                    false => {
                        "correct the host in `address`, or set `server_name` of the store to a name in the certificate"
                    }
                }
            }
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => "renew its certificate, or correct the clock",
            _ => "set `ca` of the store to a PEM file with the authority of its certificate",
        },
        Some(Error::InvalidMessage(_)) if is_sentinel => "write `redis://` in `sentinel.addresses`",
        Some(Error::InvalidMessage(_)) => "write `redis://` in `address`: its port has no TLS",
        Some(Error::AlertReceived(
            AlertDescription::CertificateRequired | AlertDescription::HandshakeFailure,
        )) => "set `certificate` and `key` of the store: it wants a certificate of its clients",
        Some(Error::AlertReceived(_)) => "see its log: it may not take `certificate`, or the name asked for",
        _ => "see its log, and write `redis://` where its port has no TLS",
    }
}

fn of_rustls(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Why an exchange has come to an end: what is wrong with each of these servers, at least one.
#[derive(Debug)]
pub(super) struct StoreFailure(Vec<(StorePeer, StoreError)>);

impl StoreFailure {
    pub(super) fn new(peer: &StorePeer, error: StoreError) -> StoreFailure {
        StoreFailure(vec![(peer.clone(), error)])
    }

    /// None of the servers is of use.
    pub(super) fn of_all(peers: Vec<(StorePeer, StoreError)>) -> StoreFailure {
        StoreFailure(peers)
    }

    /// What can be done about it.
    pub(super) fn change(&self) -> &'static str {
        // A server that says what is wrong says more than those that are silent.
        let is_silent = |error: &StoreError| matches!(error, StoreError::Connect(_) | StoreError::Late(_));
        let telling = self.0.iter().find(|(_, error)| !is_silent(error)).or(self.0.first());
        telling.map_or("see the log of the store", |(peer, error)| error.change(peer.kind))
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (peer, error)) in self.0.iter().take(PEERS_SHOWN).enumerate() {
            let join = if number > 0 { "; " } else { "" };
            write!(f, "{join}{peer} {error}")?;
        }
        match self.0.len().saturating_sub(PEERS_SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(kind: StorePeerKind, address: &str) -> StorePeer {
        StorePeer { kind, address: address.parse().unwrap() }
    }

    #[test]
    fn a_failure_names_each_server_and_the_change_that_helps_most() {
        let refused = || StoreError::Connect(io::ErrorKind::ConnectionRefused.into());
        let sentinel = |number| peer(StorePeerKind::Sentinel, &format!("10.0.0.{number}:26379"));
        let unknown = StoreError::UnknownMaster("mymaster".into());
        let failure = StoreFailure::of_all(vec![
            (sentinel(1), refused()),
            (sentinel(2), unknown),
            (sentinel(3), refused()),
            (sentinel(4), refused()),
        ]);
        assert_eq!(
            failure.to_string(),
            "the sentinel at 10.0.0.1:26379 cannot be reached: connection refused; the sentinel at 10.0.0.2:26379 does not know a \
             master `mymaster`; the sentinel at 10.0.0.3:26379 cannot be reached: connection refused; and 1 more"
        );
        assert!(failure.change().starts_with("correct the name in `address`"), "{}", failure.change());
        let silent = StoreFailure::new(&sentinel(1), refused());
        assert!(silent.change().starts_with("start the sentinels"), "{}", silent.change());
    }

    #[test]
    fn a_change_names_the_keys_of_its_server() {
        for (kind, error, expected) in [
            (StorePeerKind::Store, "NOAUTH Authentication required.", "`password_file`) of the store"),
            (StorePeerKind::Sentinel, "NOAUTH Authentication required.", "of `sentinel`"),
            (StorePeerKind::Sentinel, "ERR unknown command 'SENTINEL'", "26379"),
            (StorePeerKind::Master, "NOPERM no permissions", "`+role`"),
            (StorePeerKind::Store, "MOVED 1 10.0.0.1:6379", "Redis Cluster is not supported"),
        ] {
            let failure = StoreFailure::new(&peer(kind, "10.0.0.1:1"), StoreError::Refused(error.to_owned()));
            assert!(failure.change().contains(expected), "{error}: {}", failure.change());
        }
    }

    #[test]
    fn an_alert_on_an_open_connection_is_of_tls() {
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
        let error = StoreError::of_open(io::Error::new(io::ErrorKind::InvalidData, alert));
        assert!(matches!(error, StoreError::Tls(_)), "{error}");
        assert!(error.change(StorePeerKind::Store).starts_with("set `certificate` and `key`"));
        assert!(matches!(StoreError::of_open(io::ErrorKind::BrokenPipe.into()), StoreError::Lost(_)));
    }
}
