//! The permissions of the admin listener and the runtime socket, and how many requests were answered and rejected there.
//!
//! Each refusal is counted by its reason, and logged once in a while with the client that it was for.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use data_encoding::HEXLOWER;
use weir_config::{Config, ConfigDump, Credentials};
use weir_observe::{AdminRefusal, AdminShard, AdminStats};

use weir_proxy::net::clock::{self, Instant};

/// How often a refusal is logged.
const LOG_PAUSE: Duration = Duration::from_secs(10);

/// Where a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdminPeer {
    /// Over TCP.
    Network(SocketAddr),
    /// Over a Unix socket, whose file mode is the access control.
    Local,
}

impl std::fmt::Display for AdminPeer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Network(address) => write!(f, "{address}"),
            Self::Local => f.write_str("unix"),
        }
    }
}

/// The settings from the config, exchanged by a reload.
#[derive(Debug, Default)]
pub(crate) struct AccessRules {
    pub(crate) credentials: Credentials,
    pub(crate) hosts: Vec<Box<str>>,
    changes: bool,
    socket_changes: bool,
    /// The whole of it, without secrets.
    shown: ConfigDump,
}

impl AccessRules {
    fn new(config: &Config) -> Self {
        Self {
            credentials: config.credentials.clone(),
            hosts: config.admin.allowed_hosts.clone(),
            changes: config.admin.changes,
            socket_changes: config.admin.allows_socket_changes(),
            shown: config.dump.clone(),
        }
    }
}

/// Decides about connections and requests.
#[derive(Debug)]
pub(crate) struct AdminAccess {
    rules: ArcSwap<AccessRules>,
    /// A token that only a page read from this process knows.
    page_token: String,
    shard: AdminShard,
    logged: Mutex<Logged>,
}

/// When a refusal was logged, and how many have not been since.
#[derive(Debug, Default)]
struct Logged {
    at: Option<Instant>,
    unlogged: u64,
}

impl AdminAccess {
    /// Decides by `config`.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub(crate) fn new(config: &Config) -> io::Result<Self> {
        let mut token = [0; 16];
        rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())?;
        Ok(Self {
            rules: ArcSwap::from_pointee(AccessRules::new(config)),
            page_token: HEXLOWER.encode(&token),
            shard: AdminShard::default(),
            logged: Mutex::default(),
        })
    }

    /// Decides by another config from now on.
    pub(crate) fn follow(&self, config: &Config) {
        self.rules.store(Arc::new(AccessRules::new(config)));
    }

    pub(crate) fn figures(&self) -> AdminStats {
        self.shard.stats()
    }

    /// The token that Weir's own page has to send with a change; `None` when it can change nothing.
    pub(crate) fn page_token(&self) -> Option<&str> {
        self.allows_changes().then_some(&*self.page_token)
    }

    /// The config in use, without secrets.
    pub(crate) fn shown_config(&self) -> ConfigDump {
        self.rules.load().shown.clone()
    }

    /// Whether anything may be changed at all.
    pub(crate) fn allows_changes(&self) -> bool {
        self.rules.load().changes
    }

    /// Whether anything may be changed through the runtime socket.
    pub(crate) fn allows_socket_changes(&self) -> bool {
        self.rules.load().socket_changes
    }

    /// The settings of the config now.
    pub(crate) fn rules(&self) -> Arc<AccessRules> {
        self.rules.load_full()
    }

    pub(crate) fn count_answer(&self) {
        self.shard.record_answer();
    }

    /// Counts a refusal, and logs it if none was logged for a while.
    pub(crate) fn count_refusal(&self, refusal: AdminRefusal, peer: AdminPeer) {
        self.shard.record_refusal(refusal);
        let now = clock::now();
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        if logged.at.is_some_and(|at| now.saturating_duration_since(at) < LOG_PAUSE) {
            logged.unlogged += 1;
            return;
        }
        logged.at = Some(now);
        let unlogged = std::mem::take(&mut logged.unlogged);
        drop(logged);
        let reason = refusal.name();
        tracing::warn!(reason, %peer, more_since_the_last = unlogged, "the admin listener refused a request");
    }
}
