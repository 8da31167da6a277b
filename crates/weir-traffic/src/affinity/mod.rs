//! Persistence: the requests of one client, or of one session, stay on one server, by a cookie or by a key that the config makes of the request.
//!
//! Four ways: Weir gives the client a cookie of its own, or marks the cookie of the application with the server, or
//! remembers which server gave out which value, or which server was the first that got a request with a key. All only tell which server a request is bound
//! to; whether that one can have it is decided in [`admission`](crate::admission). Knows cookies as bytes, no messages.

mod attributes;
mod cookies;
mod learned;
mod tokens;

pub use attributes::{CookieAttributes, SameSite};
pub use learned::LearnedLimits;

use std::ops::Range;
use std::sync::Arc;

use crate::server::ServerId;
use cookies::{cookie_pairs, set_cookie};
use learned::{LearnedKey, LearnedServers};
use tokens::Tokens;

pub use cookies::{value as cookie_value, values as cookie_values};

/// Divides the token from the value of the application, in a cookie that is marked.
const MARK: u8 = b'~';

/// How the requests of a client are kept on its server.
#[derive(Debug)]
pub struct Affinity {
    cookie: Box<str>,
    mode: CookieModeState,
}

#[derive(Debug)]
enum CookieModeState {
    Insert {
        tokens: Tokens,
        /// The value of `Set-Cookie` for each server.
        set_cookies: Box<[Box<str>]>,
        /// Whether a client gets its cookie anew with every response, because that one does not last.
        renews: bool,
    },
    Prefix(Tokens),
    Learn(LearnedAffinity),
}

/// What is remembered, and of what.
#[derive(Debug)]
struct LearnedAffinity {
    table: Arc<LearnedServers>,
    /// Where the key of a request comes from.
    key: KeySource,
    /// Where a response says a key.
    sources: Box<[LearnSource]>,
    /// Whether a key that no server has said belongs to the first server that gets a request with it.
    keeps_unknown: bool,
}

/// Where the key of a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeySource {
    /// The cookie of the affinity.
    Cookie,
    /// The caller makes it: [`Affinity::lookup_key`].
    Made,
}

/// Where a response says the key of the requests that are to come: of a session, say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LearnSource {
    /// The value of a field, by its name in lower case.
    Header(Box<str>),
    /// The value of a cookie that it sets.
    Cookie(Box<str>),
}

/// The server that a request is bound to, or the key to learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestAffinity {
    /// The server that its cookie names.
    pub server: Option<ServerId>,
    /// The hash of what is learned, for [`Affinity::learn`].
    key: Option<u64>,
    /// Whether the key is in the table, whatever has become of its server.
    is_known: bool,
    /// Whether its server is gone for good.
    is_gone: bool,
    /// Whether others who remember the key are to be told that it is still used.
    is_due: bool,
}

/// A server that no upstream has.
const NO_SERVER: ServerId = ServerId(u32::MAX);

impl RequestAffinity {
    /// That of a request which belongs to one server, whatever its cookies say; `None`: to one that there is not.
    pub fn bound_to(server: Option<ServerId>) -> RequestAffinity {
        RequestAffinity { server: server.or(Some(NO_SERVER)), ..RequestAffinity::default() }
    }

    /// The same where a request may have no other server than its own: one whose server is gone belongs to one that there is not.
    #[must_use]
    pub fn strictly(self) -> RequestAffinity {
        if self.is_gone { RequestAffinity { server: Some(NO_SERVER), ..self } } else { self }
    }

    /// The server of its key, if others who remember that are to be told that it is still used.
    pub fn due(&self) -> Option<ServerId> {
        self.server.filter(|_| self.is_due)
    }

    /// Whether the request has a key, and no server is known for it here; others may know one.
    pub fn is_open(&self) -> bool {
        self.key.is_some() && self.server.is_none() && !self.is_gone
    }

    /// Whether the request has a key of which nothing is known here.
    pub fn is_unknown(&self) -> bool {
        self.key.is_some() && !self.is_known
    }
}

impl Affinity {
    /// Weir's own cookie, which the client gets with the first response. `tokens` name the servers, by [`ServerId`]:
    /// all different except where [`preferring`](Self::preferring) says which one is meant, of characters that a cookie
    /// may hold, none of them `~`.
    pub fn insert(cookie: &str, tokens: Vec<Box<str>>, attributes: &CookieAttributes) -> Affinity {
        let tokens = Tokens::new(tokens);
        let set_cookie = |token: &str| format!("{cookie}={token}{attributes}").into();
        let set_cookies = tokens.texts().map(set_cookie).collect();
        let renews = attributes.lifetime.is_some();
        Affinity { cookie: cookie.into(), mode: CookieModeState::Insert { tokens, set_cookies, renews } }
    }

    /// The cookie of the application, marked with the server on its way to the client and unmarked on its way back.
    /// `tokens` are as for [`Affinity::insert`].
    pub fn prefix(cookie: &str, tokens: Vec<Box<str>>) -> Affinity {
        Affinity { cookie: cookie.into(), mode: CookieModeState::Prefix(Tokens::new(tokens)) }
    }

    /// The cookie of the application as it is; which server gave it out is remembered, or else which got it first. `hash_key` is random.
    pub fn learned(cookie: &str, limits: LearnedLimits, hash_key: [u64; 2]) -> Affinity {
        Affinity {
            cookie: cookie.into(),
            mode: CookieModeState::Learn(LearnedAffinity {
                table: Arc::new(LearnedServers::new(limits, hash_key)),
                key: KeySource::Cookie,
                sources: Box::new([LearnSource::Cookie(cookie.into())]),
                keeps_unknown: true,
            }),
        }
    }

    /// By a key that the caller makes of each request; `name` tells one such key from another, `hash_key` is random. The server of a key is the one
    /// whose response says it at one of `sources`, or without any the first that gets a request with it.
    pub fn by_key(
        name: &str,
        sources: Vec<LearnSource>,
        limits: LearnedLimits,
        hash_key: [u64; 2],
    ) -> Affinity {
        Affinity {
            cookie: name.into(),
            mode: CookieModeState::Learn(LearnedAffinity {
                table: Arc::new(LearnedServers::new(limits, hash_key)),
                key: KeySource::Made,
                keeps_unknown: sources.is_empty(),
                sources: sources.into(),
            }),
        }
    }

    /// Lets the tokens of these servers name them, also where others have the same: servers that had the name
    /// before, at another address, and are on their way out.
    #[must_use]
    pub fn preferring(mut self, servers: impl IntoIterator<Item = ServerId>) -> Affinity {
        if let CookieModeState::Insert { tokens, .. } | CookieModeState::Prefix(tokens) = &mut self.mode {
            servers.into_iter().for_each(|server| tokens.prefer(server));
        }
        self
    }

    /// Takes over the entries that the affinity of the old config (same cookie, same limits) has learned about the same servers.
    #[must_use]
    pub fn remembering(self, before: &Affinity) -> Affinity {
        match (&self.mode, &before.mode) {
            (CookieModeState::Learn(new), CookieModeState::Learn(before)) => {
                let learned = LearnedAffinity {
                    table: Arc::clone(&before.table),
                    key: new.key,
                    sources: new.sources.clone(),
                    keeps_unknown: new.keeps_unknown,
                };
                Affinity { cookie: self.cookie, mode: CookieModeState::Learn(learned) }
            }
            _ => self,
        }
    }

    /// The places of these servers are others' from now on: what was learned of the ones before holds for neither.
    pub fn lose(&self, is_lost: impl Fn(ServerId) -> bool) {
        if let CookieModeState::Learn(learned) = &self.mode {
            learned.table.lose(is_lost);
        }
    }

    /// Whether the caller makes the key of requests.
    pub fn needs_key(&self) -> bool {
        matches!(&self.mode, CookieModeState::Learn(learned) if learned.key == KeySource::Made)
    }

    /// Where a request with this key belongs. `now_s` is as for [`Affinity::lookup`].
    pub fn lookup_key(&self, key: &[u8], now_s: u32) -> RequestAffinity {
        match &self.mode {
            CookieModeState::Learn(learned) => learned.lookup(key, now_s),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => RequestAffinity::default(),
        }
    }

    /// Where a request belongs, by the values of its Cookie fields. `now_s` is in seconds on a clock that does not go
    /// back.
    pub fn lookup<'a>(&self, fields: impl IntoIterator<Item = &'a [u8]>, now_s: u32) -> RequestAffinity {
        let own = |field: &'a [u8]| cookie_pairs(field).filter(|pair| pair.name == self.cookie.as_bytes());
        for pair in fields.into_iter().flat_map(own) {
            let server = match &self.mode {
                CookieModeState::Insert { tokens, .. } => tokens.server(unquoted(pair.value)),
                CookieModeState::Prefix(tokens) => {
                    mark(pair.value).and_then(|mark| tokens.server(&pair.value[mark]))
                }
                CookieModeState::Learn(learned) => {
                    return learned.lookup(pair.value, now_s);
                }
            };
            if server.is_some() {
                return RequestAffinity { server, key: None, is_known: true, is_gone: false, is_due: false };
            }
        }
        RequestAffinity::default()
    }

    /// Whether servers must not see the Cookie fields as the client sent them, if they hold the cookie.
    pub fn changes_requests(&self) -> bool {
        !matches!(self.mode, CookieModeState::Learn(_))
    }

    /// Whether clients must not see the Set-Cookie fields as the server sent them, if one sets the cookie.
    pub fn changes_responses(&self) -> bool {
        matches!(self.mode, CookieModeState::Prefix(_))
    }

    /// Appends a Cookie field's value as the server gets it: without Weir's cookie, without marks, and byte by byte as it came for the rest. Appends
    /// nothing when nothing is left.
    pub fn write_cookie(&self, out: &mut Vec<u8>, field: &[u8]) {
        let (start, mut is_first, mut removed) = (out.len(), true, false);
        for piece in field.split(|&byte| byte == b';') {
            let own = cookie_pairs(piece).find(|pair| pair.name == self.cookie.as_bytes());
            let mark = match (&self.mode, own) {
                (CookieModeState::Insert { .. }, Some(_)) => {
                    removed = true;
                    continue;
                }
                (CookieModeState::Prefix(tokens), Some(pair)) => {
                    let before = piece.len() - piece.trim_ascii_start().len() + pair.value_at;
                    let known =
                        mark(pair.value).filter(|mark| tokens.server(&pair.value[mark.clone()]).is_some());
                    known.map(|mark| before + mark.start..before + mark.end + 1)
                }
                _ => None,
            };
            if !is_first {
                out.push(b';');
            }
            let at = if is_first && removed { piece.len() - piece.trim_ascii_start().len() } else { 0 };
            match mark {
                Some(mark) => {
                    out.extend_from_slice(&piece[at..mark.start]);
                    out.extend_from_slice(&piece[mark.end..]);
                }
                None => out.extend_from_slice(&piece[at..]),
            }
            is_first = false;
        }
        if removed && out[start..].iter().all(|byte| *byte == b';' || byte.is_ascii_whitespace()) {
            out.truncate(start);
        }
    }

    /// The value of the Set-Cookie field that binds the client to `server`, if it needs one.
    pub fn set_cookie(&self, request: RequestAffinity, server: ServerId) -> Option<&str> {
        match &self.mode {
            CookieModeState::Insert { set_cookies, renews, .. }
                if *renews || request.server != Some(server) =>
            {
                set_cookies.get(server.index()).map(|text| &**text)
            }
            _ => None,
        }
    }

    /// Appends the value of a Set-Cookie field from `server` as the client gets it, if it sets the cookie that is marked.
    pub fn mark_set_cookie(&self, out: &mut Vec<u8>, field: &[u8], server: ServerId) -> bool {
        let CookieModeState::Prefix(tokens) = &self.mode else { return false };
        let Some(pair) = set_cookie(field).filter(|pair| pair.name == self.cookie.as_bytes()) else {
            return false;
        };
        let value_at = pair.value_at + usize::from(pair.value.first() == Some(&b'"'));
        out.extend_from_slice(&field[..value_at]);
        out.extend_from_slice(tokens.text(server).as_bytes());
        out.push(MARK);
        out.extend_from_slice(&field[value_at..]);
        true
    }

    /// Learns from a Set-Cookie field that `server` sends to the client.
    pub fn learn_set_cookie(&self, field: &[u8], server: ServerId, now_s: u32) {
        if let Some(key) = self.set_key(field) {
            self.learn_value(key, server, now_s);
        }
    }

    /// Learns a key that `server` says in a field; whether others who remember keys are to be told.
    pub fn learn_value(&self, value: &[u8], server: ServerId, now_s: u32) -> bool {
        match &self.mode {
            CookieModeState::Learn(learned) => learned.insert(value, server, now_s),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => false,
        }
    }

    /// The value of a Set-Cookie field that says a key.
    pub fn set_key<'a>(&self, field: &'a [u8]) -> Option<&'a [u8]> {
        let pair = set_cookie(field)?;
        let is_named = |source: &LearnSource| match source {
            LearnSource::Cookie(name) => pair.name == name.as_bytes(),
            LearnSource::Header(_) => false,
        };
        self.sources().iter().any(is_named).then(|| unquoted(pair.value))
    }

    /// The request belongs to this server, as others know.
    #[must_use]
    pub fn found(&self, request: RequestAffinity, server: ServerId, now_s: u32) -> RequestAffinity {
        if let Some(key) = request.key {
            self.remember(key, server, now_s);
        }
        RequestAffinity { server: Some(server), is_known: true, ..request }
    }

    /// Where responses say keys.
    pub fn sources(&self) -> &[LearnSource] {
        match &self.mode {
            CookieModeState::Learn(learned) => &learned.sources,
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => &[],
        }
    }

    /// Forgets the key of a request: its session is over.
    pub fn forget(&self, request: RequestAffinity) {
        if let (CookieModeState::Learn(learned), Some(key)) = (&self.mode, request.key) {
            learned.table.remove(key);
        }
    }

    /// How many keys have a server now; `None` where nothing is learned.
    pub fn learned_count(&self, now_s: u32) -> Option<usize> {
        match &self.mode {
            CookieModeState::Learn(learned) => Some(learned.table.len(now_s)),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => None,
        }
    }

    /// The key of the hash function of what is learned; zeros for that without one.
    pub fn hash_key(&self) -> [u64; 2] {
        match &self.mode {
            CookieModeState::Learn(learned) => learned.table.hash_key(),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => [0, 0],
        }
    }

    /// Goes on with the hash function of another process; nothing may have been learned yet.
    pub fn set_hash_key(&self, key: [u64; 2]) {
        if let CookieModeState::Learn(learned) = &self.mode {
            learned.table.set_hash_key(key);
        }
    }

    /// The name of the cookie, or of the key.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// What was learned: the hash of each key, and its server. For the table of another process.
    pub fn learned_servers(&self, now_s: u32) -> Vec<(u64, ServerId)> {
        match &self.mode {
            CookieModeState::Learn(learned) => learned.table.all(now_s),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => Vec::new(),
        }
    }

    /// Remembers what another process has learned: the hash of a key, which counts as used now.
    pub fn remember(&self, key: u64, server: ServerId, now_s: u32) {
        if let CookieModeState::Learn(learned) = &self.mode {
            learned.table.insert(key, server, now_s);
        }
    }

    /// Remembers that `server` now answers a client that belonged to another server, or whose server was forgotten. Where servers say keys
    /// ([`Affinity::by_key`]), one that none has said stays unknown: clients cannot fill the table.
    ///
    /// Returns whether others who remember keys are to be told.
    pub fn learn(&self, request: RequestAffinity, server: ServerId, now_s: u32) -> bool {
        if let (CookieModeState::Learn(learned), Some(key)) = (&self.mode, request.key)
            && request.server != Some(server)
            && (request.is_known || learned.keeps_unknown)
        {
            learned.table.insert(key, server, now_s);
            return true;
        }
        false
    }
}

impl LearnedAffinity {
    fn lookup(&self, key: &[u8], now_s: u32) -> RequestAffinity {
        let key = self.table.hash(unquoted(key));
        let known = self.table.lookup(key, now_s);
        RequestAffinity {
            server: known.server(),
            key: Some(key),
            is_known: known != LearnedKey::Unknown,
            is_gone: known == LearnedKey::Gone,
            is_due: matches!(known, LearnedKey::Due(_)),
        }
    }

    /// An empty value says nothing: so cookies are deleted.
    fn insert(&self, key: &[u8], server: ServerId, now_s: u32) -> bool {
        let key = unquoted(key);
        !key.is_empty() && self.table.insert(self.table.hash(key), server, now_s)
    }
}

/// Where the token is that Weir has put before a value, which may be quoted; the mark is behind it.
fn mark(value: &[u8]) -> Option<Range<usize>> {
    let start = usize::from(value.first() == Some(&b'"'));
    let len = value[start..].iter().position(|&byte| byte == MARK)?;
    Some(start..start + len)
}

/// A value without the quotation marks around it: some clients add them, some leave them out.
pub fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests;
