//! `[list.NAME]`: addresses and other keys, and what becomes of requests that are among them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::time::Duration;

use ipnet::IpNet;
use weir_traffic::limit::AddressTable;

use crate::config::RuleFault;
use crate::config::{Checked, CheckedParts, FoundFaults};
use crate::key::choice;
use crate::value::{Template, TemplateValue, WhenCondition};

/// Statuses of refusals.
pub(crate) const REFUSAL_STATUSES: RangeInclusive<u64> = 400..=599;

/// How long a refusal may be put off, in milliseconds.
pub(crate) const TARPIT_DELAY: RangeInclusive<u64> = 1..=600_000;

/// A list of keys with one action.
pub type AccessList = Checked<AccessListParts>;

/// What makes up an [`AccessList`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AccessListParts {
    /// The name in the config and in logs.
    pub name: Box<str>,
    /// What becomes of requests whose key is in it.
    pub action: ListAction,
    /// What is looked up.
    pub key: Template,
    /// Only requests for which it holds are looked up.
    pub when: Option<WhenCondition>,
    /// The entries.
    pub entries: ListEntries,
    /// The status of refusals.
    pub status: u16,
    /// How long a refusal is put off.
    pub delay: Duration,
}

/// The entries of a list: networks, or texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListEntries {
    /// Networks of clients.
    Networks(NetworkTable),
    /// All requests for which the condition holds.
    All,
    /// Keys that are compared whole, with their texts.
    Texts(HashMap<Box<[u8]>, Box<str>>),
}

/// Networks and what the list says of each. The table has the places of what is known of them, which most have in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkTable {
    table: AddressTable,
    entries: Vec<NetworkEntry>,
}

/// What is known of a network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NetworkEntry {
    /// The bits of the network, of 128: one of IPv4 has 96 more.
    bits: u8,
    /// What the list says of it.
    tag: Box<str>,
}

impl NetworkTable {
    /// Networks, each with what the list says of it.
    pub fn new(networks: impl IntoIterator<Item = (IpNet, Box<str>)>) -> Self {
        let mut known: HashMap<NetworkEntry, u32> = HashMap::new();
        let mut entries = Vec::new();
        let place = |(network, tag): (IpNet, Box<str>)| {
            let entry = NetworkEntry { bits: bits(network), tag };
            let place = *known.entry(entry).or_insert_with_key(|entry| {
                entries.push(entry.clone());
                entries.len() as u32 - 1
            });
            (network, place)
        };
        let networks: Vec<(IpNet, u32)> = networks.into_iter().map(place).collect();
        Self { table: AddressTable::new(networks), entries }
    }
}

/// The bits of a network, of 128.
fn bits(network: IpNet) -> u8 {
    match network {
        IpNet::V4(network) => 96 + network.prefix_len(),
        IpNet::V6(network) => network.prefix_len(),
    }
}

choice! {
    /// What becomes of requests whose key is in a list.
    pub enum ListAction {
        /// they go on, and no limit is asked
        #[default]
        Allow = "allow",
        /// they are refused
        Deny = "deny",
        /// they are refused after a while, so that an attacker is slowed down
        Tarpit = "tarpit",
        /// their connection is closed without an answer; of HTTP/2, their stream
        Close = "close",
        /// they go on, with the text of the entry as `{tag}`
        Tag = "tag",
    }
}

impl ListAction {
    /// Whether requests in the list get no further.
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Deny | Self::Tarpit | Self::Close)
    }
}

impl AccessList {
    /// The bits of an entry that is one key and no network.
    pub const WHOLE_KEY_BITS: u8 = 128;
}

impl AccessListParts {
    /// Those of a list of networks of clients, with the defaults of the product.
    pub fn of_networks(
        name: &str,
        action: ListAction,
        networks: impl IntoIterator<Item = (IpNet, Box<str>)>,
    ) -> Self {
        Self {
            name: name.into(),
            action,
            key: TemplateValue::ClientAddress.into(),
            when: None,
            entries: ListEntries::Networks(NetworkTable::new(networks)),
            status: 403,
            delay: Duration::from_secs(10),
        }
    }

    /// Whether it has networks of clients.
    pub fn is_of_networks(&self) -> bool {
        matches!(self.entries, ListEntries::Networks(..))
    }

    /// Whether an address alone decides who is in it.
    pub fn says_who_a_peer_is(&self) -> bool {
        self.is_of_networks() && self.when.is_none()
    }

    /// How specific the entry of an address is, in bits, and its text.
    pub fn find_address(&self, address: IpAddr) -> Option<(u8, &str)> {
        let ListEntries::Networks(NetworkTable { table, entries }) = &self.entries else { return None };
        let entry = &entries[table.get(address)? as usize];
        Some((entry.bits, &entry.tag))
    }

    /// The same of another key.
    pub fn find_text(&self, key: &[u8]) -> Option<(u8, &str)> {
        let entries = match &self.entries {
            ListEntries::Texts(entries) => entries,
            ListEntries::All => return Some((AccessList::WHOLE_KEY_BITS, &self.name)),
            ListEntries::Networks(_) => return None,
        };
        entries.get(key).map(|tag| (AccessList::WHOLE_KEY_BITS, &**tag))
    }
}

impl CheckedParts for AccessListParts {
    fn place(&self) -> String {
        format!("list `{}`", self.name)
    }

    fn check(&self, faults: &mut FoundFaults) {
        let is_for_all = self.entries == ListEntries::All;
        faults.extend((self.key.literal().is_some() && !is_for_all).then_some(RuleFault::SameKeyForAll));
        faults.extend((is_for_all && self.when.is_none()).then_some(RuleFault::NoEntries));
        let is_other = self.is_of_networks() && !is_client_address(&self.key);
        faults.extend(is_other.then_some(RuleFault::NetworksByOtherKey));
        faults.check_key("status", &self.status, REFUSAL_STATUSES);
        faults.check_key("delay", &self.delay, TARPIT_DELAY);
    }
}

/// Whether a key is the address of the client and nothing else.
pub(crate) fn is_client_address(key: &Template) -> bool {
    key.parts().len() == 1 && key.values().eq([&TemplateValue::ClientAddress])
}
