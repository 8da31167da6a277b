//! Why the proxy did not start.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use weir_config::{CertificateError, ServerAddress};
use weir_proxy::state::servers::plan_inputs::{PlanError, TlsError};

/// The name of a server that cannot be resolved.
#[derive(Debug)]
pub struct UnresolvedName {
    /// The upstream.
    pub upstream: Box<str>,
    /// The address as the config has it.
    pub address: ServerAddress,
    /// Why.
    pub error: String,
}

fn shown(names: &[UnresolvedName]) -> String {
    let shown = |name: &UnresolvedName| {
        let UnresolvedName { upstream, address, error } = name;
        format!("the name of the server `{address}` of upstream `{upstream}` cannot be resolved: {error}")
    };
    names.iter().map(shown).collect::<Vec<_>>().join("; ")
}

/// Why there is no certificate of the internal authority.
#[derive(Debug, thiserror::Error)]
pub enum InternalError {
    /// The folder cannot be used.
    #[error("the folder `{}` of the internal authority cannot be used: {error}; name another one in `tls.internal.directory`", folder.display())]
    Folder {
        /// Its path.
        folder: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The root in the folder cannot be used.
    #[error(
        "the root of the internal authority cannot be used: {0}; remove `root.pem` and `root.key`, and a new root is made, which clients have to trust again"
    )]
    Root(CertificateError),
    /// No key or certificate could be made.
    #[error("no certificate of the internal authority could be made: {0}")]
    Make(String),
}

/// Why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("listener `{listener}` cannot use {address}: {error}")]
    Bind {
        /// The listener in the config.
        listener: Box<str>,
        /// The address as the config has it.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// The admin address cannot be bound.
    #[error("the admin listener cannot use {address}: {error}")]
    BindAdmin {
        /// The address as the config has it.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// The runtime socket cannot be bound.
    #[error("the runtime socket cannot use {address}: {error}")]
    BindSocket {
        /// The address as the config has it.
        address: String,
        /// The system's error.
        error: io::Error,
    },
    /// TLS of a listener cannot be made ready.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A listener or an upstream cannot be made ready.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The authority for development has no root, or cannot make a certificate.
    #[error(transparent)]
    Internal(#[from] InternalError),
    /// Names of new servers cannot be resolved.
    #[error("{}", shown(.0))]
    Names(Vec<UnresolvedName>),
    /// The access log cannot be opened.
    #[error("{0}")]
    AccessLog(io::Error),
    /// A log of TLS keys cannot be opened.
    #[error("the key log cannot be opened: {error}")]
    KeyLog {
        /// The system's error, with the name of the file.
        error: io::Error,
    },
    /// The pid file cannot be had.
    #[error("the pid file `{}` cannot be used: {error}", path.display())]
    PidFile {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        error: io::Error,
    },
    /// The pid file is that of another process, which runs.
    #[error("the pid file `{}` is that of process {pid} (`{program}`), which runs", path.display())]
    PidFileTaken {
        /// Its path.
        path: PathBuf,
        /// The process in it.
        pid: u32,
        /// The name of its program.
        program: String,
    },
    /// Connections are to come from the addresses of clients, and may not.
    #[error(
        "upstream `{upstream}` connects from the addresses of clients (`source_address = \"{{client_address}}\"`), which needs CAP_NET_RAW: {why}"
    )]
    ClientSource {
        /// The first such upstream.
        upstream: Box<str>,
        /// What to do about it.
        why: String,
    },
    /// `process.user` or `process.group` is another one, and only root can change to it.
    #[error("`process.{key}` needs a start as root: the process runs as {now}")]
    NotRoot {
        /// The key.
        key: &'static str,
        /// The user that has started it.
        now: String,
    },
    /// The process cannot become what the config wants it to be.
    #[error("the process cannot {what}: {error}")]
    Privileges {
        /// What it cannot do.
        what: Box<str>,
        /// The system's error.
        error: io::Error,
    },
    /// Spans cannot be exported.
    #[error("traces cannot be exported: {0}")]
    Traces(io::Error),
    /// The system refuses threads, event queues or random numbers.
    #[error("a worker cannot be started: {0}")]
    Worker(#[from] io::Error),
}

impl StartError {
    /// The listener that is the cause, where it is known.
    pub fn listener(&self) -> Option<&str> {
        match self {
            Self::Bind { listener, .. } => Some(listener),
            Self::Plan(PlanError::Routes(tied)) => Some(&tied.listener),
            _ => None,
        }
    }

    /// The error of a step that gives privileges up, from that of the system.
    pub(crate) fn privileges(what: impl Into<Box<str>>) -> impl FnOnce(rustix::io::Errno) -> Self {
        let what = what.into();
        move |error| Self::Privileges { what, error: error.into() }
    }
}
