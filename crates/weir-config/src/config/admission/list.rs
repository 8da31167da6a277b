//! `[list.NAME]`: addresses and other keys, and what becomes of requests that are among them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use weir_traffic::limit::AddressTable;

use crate::key::choice;
use crate::value::{Template, TemplateValue};

/// A list of keys with one action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessList {
    /// The name in the config and in logs.
    pub name: Box<str>,
    /// What becomes of requests whose key is in it.
    pub action: ListAction,
    /// What is looked up.
    pub key: Template,
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
    /// Networks of clients. The table has the places of what is known of them, which most have in common.
    Networks(AddressTable, Vec<NetworkEntry>),
    /// Keys that are compared whole, with their texts.
    Texts(HashMap<Box<[u8]>, Box<str>>),
}

/// What is known of a network.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NetworkEntry {
    /// The bits of the network, of 128: one of IPv4 has 96 more.
    pub bits: u8,
    /// What the list says of it.
    pub tag: Box<str>,
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
        /// they go on, with the text of the entry as `{tag}`
        Tag = "tag",
    }
}

impl AccessList {
    /// The bits of an entry that is one key and no network.
    pub const WHOLE_KEY_BITS: u8 = 128;

    /// Whether it has networks of clients.
    pub fn is_of_networks(&self) -> bool {
        matches!(self.entries, ListEntries::Networks(..))
    }

    /// How specific the entry of an address is, in bits, and its text.
    pub fn find_address(&self, address: IpAddr) -> Option<(u8, &str)> {
        let ListEntries::Networks(table, entries) = &self.entries else { return None };
        let entry = &entries[table.get(address)? as usize];
        Some((entry.bits, &entry.tag))
    }

    /// The same of another key.
    pub fn find_text(&self, key: &[u8]) -> Option<(u8, &str)> {
        let ListEntries::Texts(entries) = &self.entries else { return None };
        entries.get(key).map(|tag| (Self::WHOLE_KEY_BITS, &**tag))
    }
}

/// Whether a key is the address of the client and nothing else.
pub(crate) fn is_client_address(key: &Template) -> bool {
    key.parts().len() == 1 && key.values().eq([&TemplateValue::ClientAddress])
}
