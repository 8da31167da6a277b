//! `[upstream.NAME.affinity]`: how the requests of a client stay on one server.

use std::fmt;
use std::time::Duration;

use weir_traffic::affinity::{CookieAffinity, CookieAttributes, LearnedLimits};

use super::token::token;

/// How the requests of a client stay on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AffinitySettings {
    /// The name of the cookie.
    pub cookie: Box<str>,
    /// The kind of cookie.
    pub mode: CookieMode,
}

impl AffinitySettings {
    /// By a cookie of this name.
    pub fn new(cookie: impl Into<Box<str>>, mode: CookieMode) -> Self {
        Self { cookie: cookie.into(), mode }
    }
}

/// The kind of cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CookieMode {
    /// Weir's own cookie.
    Insert {
        /// The key that signs its value.
        secret: Option<CookieSecret>,
        /// Its attributes.
        attributes: CookieAttributes,
    },
    /// The application's cookie, prefixed with the server.
    Prefix {
        /// The key that signs the mark.
        secret: Option<CookieSecret>,
    },
    /// The application's cookie, unchanged; Weir remembers which server set it.
    Learn {
        /// Cookies that are remembered.
        entries_max: usize,
        /// How long an entry is kept without a request.
        expire: Duration,
    },
}

impl CookieMode {
    /// The word of the config.
    pub const fn name(&self) -> &'static str {
        match self {
            CookieMode::Insert { .. } => "insert",
            CookieMode::Prefix { .. } => "prefix",
            CookieMode::Learn { .. } => "learn",
        }
    }
}

/// The secret that all processes with this upstream share; debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct CookieSecret(pub(crate) Box<str>);

impl fmt::Debug for CookieSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl AffinitySettings {
    /// Ready for use by the upstream called `upstream`, with these servers in the order of the config.
    pub fn build(&self, upstream: &str, servers: &[&str]) -> CookieAffinity {
        let tokens = |secret: &Option<CookieSecret>| {
            let secret = secret.as_ref().map(|secret| secret.0.as_bytes());
            servers.iter().map(|server| token(upstream, server, secret)).collect()
        };
        match &self.mode {
            CookieMode::Insert { secret, attributes } => {
                CookieAffinity::insert(&self.cookie, tokens(secret), attributes)
            }
            CookieMode::Prefix { secret } => CookieAffinity::prefix(&self.cookie, tokens(secret)),
            CookieMode::Learn { entries_max, expire } => CookieAffinity::learned(
                &self.cookie,
                LearnedLimits { entries_max: *entries_max, idle_max: *expire },
            ),
        }
    }
}
