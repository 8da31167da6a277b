//! `[upstream.NAME.affinity]`: how the requests of a client stay on one server.

use std::fmt;
use std::time::Duration;

use weir_traffic::affinity::{Affinity, CookieAttributes, LearnSource, LearnedLimits};

use super::token::token;
use crate::value::{Template, WhenCondition};

/// How the requests of a client stay on one server.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct AffinitySettings {
    /// The name of the cookie; for [`CookieMode::Key`], the text of the key.
    pub cookie: Box<str>,
    /// The kind of cookie, or the key.
    pub mode: CookieMode,
    /// Whether a request that belongs to a server gets no other one.
    pub strict: bool,
    /// The condition on the response with which the key of the request is forgotten.
    pub forget_when: Option<WhenCondition>,
    /// The name of the store in which nodes share what they learn: [`ConfigParts::affinity_stores`](crate::ConfigParts::affinity_stores).
    pub shared: Option<Box<str>>,
}

impl AffinitySettings {
    /// By a cookie of this name.
    pub fn new(cookie: impl Into<Box<str>>, mode: CookieMode) -> Self {
        Self { cookie: cookie.into(), mode, strict: false, forget_when: None, shared: None }
    }

    /// The template of the key of requests, where there is one.
    pub fn key(&self) -> Option<&Template> {
        match &self.mode {
            CookieMode::Key { key, .. } => Some(key),
            CookieMode::Insert { .. } | CookieMode::Prefix { .. } | CookieMode::Learn { .. } => None,
        }
    }

    /// How long a key is remembered that no request brings, where there are such.
    pub fn expire(&self) -> Option<Duration> {
        match &self.mode {
            CookieMode::Learn { expire, .. } | CookieMode::Key { expire, .. } => Some(*expire),
            CookieMode::Insert { .. } | CookieMode::Prefix { .. } => None,
        }
    }

    /// Whether what one has learned holds for the other.
    pub fn learns_as(&self, other: &Self) -> bool {
        self.cookie == other.cookie && self.mode == other.mode
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
    /// A key of the request; Weir remembers which server has it.
    Key {
        /// What the key is made of.
        key: Template,
        /// Where responses say keys; none: the first server that gets a request with a key has it.
        learn_from: Box<[LearnSource]>,
        /// Keys that are remembered.
        entries_max: usize,
        /// How long an entry is kept without a request.
        expire: Duration,
    },
}

impl CookieMode {
    /// The word of the config.
    pub fn name(&self) -> &'static str {
        match self {
            CookieMode::Insert { .. } => "insert",
            CookieMode::Prefix { .. } => "prefix",
            CookieMode::Key { learn_from, .. } if learn_from.is_empty() => "stick",
            CookieMode::Learn { .. } | CookieMode::Key { .. } => "learn",
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
    /// Ready for use by the upstream called `upstream`, with these servers in the order of the config. `hash_key` is random: keys that clients choose are
    /// hashed with it.
    pub fn build(&self, upstream: &str, servers: &[&str], hash_key: [u64; 2]) -> Affinity {
        let tokens = |secret: &Option<CookieSecret>| {
            let secret = secret.as_ref().map(|secret| secret.0.as_bytes());
            servers.iter().map(|server| token(upstream, server, secret)).collect()
        };
        match &self.mode {
            CookieMode::Insert { secret, attributes } => {
                Affinity::insert(&self.cookie, tokens(secret), attributes)
            }
            CookieMode::Prefix { secret } => Affinity::prefix(&self.cookie, tokens(secret)),
            CookieMode::Learn { entries_max, expire } => Affinity::learned(
                &self.cookie,
                LearnedLimits { entries_max: *entries_max, idle_max: *expire },
                hash_key,
            ),
            CookieMode::Key { learn_from, entries_max, expire, .. } => {
                let limits = LearnedLimits { entries_max: *entries_max, idle_max: *expire };
                Affinity::by_key(&self.cookie, learn_from.to_vec(), limits, hash_key)
            }
        }
    }
}
