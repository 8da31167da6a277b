//! Maps: from a text to another text, by equality, beginning, end, host, network or regular expression.
//!
//! What is asked first is what says most: the whole text, a host with a wildcard, the longest beginning, the longest end, the longest network, and then the
//! regular expressions in their order. That is the order of nginx's `map`.

#[cfg(test)]
mod tests;
mod lengths;
mod keys;
mod texts;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_traffic::limit::AddressTable;
use weir_traffic::route::{RouteRegex, ValueMatch};

use keys::{KeyRefused, KeyTable};
use lengths::{AffixRefused, AffixTable, LENGTHS_MAX};
use texts::{ValueTexts, ValueTextsBuilder};

/// The most regular expressions of one map: each is tried.
const REGEXES_MAX: usize = 1000;

/// How the key of an entry is compared with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// The text is the key.
    Exact,
    /// A host: the key, or any host below it for `*.example.com`, or both for `.example.com`.
    Host,
    /// The text begins with the key.
    Prefix,
    /// The text ends with the key.
    Suffix,
    /// The text is an address in the network.
    Network,
    /// The regular expression is found in the text.
    Regex,
}

impl MapKind {
    /// Every kind, in the order in which they are asked.
    pub const ALL: [MapKind; 6] =
        [MapKind::Exact, MapKind::Host, MapKind::Prefix, MapKind::Suffix, MapKind::Network, MapKind::Regex];

    /// Its name in the config.
    pub const fn as_str(self) -> &'static str {
        match self {
            MapKind::Exact => "exact",
            MapKind::Host => "host",
            MapKind::Prefix => "prefix",
            MapKind::Suffix => "suffix",
            MapKind::Network => "network",
            MapKind::Regex => "regex",
        }
    }
}

/// Why an entry cannot be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MapEntryError {
    /// The key is there already.
    #[error("the key is there already")]
    Known,
    /// There are more than 2 GiB of values, or more than 2^31 of them.
    #[error("the map is too large")]
    Full,
    /// Keys of too many lengths.
    #[error("keys of kind {0} have {LENGTHS_MAX} different lengths at most")]
    Lengths(&'static str),
    /// The key is no host, or has its wildcard elsewhere than at the start.
    #[error("{0:?} is no host; a wildcard stands at the start, as in `*.example.com`")]
    BadHost(String),
    /// The key is neither an address nor a network.
    #[error("{0:?} is neither an IP address nor a network")]
    BadNetwork(String),
    /// The key is an address within a network.
    #[error("{0:?} has bits behind its prefix; the network is {1}")]
    BitsBehindPrefix(String, IpNet),
    /// The regular expression is malformed or too large.
    #[error("{0}")]
    BadRegex(String),
    /// There are too many regular expressions.
    #[error("a map has {REGEXES_MAX} regular expressions at most")]
    Regexes,
}

/// A map. `V` is a value that is more than a text.
#[derive(Debug)]
pub struct ValueMap<V> {
    exact: KeyTable,
    hosts: AffixTable,
    prefixes: AffixTable,
    suffixes: AffixTable,
    networks: AddressTable,
    network_count: usize,
    regexes: Vec<(RouteRegex, u32)>,
    values: Vec<V>,
    texts: ValueTexts,
}

/// What a lookup has found.
#[derive(Debug, PartialEq, Eq)]
pub enum MapMatch<'a, V> {
    /// A text.
    Text(&'a [u8]),
    /// Another value, and the regular expression that has matched, if one has.
    Value(&'a V, Option<&'a RouteRegex>),
}

/// A map to which entries are added.
#[derive(Debug)]
pub struct ValueMapBuilder<V> {
    map: ValueMap<V>,
    texts: ValueTextsBuilder,
    networks: HashMap<IpNet, u32>,
}

/// Marks numbers of [`ValueMap::values`]; others are those of [`ValueMap::texts`].
const OTHER_VALUE: u32 = 1 << 31;

impl<V> Default for ValueMapBuilder<V> {
    fn default() -> Self {
        let map = ValueMap {
            exact: KeyTable::default(),
            hosts: AffixTable::default(),
            prefixes: AffixTable::default(),
            suffixes: AffixTable::default(),
            networks: AddressTable::default(),
            network_count: 0,
            regexes: Vec::new(),
            values: Vec::new(),
            texts: ValueTexts::default(),
        };
        Self { map, texts: ValueTextsBuilder::default(), networks: HashMap::new() }
    }
}

impl<V> ValueMapBuilder<V> {
    /// A map without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for so many entries of this kind, so that many are added quickly.
    pub fn reserve(&mut self, kind: MapKind, entries: usize) {
        match kind {
            MapKind::Exact | MapKind::Host => self.map.exact.reserve(entries),
            MapKind::Prefix => self.map.prefixes.keys.reserve(entries),
            MapKind::Suffix => self.map.suffixes.keys.reserve(entries),
            MapKind::Network | MapKind::Regex => {}
        }
    }

    /// Adds an entry whose value is a text.
    ///
    /// # Errors
    /// When the key is not one of this kind, or there already.
    pub fn insert_text(&mut self, kind: MapKind, key: &str, text: &[u8]) -> Result<(), MapEntryError> {
        let number = self.texts.insert(text, OTHER_VALUE).ok_or(MapEntryError::Full)?;
        self.insert_number(kind, key, number)
    }

    /// Adds an entry with another value.
    ///
    /// # Errors
    /// As [`Self::insert_text`].
    pub fn insert_value(&mut self, kind: MapKind, key: &str, value: V) -> Result<(), MapEntryError> {
        let number = u32::try_from(self.map.values.len()).unwrap_or(u32::MAX) | OTHER_VALUE;
        self.insert_number(kind, key, number)?;
        self.map.values.push(value);
        Ok(())
    }

    fn insert_number(&mut self, kind: MapKind, key: &str, number: u32) -> Result<(), MapEntryError> {
        let affix = |table: &mut AffixTable, key: &[u8]| {
            table.insert(key, number).map_err(|error| match error {
                AffixRefused::Key(error) => refused(error),
                AffixRefused::Lengths => MapEntryError::Lengths(kind.as_str()),
            })
        };
        let map = &mut self.map;
        match kind {
            MapKind::Exact => map.exact.insert(key.as_bytes(), number).map_err(refused),
            MapKind::Prefix => affix(&mut map.prefixes, key.as_bytes()),
            MapKind::Suffix => affix(&mut map.suffixes, key.as_bytes()),
            MapKind::Host => {
                let HostKey { itself, below } = host_key(key)?;
                if let Some(host) = itself {
                    map.exact.insert(host.as_bytes(), number).map_err(refused)?;
                }
                below.map_or(Ok(()), |suffix| affix(&mut map.hosts, suffix.as_bytes()))
            }
            MapKind::Network => match self.networks.entry(network(key)?) {
                Entry::Occupied(_) => Err(MapEntryError::Known),
                Entry::Vacant(place) => {
                    place.insert(number);
                    Ok(())
                }
            },
            MapKind::Regex => {
                if map.regexes.len() == REGEXES_MAX {
                    return Err(MapEntryError::Regexes);
                }
                if map.regexes.iter().any(|(known, _)| known.as_str() == key) {
                    return Err(MapEntryError::Known);
                }
                match ValueMatch::regex(key) {
                    Ok(ValueMatch::Regex(regex)) => {
                        let regex = if number >= OTHER_VALUE { regex.with_groups() } else { regex };
                        map.regexes.push((regex, number));
                        Ok(())
                    }
                    Ok(_) => Err(MapEntryError::BadRegex(key.to_owned())),
                    Err(error) => {
                        let error = error.to_string();
                        // The last line says what is wrong, those before show where.
                        let said = error.lines().last().unwrap_or_default();
                        let said = said.trim_start_matches("error: ");
                        Err(MapEntryError::BadRegex(format!("the regular expression is malformed: {said}")))
                    }
                }
            }
        }
    }

    /// The map with all its entries.
    pub fn build(mut self) -> ValueMap<V> {
        let map = &mut self.map;
        map.exact.shrink();
        for affixes in [&mut map.hosts, &mut map.prefixes, &mut map.suffixes] {
            affixes.keys.shrink();
        }
        map.texts = self.texts.build();
        map.values.shrink_to_fit();
        map.network_count = self.networks.len();
        map.networks = AddressTable::new(self.networks);
        self.map
    }
}

fn refused(error: KeyRefused) -> MapEntryError {
    match error {
        KeyRefused::Known => MapEntryError::Known,
        KeyRefused::Full => MapEntryError::Full,
    }
}

/// What a host of a map matches.
struct HostKey {
    itself: Option<String>,
    /// What all hosts below it end with.
    below: Option<String>,
}

fn host_key(key: &str) -> Result<HostKey, MapEntryError> {
    let host = key.to_ascii_lowercase();
    let (itself, below) = match (host.strip_prefix('*'), host.strip_prefix('.')) {
        (Some(below), _) => (None, Some(below.to_owned())),
        (None, Some(name)) => (Some(name.to_owned()), Some(host.clone())),
        (None, None) => (Some(host.clone()), None),
    };
    let name =
        itself.as_deref().or(below.as_deref().and_then(|below| below.strip_prefix('.'))).unwrap_or_default();
    let is_host = |name: &str| {
        !name.is_empty()
            && !name.starts_with('.')
            && !name.ends_with('.')
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte))
    };
    if is_host(name) { Ok(HostKey { itself, below }) } else { Err(MapEntryError::BadHost(key.to_owned())) }
}

fn network(key: &str) -> Result<IpNet, MapEntryError> {
    let network = key.parse::<IpNet>().ok().or_else(|| key.parse::<IpAddr>().ok().map(IpNet::from));
    match network {
        Some(network) if network.trunc() == network => Ok(network),
        Some(network) => Err(MapEntryError::BitsBehindPrefix(key.to_owned(), network.trunc())),
        None => Err(MapEntryError::BadNetwork(key.to_owned())),
    }
}

impl<V> ValueMap<V> {
    /// What belongs to a text.
    pub fn get(&self, text: &[u8]) -> Option<MapMatch<'_, V>> {
        self.get_text(text).or_else(|| self.get_regex(text))
    }

    /// The same by everything but regular expressions.
    pub fn get_text(&self, text: &[u8]) -> Option<MapMatch<'_, V>> {
        let number = self.exact.get(text);
        let number = number.or_else(|| self.hosts.longest_domain(text).filter(|_| !text.starts_with(b".")));
        let number = number.or_else(|| self.prefixes.longest_prefix(text));
        let number = number.or_else(|| self.suffixes.longest_suffix(text));
        self.value(number.or_else(|| self.by_address(text))?, None)
    }

    /// The same by regular expressions alone.
    pub fn get_regex(&self, text: &[u8]) -> Option<MapMatch<'_, V>> {
        let (regex, number) = self.regexes.iter().find(|(regex, _)| regex.is_match(text))?;
        self.value(*number, Some(regex))
    }

    fn by_address(&self, text: &[u8]) -> Option<u32> {
        if self.network_count == 0 {
            return None;
        }
        self.networks.get(std::str::from_utf8(text).ok()?.parse().ok()?)
    }

    fn value<'a>(&'a self, number: u32, regex: Option<&'a RouteRegex>) -> Option<MapMatch<'a, V>> {
        if number < OTHER_VALUE {
            return Some(MapMatch::Text(self.texts.get(number)));
        }
        self.values.get((number - OTHER_VALUE) as usize).map(|value| MapMatch::Value(value, regex))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        let affixes = [&self.hosts, &self.prefixes, &self.suffixes].map(|affixes| affixes.keys.len());
        self.exact.len() + affixes.iter().sum::<usize>() + self.network_count + self.regexes.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values that are more than a text.
    pub fn values(&self) -> &[V] {
        &self.values
    }

    /// About what its texts take on the heap, in bytes.
    pub fn heap_bytes(&self) -> usize {
        let affixes = [&self.hosts, &self.prefixes, &self.suffixes].map(|affixes| affixes.keys.heap_bytes());
        self.exact.heap_bytes() + self.texts.heap_bytes() + affixes.iter().sum::<usize>()
    }
}
