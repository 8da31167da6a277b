//! The tables that outlive the process: ejected servers, what keys have used of their limits, counters by key, learned cookies, keys of session tickets.
//!
//! Pure: to and from the text of the message. Tables of many entries are packed, 16 bytes for each entry, little-endian, in Base64.

use std::fmt;
use std::time::Duration;

use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use weir_proxy::net::tls::tickets::HandedKeys;
use weir_proxy::state::limits::limit::RateDebts;
use weir_proxy::state::tables::table::TableContents;
use weir_traffic::limit::KeyDebt;
use weir_traffic::table::TableEntry;

/// Bytes of an entry.
const ENTRY_BYTES: usize = 16;

/// Entries of all tables together: a message has room for many times as much.
pub(crate) const ENTRIES_MAX: usize = 4_000_000;

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedTables {
    #[serde(default)]
    pub(crate) ejections: Vec<HandedEjection>,
    #[serde(default)]
    pub(crate) limits: Vec<HandedRate>,
    /// Tables of counters.
    #[serde(default)]
    pub(crate) tables: Vec<HandedTable>,
    /// Of listeners: connections that each client has opened.
    #[serde(default)]
    pub(crate) connection_rates: Vec<HandedRate>,
    #[serde(default)]
    pub(crate) cookies: Vec<HandedCookies>,
    #[serde(default)]
    pub(crate) tickets: Vec<HandedTickets>,
}

/// A server that outlier ejection has taken out of service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedEjection {
    pub(crate) upstream: String,
    pub(crate) server: String,
    /// Until it is tried.
    pub(crate) left_ms: u64,
    pub(crate) times: u32,
}

/// What keys have used of a rate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedRate {
    /// The limit, or the listener.
    pub(crate) name: String,
    shape: String,
    hash_key: [u64; 2],
    debts: Packed,
}

/// A table of counters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedTable {
    pub(crate) name: String,
    shape: String,
    hash_key: [u64; 2],
    entries: Vec<HandedEntry>,
}

/// An entry: the hash of its key, how long it was not used in milliseconds, the numbers of its counters, the beginning of its key in Base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct HandedEntry(u64, u64, Vec<u64>, String);

/// Cookies or keys of an upstream, and the servers that they belong to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedCookies {
    pub(crate) upstream: String,
    /// The name of the cookie, or the key.
    pub(crate) cookie: String,
    /// The key of their hash function; zeros for that without one.
    #[serde(default)]
    pub(crate) hash_key: [u64; 2],
    pub(crate) servers: Vec<String>,
    cookies: Packed,
}

/// What was learned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LearnedOf<'a> {
    pub(crate) upstream: &'a str,
    /// The name of the cookie, or the key.
    pub(crate) cookie: &'a str,
    pub(crate) hash_key: [u64; 2],
}

/// The keys of the session tickets of a listener.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HandedTickets {
    pub(crate) listener: String,
    keys: Vec<Secret>,
    left_ms: u64,
}

/// Bytes that no log may have.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Pairs of numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Packed(String);

impl Packed {
    fn new(entries: impl IntoIterator<Item = (u64, u64)>) -> Self {
        let bytes: Vec<u8> = entries
            .into_iter()
            .flat_map(|(first, second)| [first.to_le_bytes(), second.to_le_bytes()].into_iter().flatten())
            .collect();
        Self(BASE64.encode(&bytes))
    }

    /// Nothing of a text that is none.
    fn entries(&self) -> Vec<(u64, u64)> {
        let bytes = BASE64.decode(self.0.as_bytes()).unwrap_or_default();
        let entry = |entry: &[u8; ENTRY_BYTES]| {
            let (first, second) = entry.split_at(ENTRY_BYTES / 2);
            let number = |half: &[u8]| half.try_into().map_or(0, u64::from_le_bytes);
            (number(first), number(second))
        };
        bytes.as_chunks().0.iter().map(entry).collect()
    }
}

impl HandedRate {
    pub(crate) fn new(name: &str, debts: RateDebts) -> Self {
        let RateDebts { shape, hash_key, debts } = debts;
        let entry = |debt: KeyDebt| (debt.key, debt.full_in_ns << 1 | u64::from(debt.is_blocked));
        Self { name: name.to_owned(), shape, hash_key, debts: Packed::new(debts.into_iter().map(entry)) }
    }

    /// What is left of them after this time.
    pub(crate) fn debts(&self, later: Duration) -> RateDebts {
        let later_ns = u64::try_from(later.as_nanos()).unwrap_or(u64::MAX);
        let debt = |(key, word): (u64, u64)| {
            let full_in_ns = (word >> 1).checked_sub(later_ns).filter(|left| *left > 0)?;
            Some(KeyDebt { key, full_in_ns, is_blocked: word & 1 == 1 })
        };
        let debts = self.debts.entries().into_iter().filter_map(debt).collect();
        RateDebts { shape: self.shape.clone(), hash_key: self.hash_key, debts }
    }
}

impl HandedTable {
    pub(crate) fn new(name: &str, contents: TableContents) -> Self {
        let TableContents { shape, hash_key, entries, .. } = contents;
        let entry = |entry: TableEntry| {
            HandedEntry(entry.key, entry.idle_ms, entry.words, BASE64.encode(&entry.text))
        };
        let entries = entries.into_iter().map(entry).collect();
        Self { name: name.to_owned(), shape, hash_key, entries }
    }

    /// Its entries after this time.
    pub(crate) fn contents(&self, later: Duration) -> TableContents {
        let later_ms = u64::try_from(later.as_millis()).unwrap_or(u64::MAX);
        let entry = |HandedEntry(key, idle_ms, words, text): &HandedEntry| TableEntry {
            key: *key,
            text: BASE64.decode(text.as_bytes()).unwrap_or_default(),
            in_use: 0,
            idle_ms: *idle_ms,
            values: Vec::new(),
            words: words.clone(),
        };
        let entries = self.entries.iter().map(entry).collect();
        TableContents { shape: self.shape.clone(), hash_key: self.hash_key, entries, later_ms }
    }
}

impl HandedCookies {
    /// `cookies`: the hash of each, and the place of its server among `servers`.
    pub(crate) fn new(
        of: &LearnedOf<'_>,
        servers: Vec<String>,
        cookies: impl IntoIterator<Item = (u64, u64)>,
    ) -> Self {
        let (upstream, cookie) = (of.upstream.to_owned(), of.cookie.to_owned());
        Self { upstream, cookie, hash_key: of.hash_key, servers, cookies: Packed::new(cookies) }
    }

    /// The hash of each cookie, and its server.
    pub(crate) fn cookies(&self) -> impl Iterator<Item = (u64, &str)> {
        let named = |(cookie, server): (u64, u64)| {
            let server = usize::try_from(server).ok().and_then(|server| self.servers.get(server))?;
            Some((cookie, server.as_str()))
        };
        self.cookies.entries().into_iter().filter_map(named)
    }
}

impl HandedTickets {
    pub(crate) fn new(listener: &str, keys: &HandedKeys) -> Self {
        let left_ms = u64::try_from(keys.left.as_millis()).unwrap_or(u64::MAX);
        let keys = keys.keys.iter().map(|key| Secret(BASE64.encode(key))).collect();
        Self { listener: listener.to_owned(), keys, left_ms }
    }

    pub(crate) fn keys(&self, later: Duration) -> HandedKeys {
        let keys = self.keys.iter().filter_map(|key| BASE64.decode(key.0.as_bytes()).ok()).collect();
        HandedKeys { keys, left: Duration::from_millis(self.left_ms).saturating_sub(later) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debts_are_smaller_later() {
        let debt = |key, full_in_ns, is_blocked| KeyDebt { key, full_in_ns, is_blocked };
        let debts = vec![debt(u64::MAX, 5_000, true), debt(1, 1_000, false)];
        let (shape, hash_key) = ("shape".to_owned(), [1, u64::MAX]);
        let handed = HandedRate::new("one", RateDebts { shape, hash_key, debts });
        let text = serde_json::to_string(&handed).unwrap();
        let received: HandedRate = serde_json::from_str(&text).unwrap();
        let later = received.debts(Duration::from_nanos(1_000));
        assert_eq!((later.debts, later.hash_key), (vec![debt(u64::MAX, 4_000, true)], hash_key));
    }

    #[test]
    fn cookies_have_the_names_of_their_servers() {
        let servers = vec!["a".to_owned(), "b".to_owned()];
        let of = LearnedOf { upstream: "app", cookie: "SID", hash_key: [0, 0] };
        let handed = HandedCookies::new(&of, servers, [(7, 1), (8, 0), (9, 2)]);
        let cookies: Vec<_> = handed.cookies().collect();
        assert_eq!(cookies, [(7, "b"), (8, "a")], "there is no third server");
    }

    #[test]
    fn what_is_none_is_nothing() {
        assert_eq!(Packed("!".to_owned()).entries(), []);
        assert_eq!(Packed(BASE64.encode(&[0; 17])).entries(), [(0, 0)]);
    }

    #[test]
    fn secrets_are_not_shown() {
        let keys = HandedKeys { keys: vec![b"hush".to_vec()], left: Duration::from_secs(9) };
        let handed = HandedTickets::new("web", &keys);
        assert!(!format!("{handed:?}").contains(&BASE64.encode(b"hush")));
        assert_eq!(handed.keys(Duration::from_secs(2)), HandedKeys { left: Duration::from_secs(7), ..keys });
    }
}
