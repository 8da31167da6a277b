//! Persistence: the requests of one client stay on one server, by a cookie.
//!
//! Three ways: Weir gives the client a cookie of its own, or marks the cookie of the application with the server, or
//! remembers which server gave out which value. All three only tell which server a request is bound to; whether that one
//! can have it is decided in [`admission`](crate::admission). Knows cookies as bytes, no messages.

mod attributes;
mod cookies;
mod learned;
mod tokens;

pub use attributes::{CookieAttributes, SameSite};
pub use learned::LearnedLimits;

use std::ops::Range;
use std::sync::Arc;

use crate::hash::hash_bytes;
use crate::server::ServerId;
use cookies::{cookie_pairs, set_cookie};
use learned::LearnedCookies;
use tokens::Tokens;

pub use cookies::{value as cookie_value, values as cookie_values};

/// Divides the token from the value of the application, in a cookie that is marked.
const MARK: u8 = b'~';

/// How the requests of a client are kept on its server.
#[derive(Debug)]
pub struct CookieAffinity {
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
    Learn(Arc<LearnedCookies>),
}

/// The server that a request is bound to, or the key to learn it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RequestAffinity {
    /// The server that its cookie names.
    pub server: Option<ServerId>,
    /// The hash of a cookie that servers give out, for [`CookieAffinity::learn`].
    key: Option<u64>,
}

impl CookieAffinity {
    /// Weir's own cookie, which the client gets with the first response. `tokens` name the servers, by [`ServerId`]:
    /// all different except where [`preferring`](Self::preferring) says which one is meant, of characters that a cookie
    /// may hold, none of them `~`.
    pub fn insert(cookie: &str, tokens: Vec<Box<str>>, attributes: &CookieAttributes) -> CookieAffinity {
        let tokens = Tokens::new(tokens);
        let set_cookie = |token: &str| format!("{cookie}={token}{attributes}").into();
        let set_cookies = tokens.texts().map(set_cookie).collect();
        let renews = attributes.lifetime.is_some();
        CookieAffinity {
            cookie: cookie.into(),
            mode: CookieModeState::Insert { tokens, set_cookies, renews },
        }
    }

    /// The cookie of the application, marked with the server on its way to the client and unmarked on its way back.
    /// `tokens` are as for [`CookieAffinity::insert`].
    pub fn prefix(cookie: &str, tokens: Vec<Box<str>>) -> CookieAffinity {
        CookieAffinity { cookie: cookie.into(), mode: CookieModeState::Prefix(Tokens::new(tokens)) }
    }

    /// The cookie of the application as it is; which server gave it out is remembered.
    pub fn learned(cookie: &str, limits: LearnedLimits) -> CookieAffinity {
        CookieAffinity {
            cookie: cookie.into(),
            mode: CookieModeState::Learn(Arc::new(LearnedCookies::new(limits))),
        }
    }

    /// Lets the tokens of these servers name them, also where others have the same: servers that had the name
    /// before, at another address, and are on their way out.
    #[must_use]
    pub fn preferring(mut self, servers: impl IntoIterator<Item = ServerId>) -> CookieAffinity {
        if let CookieModeState::Insert { tokens, .. } | CookieModeState::Prefix(tokens) = &mut self.mode {
            servers.into_iter().for_each(|server| tokens.prefer(server));
        }
        self
    }

    /// Takes over the entries that the affinity of the old config (same cookie, same limits) has learned about the same servers.
    #[must_use]
    pub fn remembering(self, before: &CookieAffinity) -> CookieAffinity {
        match (&self.mode, &before.mode) {
            (CookieModeState::Learn(_), CookieModeState::Learn(learned)) => {
                CookieAffinity { cookie: self.cookie, mode: CookieModeState::Learn(Arc::clone(learned)) }
            }
            _ => self,
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
                    let key = hash_bytes(unquoted(pair.value));
                    return RequestAffinity { server: learned.lookup(key, now_s), key: Some(key) };
                }
            };
            if server.is_some() {
                return RequestAffinity { server, key: None };
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
        let CookieModeState::Learn(learned) = &self.mode else { return };
        let sets = set_cookie(field).filter(|pair| pair.name == self.cookie.as_bytes());
        if let Some(value) = sets.map(|pair| unquoted(pair.value)).filter(|value| !value.is_empty()) {
            learned.insert(hash_bytes(value), server, now_s);
        }
    }

    /// The name of the cookie.
    pub fn cookie(&self) -> &str {
        &self.cookie
    }

    /// What was learned: the hash of each cookie, and its server. For the table of another process.
    pub fn learned_cookies(&self, now_s: u32) -> Vec<(u64, ServerId)> {
        match &self.mode {
            CookieModeState::Learn(learned) => learned.all(now_s),
            CookieModeState::Insert { .. } | CookieModeState::Prefix(_) => Vec::new(),
        }
    }

    /// Remembers what another process has learned: the hash of a cookie, which counts as used now.
    pub fn remember(&self, cookie: u64, server: ServerId, now_s: u32) {
        if let CookieModeState::Learn(learned) = &self.mode {
            learned.insert(cookie, server, now_s);
        }
    }

    /// Remembers that `server` now answers a client that belonged to another server, or whose server was forgotten.
    pub fn learn(&self, request: RequestAffinity, server: ServerId, now_s: u32) {
        if let (CookieModeState::Learn(learned), Some(key)) = (&self.mode, request.key)
            && request.server != Some(server)
        {
            learned.insert(key, server, now_s);
        }
    }
}

/// Where the token is that Weir has put before a value, which may be quoted; the mark is behind it.
fn mark(value: &[u8]) -> Option<Range<usize>> {
    let start = usize::from(value.first() == Some(&b'"'));
    let len = value[start..].iter().position(|&byte| byte == MARK)?;
    Some(start..start + len)
}

/// A value without the quotation marks around it: some clients add them, some leave them out.
fn unquoted(value: &[u8]) -> &[u8] {
    value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value)
}

#[cfg(test)]
mod tests;
