//! `[table.NAME]` in the text.

use std::time::Duration;

use weir_traffic::balance::AddressPrefixes;
use weir_traffic::table::{StoredCounter, StoredCounterError, TableCounter};

use crate::config::{EXPIRE, KEYS_MAX};
use crate::diagnostic::did_you_mean;
use crate::key::{OneOrMany, Spanned, TextFormat, section, text_values};
use crate::text::ConditionText;
use crate::value::{Template, ValueError};

section! {
    /// A table of counters by key, as HAProxy's stick tables. `track` of a listener or a route says what it counts; `table.NAME.COUNTER` in
    /// [conditions](#conditions) and `{table.NAME.COUNTER}` in texts with [placeholders](#placeholders) are the counters of the entry for the request,
    /// whether the request is counted or not. All places that name a table, and all workers, share it. See [Tables](#tables).
    #[derive(Debug, Clone)]
    pub(crate) struct TableText at "table.NAME" {
        /// Key; each distinct value has an entry. Text with [placeholders](#placeholders); without any, one entry for all requests together. A request in
        /// which no placeholder has a value is not counted. A key with `{user}` or `{jwt.NAME}` is evaluated after authentication. If a header has several
        /// lines, each line counts as a value.
        key: Spanned<Template> = "{client_address}", like "HAProxy `track-sc0 KEY`";
        /// The networks that count as one client in `{client_address}`.
        prefix: TablePrefixes = {}, like "HAProxy `ipmask`";
        /// The counters of an entry: `http_req_rate(10s)`, `gpc0` and the like, one or a list.
        store: OneOrMany<Spanned<StoredCounter>> = required, like "HAProxy `stick-table ... store`";
        /// A condition: only requests for which it holds are counted. See [Conditions](#conditions).
        when: ConditionText = optional, like "HAProxy `http-request track-sc0 ... if`";
        /// Conditions that raise the general purpose counters.
        increment: TableIncrements = {}, like "HAProxy `http-request sc-inc-gpc0`";
        /// The name of a [store](#storename) in which several nodes share the table: each learns what the others count, at most an `interval` of the store and
        /// its time to answer later. Without it, each node has the table for itself. Not with `conn_cur`. See [Tables](#tables).
        shared: Spanned<Box<str>> = optional, like "HAProxy `peers`";
        /// How long an entry is kept that is not used. While an exchange that it counts is open, it is used.
        expire: Duration = "10m", in EXPIRE, like "HAProxy `stick-table ... expire`";
        /// The maximum number of keys. Above it, the key that was used longest ago is evicted.
        keys_max: usize = 100_000, in KEYS_MAX, like "HAProxy `stick-table ... size`";
    }
}

section! {
    /// When a general purpose counter is raised by one, for a request that the table counts.
    #[derive(Debug, Clone)]
    pub(crate) struct TableIncrements at "table.NAME.increment" {
        /// A condition that raises `gpc0` and `gpc0_rate`: asked when the request is counted, or at the end of the exchange if it asks for what is known
        /// later, such as `status`.
        gpc0: ConditionText = optional, like "HAProxy `sc-inc-gpc0`";
        /// The same for `gpc1` and `gpc1_rate`.
        gpc1: ConditionText = optional, like "HAProxy `sc-inc-gpc1`";
    }
}

section! {
    /// The networks that count as one client.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct TablePrefixes at "table.NAME.prefix" {
        /// Bits of an IPv4 address.
        ipv4: u16 = 32, in 1..=32;
        /// Bits of an IPv6 address: a client usually has a network of 64 bits.
        ipv6: u16 = 64, in 1..=128;
    }
}

impl TableText {
    /// Its conditions.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &ConditionText> {
        [&self.when, &self.increment.gpc0, &self.increment.gpc1].into_iter().flatten()
    }
}

impl TablePrefixes {
    pub(crate) fn to_prefixes(self) -> AddressPrefixes {
        AddressPrefixes::new(self.ipv4 as u8, self.ipv6 as u8).unwrap_or_default()
    }
}

/// A counter as it is written, with a suggestion where there is none of the name.
fn stored_counter(text: &str) -> Result<StoredCounter, ValueError> {
    text.parse().map_err(|error: StoredCounterError| {
        let help = match &error {
            StoredCounterError::Unknown(name) => {
                did_you_mean(name, TableCounter::ALL.iter().map(|counter| counter.name()))
            }
            _ => None,
        };
        ValueError::new(error.to_string()).help_if(help)
    })
}

text_values! {
    StoredCounter, stored_counter, |value: &StoredCounter| value.to_string(), TextFormat {
        name: "counter",
        article: "a counter",
        examples: &["http_req_rate(10s)", "http_err_rate(1m)", "gpc0", "conn_cur"],
        pattern: r"^[a-z0-9_]+(\([0-9]+(ms|s|m|h|d)\))?$",
        about: "A [counter of a table](#tables); one that ends with `_rate` with its period in parentheses, from 10ms to 24h.",
    };
}
