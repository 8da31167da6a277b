//! The admin address of a running Weir, and the explanation when it does not answer.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use weir_client::{ClientError, HttpDestination};

/// The address of a running Weir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AdminEndpoint {
    /// Host and port, as written.
    Tcp(String),
    Unix(PathBuf),
}

impl FromStr for AdminEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("a path is missing behind `unix:`".to_owned())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if text.starts_with('/') {
            return Err(format!("write a socket as `unix:{text}`"));
        }
        let (host, port) = text.rsplit_once(':').ok_or("write host and port, such as `127.0.0.1:9000`")?;
        port.parse::<u16>()
            .map_err(|_| format!("`{port}` is no port; write host and port, such as `127.0.0.1:9000`"))?;
        if text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '/') {
            return Err("write host and port alone, such as `127.0.0.1:9000`".to_owned());
        }
        Ok(Self::Tcp(if host.is_empty() { format!("127.0.0.1:{port}") } else { text.to_owned() }))
    }
}

impl fmt::Display for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => f.write_str(address),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl AdminEndpoint {
    /// A socket by its path, written as in a config or without `unix:`.
    pub(super) fn of_socket(path: &Path) -> Self {
        let bare = path.to_str().and_then(|text| text.strip_prefix("unix:"));
        Self::Unix(bare.map_or_else(|| path.to_owned(), PathBuf::from))
    }

    /// How a program on the same machine reaches a listener: one on all addresses is on the loopback address too.
    pub(super) fn of_listener(mut address: SocketAddr) -> Self {
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
                SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
            });
        }
        Self::Tcp(address.to_string())
    }

    pub(super) fn destination(&self) -> HttpDestination {
        match self {
            Self::Tcp(address) => HttpDestination::of_authority(address, None),
            Self::Unix(path) => HttpDestination::of_socket(path.clone()),
        }
    }

    /// The error, with advice.
    pub(super) fn explain(&self, unanswered: &ClientError) -> (String, String) {
        use ClientError::{Broken, Malformed, NoTls, TimedOut, TooLong, Unconnected, Unresolved};
        let (what, help): (String, &str) = match (unanswered, self) {
            (Unresolved(error) | Unconnected(error) | NoTls(error), Self::Tcp(_)) => of_tcp(error),
            (Unresolved(error) | Unconnected(error) | NoTls(error), Self::Unix(_)) => of_unix(error),
            (Broken(error), _) if error.kind() == ErrorKind::UnexpectedEof => (
                "closed the connection without an answer".to_owned(),
                "check that Weir's admin listener is there, not one for traffic",
            ),
            (Broken(error), _) => {
                (format!("broke off the response: {error}"), "see the log of Weir, and try again")
            }
            (TimedOut, _) => {
                ("did not answer in time".to_owned(), "see whether Weir runs and what its log says")
            }
            (TooLong, _) => ("gave a longer answer than Weir ever does".to_owned(), NOT_WEIR),
            (Malformed(_), _) => ("does not speak HTTP".to_owned(), NOT_WEIR),
        };
        (format!("{self} {what}"), help.to_owned())
    }
}

const NOT_WEIR: &str =
    "something else than Weir seems to listen there: compare the address with `admin` of its config";

fn of_tcp(error: &io::Error) -> (String, &'static str) {
    match error.kind() {
        ErrorKind::ConnectionRefused => (
            "refuses the connection: nothing listens there".to_owned(),
            "see whether Weir runs, and whether its config has this as `admin.address`",
        ),
        ErrorKind::TimedOut => {
            ("does not take the connection in time".to_owned(), "see whether a firewall is in between")
        }
        _ => (format!("cannot be connected to: {error}"), "check the address"),
    }
}

fn of_unix(error: &io::Error) -> (String, &'static str) {
    match error.kind() {
        ErrorKind::NotFound => (
            "is not there".to_owned(),
            "see whether Weir runs, and whether its config has this file as its socket",
        ),
        ErrorKind::ConnectionRefused => (
            "refuses the connection: the Weir that made the file has ended".to_owned(),
            "start Weir again: it replaces the file",
        ),
        ErrorKind::PermissionDenied => (
            "may not be opened by this user".to_owned(),
            "run this as the user that Weir runs as, or as one with write permission for the file",
        ),
        _ => (format!("cannot be connected to: {error}"), "check the path"),
    }
}
