//! A table of counters of the config: what has an entry, and what is counted for it. The counts are those of the data path.

use std::time::Duration;

use weir_traffic::balance::AddressPrefixes;
use weir_traffic::table::StoredCounter;

use super::{Template, TemplateValue};

/// A table of counters as the config defines it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TableDefinition {
    /// The name in the config.
    pub name: Box<str>,
    /// What has an entry: each value that this text comes to. Without values in it, all requests have one together.
    pub key: Template,
    /// The networks that `{client_address}` in the key stands for.
    pub prefixes: AddressPrefixes,
    /// The counters of an entry.
    pub stored: Vec<StoredCounter>,
    /// When an entry is forgotten that is not used.
    pub expire: Duration,
    /// How many keys have an entry at once.
    pub keys_max: usize,
}

impl TableDefinition {
    pub(crate) fn new(
        name: &str,
        (key, prefixes): (Template, AddressPrefixes),
        stored: Vec<StoredCounter>,
        (expire, keys_max): (Duration, usize),
    ) -> Self {
        Self { name: name.into(), key, prefixes, stored, expire, keys_max }
    }

    /// Whether the key is the address of the client and nothing else.
    pub fn is_by_address(&self) -> bool {
        let mut values = self.key.values();
        matches!((values.next(), values.next()), (Some(TemplateValue::ClientAddress), None))
            && self.key.parts().len() == 1
    }
}
