//! A table of counters in the form the data path uses: which entries an exchange has, and what all workers share of it.
//!
//! The counts go on over reloads under the name of the table, as long as its keys and its counters stay the same. Must not know an exchange.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Stage, TemplateFacts, TemplatePart, TemplateValue, TrackedTable};
use weir_http::digits;
use weir_traffic::table::{CounterTable, ExchangeResult, StoredCounter, TableCounter, TableEntry};

use crate::net::clock::{self, Instant};
use crate::state::limits::key_hasher::KeyHasher;
use crate::state::limits::limit_sharing::{SharingFigures, SharingState};

/// Keys of one exchange in one table at most, where it has several values of what the table is by.
const KEYS_MAX: usize = 8;

/// Where the time of a table begins, in milliseconds: later than any entry of another process was used last, or its period began.
const TIME_BEGINS_MS: u64 = 90 * 86_400_000;

/// Bytes of a secret, such as a token, that operators see: enough to know which it is.
const SHOWN_OF_SECRETS: usize = 4;

/// A table of counters.
#[derive(Debug)]
pub struct TablePlan {
    /// The table in the config.
    pub config: Arc<TrackedTable>,
    /// Whether conditions of it are asked at the end of an exchange.
    pub(crate) asks_at_end: bool,
    is_by_address: bool,
    state: Arc<TableState>,
}

/// What a table keeps over reloads.
#[derive(Debug)]
pub(in crate::state) struct TableState {
    /// Keyed at random, so that no client can choose keys that meet in one place.
    pub(in crate::state) hasher: KeyHasher,
    /// Where the time of the table begins.
    epoch: Instant,
    pub(in crate::state) counts: CounterTable,
    /// How the exchange with other nodes goes, if the table is shared.
    pub(in crate::state) sharing: SharingState,
}

impl TableState {
    fn new(config: &TrackedTable) -> Self {
        let definition = &config.definition;
        let counts = CounterTable::new(&definition.stored, definition.keys_max, definition.expire);
        let counts = if config.shared.is_some() { counts.shared() } else { counts };
        Self { hasher: KeyHasher::new(), epoch: clock::now(), counts, sharing: SharingState::default() }
    }

    /// The time of the table.
    pub(in crate::state) fn millis(&self, now: Instant) -> u64 {
        TIME_BEGINS_MS + now.nanos_since(self.epoch) / 1_000_000
    }
}

/// A table where a listener or a route names it.
#[derive(Debug, Clone)]
pub(crate) struct TableInUse {
    pub(crate) plan: Arc<TablePlan>,
    /// The stage at which it counts a request.
    pub(crate) stage: Stage,
}

/// The keys of an exchange in a table: the hash of each, and the place of its text among those that the key of the table comes to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TableKeys {
    keys: [(u64, usize); KEYS_MAX],
    len: usize,
}

impl TableKeys {
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, usize)> {
        self.keys.iter().copied().take(self.len)
    }

    fn add(&mut self, key: u64, nth: usize) {
        if self.iter().all(|(known, _)| known != key)
            && let Some(place) = self.keys.get_mut(self.len)
        {
            *place = (key, nth);
            self.len += 1;
        }
    }
}

/// A table with its entries, for another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableContents {
    /// What has to be the same there, as text.
    pub shape: String,
    /// The key of the hash function of keys.
    pub hash_key: [u64; 2],
    /// The entries.
    pub entries: Vec<TableEntry>,
    /// How long ago that was, in milliseconds.
    pub later_ms: u64,
}

impl TablePlan {
    /// `before`: the table of this name in the config of before.
    pub(in crate::state) fn new(config: &Arc<TrackedTable>, before: Option<&TablePlan>) -> TablePlan {
        let store = |config: &TrackedTable| config.shared.as_ref().map(|store| store.name.clone());
        let is_same = |before: &&TablePlan| {
            before.config.definition == config.definition && store(&before.config) == store(config)
        };
        let state = before.filter(is_same).map(|before| Arc::clone(&before.state));
        TablePlan {
            asks_at_end: config.asks_at_end(),
            is_by_address: config.definition.is_by_address(),
            state: state.unwrap_or_else(|| Arc::new(TableState::new(config))),
            config: Arc::clone(config),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.definition.name
    }

    fn millis(&self, now: Instant) -> u64 {
        self.state.millis(now)
    }

    /// How the exchange with other nodes goes; `None`: the table is of this node alone.
    pub fn sharing(&self) -> Option<SharingFigures> {
        let store = self.config.shared.as_ref()?;
        Some(self.state.sharing.figures(&store.name, self.state.counts.untold_dropped()))
    }

    /// What it keeps, for the exchange with other nodes.
    pub(in crate::state) fn state(&self) -> Arc<TableState> {
        Arc::clone(&self.state)
    }

    /// The keys that an exchange has in it: none where no placeholder of the key has a value. Of more than eight, the first ones and the last.
    pub(crate) fn find_keys(
        &self,
        facts: &impl TemplateFacts,
        address: impl Fn() -> IpAddr,
        text: &mut Vec<u8>,
    ) -> TableKeys {
        let mut keys = TableKeys::default();
        if self.is_by_address {
            keys.add(self.hash_address(address()), 0);
            return keys;
        }
        let count = self.config.definition.key.count(facts);
        let (first, last) = match count {
            count if count <= KEYS_MAX => (count, None),
            count => (KEYS_MAX - 1, Some(count - 1)),
        };
        for nth in (0..first).chain(last) {
            if self.write_key(facts, &address, nth, (text, false)) {
                keys.add(self.state.hasher.hash_one(&text[..]), nth);
            }
        }
        keys
    }

    fn hash_address(&self, address: IpAddr) -> u64 {
        self.state.hasher.hash_one(self.config.definition.prefixes.network(address))
    }

    /// Writes the text of a key; whether a placeholder of it has a value. Where it is shown, secrets are cut.
    fn write_key(
        &self,
        facts: &impl TemplateFacts,
        address: &impl Fn() -> IpAddr,
        nth: usize,
        (out, is_shown): (&mut Vec<u8>, bool),
    ) -> bool {
        out.clear();
        let key = &self.config.definition.key;
        let (mut has_value, mut rest) = (key.literal().is_some(), nth);
        for part in key.parts() {
            let value = match part {
                TemplatePart::Literal(text) => {
                    out.extend_from_slice(text.as_bytes());
                    continue;
                }
                TemplatePart::Value(value) => value,
            };
            let start = out.len();
            match value {
                TemplateValue::ClientAddress => {
                    digits::address(out, self.config.definition.prefixes.network(address()));
                }
                value => {
                    let count = if nth == 0 { 1 } else { facts.count(value) };
                    facts.write_nth(value, rest % count, out);
                    rest /= count;
                }
            }
            has_value |= out.len() > start;
            if !is_shown {
                // No value can end like another and begin like the next.
                out.push(0);
            } else if value.is_secret() && out.len() > start + SHOWN_OF_SECRETS {
                out.truncate(start + SHOWN_OF_SECRETS);
                out.extend_from_slice(b"...");
            }
        }
        has_value
    }

    /// Counts the beginning of an exchange under one of its keys; `None`: all entries are in use by other exchanges.
    pub(crate) fn begin(
        self: &Arc<Self>,
        (key, nth): (u64, usize),
        is_request: bool,
        (facts, address): (&impl TemplateFacts, impl Fn() -> IpAddr),
        now: Instant,
    ) -> Option<TableHold> {
        let text = || {
            let mut text = Vec::new();
            self.write_key(facts, &address, nth, (&mut text, true));
            text
        };
        let is_tracked = self.state.counts.begin(key, is_request, self.millis(now), text);
        is_tracked.then(|| TableHold { plan: Arc::clone(self), key, result: ExchangeResult::default() })
    }

    /// Raises a general purpose counter, by its number.
    pub(crate) fn increment(&self, key: u64, number: usize, now: Instant) {
        let counters = match number {
            0 => [TableCounter::General0, TableCounter::General0Rate],
            _ => [TableCounter::General1, TableCounter::General1Rate],
        };
        self.state.counts.increment(key, counters, self.millis(now));
    }

    /// A counter of a key.
    pub(crate) fn value(&self, key: u64, counter: TableCounter) -> u64 {
        self.state.counts.value(key, counter, self.millis(clock::now()))
    }

    /// The counters that it stores.
    pub fn counters(&self) -> impl Iterator<Item = StoredCounter> {
        self.state.counts.counters()
    }

    /// The entries that have not expired.
    pub fn entries(&self) -> Vec<TableEntry> {
        self.state.counts.entries(self.millis(clock::now()))
    }

    /// How many keys have an entry.
    pub fn keys(&self) -> usize {
        self.state.counts.keys()
    }

    /// Keys that were forgotten before they had expired, to make room.
    pub fn evictions(&self) -> u64 {
        self.state.counts.evictions()
    }

    /// Exchanges that were not counted, since all entries were in use.
    pub fn untracked(&self) -> u64 {
        self.state.counts.untracked()
    }

    /// The hash of a key by its text, as an operator writes it; `None`: its text cannot be told from others.
    pub fn key_of_text(&self, text: &str) -> Option<u64> {
        let key = &self.config.definition.key;
        if self.is_by_address {
            return Some(self.hash_address(text.parse().ok()?));
        }
        match key.parts() {
            [TemplatePart::Value(_)] => {
                let hashed = [text.as_bytes(), b"\0"].concat();
                Some(self.state.hasher.hash_one(&hashed[..]))
            }
            [] | [TemplatePart::Literal(_)] => {
                let all = key.literal().unwrap_or_default();
                (all == text).then(|| self.state.hasher.hash_one(all.as_bytes()))
            }
            _ => None,
        }
    }

    /// Forgets what was counted for a key. Whether it had an entry.
    pub fn clear(&self, key: u64) -> bool {
        self.state.counts.clear(key)
    }

    /// Sets a counter of a key; `false` where that cannot be.
    pub fn set(&self, key: u64, counter: TableCounter, value: u64, text: &str) -> bool {
        let now_ms = self.millis(clock::now());
        self.state.counts.set(key, (counter, value), now_ms, || text.as_bytes().to_vec())
    }

    /// What makes its entries those of the same table elsewhere.
    pub(in crate::state) fn shape(&self) -> String {
        let definition = &self.config.definition;
        let stored: Vec<String> = definition.stored.iter().map(StoredCounter::to_string).collect();
        format!("{} {:?} {}", definition.key, definition.prefixes, stored.join(","))
    }

    /// Everything in it, for another process.
    pub fn contents(&self) -> TableContents {
        TableContents {
            shape: self.shape(),
            hash_key: self.state.hasher.key(),
            entries: self.entries(),
            later_ms: 0,
        }
    }

    /// Goes on from another process, if keys and counters are the same; no request has come yet.
    pub fn resume(&self, contents: &TableContents) {
        if contents.shape == self.shape() {
            self.state.hasher.set_key(contents.hash_key);
            let now_ms = self.millis(clock::now());
            contents
                .entries
                .iter()
                .for_each(|entry| self.state.counts.resume(entry, contents.later_ms, now_ms));
        }
    }
}

/// An exchange that a table counts, until it is over.
#[derive(Debug)]
pub(crate) struct TableHold {
    pub(crate) plan: Arc<TablePlan>,
    pub(crate) key: u64,
    /// What it has come to.
    result: ExchangeResult,
}

impl TableHold {
    /// Counts what the exchange has come to.
    pub(crate) fn finish(mut self, result: ExchangeResult) {
        self.result = result;
    }
}

impl Drop for TableHold {
    fn drop(&mut self) {
        let now_ms = self.plan.millis(clock::now());
        self.plan.state.counts.finish(self.key, self.result, now_ms);
    }
}

#[cfg(test)]
mod tests {
    use weir_config::Config;

    use super::*;

    /// An exchange that has only headers, as many lines as there are.
    struct Headers(Vec<&'static str>);

    impl TemplateFacts for Headers {
        fn count(&self, _value: &TemplateValue) -> usize {
            self.0.len().max(1)
        }

        fn write_nth(&self, _value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
            out.extend_from_slice(self.0.get(nth).copied().unwrap_or_default().as_bytes());
        }

        fn write_first(&self, value: &TemplateValue, out: &mut Vec<u8>) {
            self.write_nth(value, 0, out);
        }
    }

    fn address() -> IpAddr {
        "192.0.2.77".parse().expect("an address")
    }

    fn plan(keys: &str, before: Option<&TablePlan>) -> Arc<TablePlan> {
        let text = format!(
            "table.one = {{ {keys} }}\nlistener.web = {{ address = \":0\", upstream = \"app\", track = \"one\" }}\n\
             upstream.app.servers = [\"a:80\"]"
        );
        let config = Config::parse(&text, "weir.toml").expect("a good config");
        Arc::new(TablePlan::new(&config.tables[0], before))
    }

    fn track(plan: &Arc<TablePlan>, facts: &Headers) -> Vec<TableHold> {
        let keys = plan.find_keys(facts, address, &mut Vec::new());
        let begin = |key| plan.begin(key, true, (facts, address), clock::now());
        keys.iter().filter_map(begin).collect()
    }

    #[test]
    fn keys_have_the_texts_that_operators_write() {
        for (keys, facts, expected) in [
            ("store = \"gpc0\"", Headers(vec![]), vec!["192.0.2.77"]),
            ("store = \"gpc0\", prefix.ipv4 = 24", Headers(vec![]), vec!["192.0.2.0"]),
            ("store = \"gpc0\", key = \"{header.x-a}\"", Headers(vec!["a", "b", "a"]), vec!["a", "b"]),
            ("store = \"gpc0\", key = \"{header.x-a}\"", Headers(vec![]), vec![]),
            ("store = \"gpc0\", key = \"{header.x-api-key}\"", Headers(vec!["abcdefg"]), vec!["abcd..."]),
            ("store = \"gpc0\", key = \"all\"", Headers(vec![]), vec!["all"]),
            (
                "store = \"gpc0\", key = \"{client_address} {header.x-a}\"",
                Headers(vec!["a"]),
                vec!["192.0.2.77 a"],
            ),
        ] {
            let plan = plan(keys, None);
            let holds = track(&plan, &facts);
            let mut texts: Vec<String> = plan
                .entries()
                .iter()
                .map(|entry| String::from_utf8_lossy(&entry.text).into_owned())
                .collect();
            texts.sort();
            assert_eq!(texts, expected, "{keys}");
            let is_whole = !texts.iter().any(|text| text.contains(' ') || text.ends_with("..."));
            for text in texts.iter().filter(|_| is_whole) {
                let key = plan.key_of_text(text).expect("it is one value");
                assert!(holds.iter().any(|hold| hold.key == key), "{keys}: {text}");
            }
        }
    }

    #[test]
    fn many_lines_have_eight_keys() {
        let plan = plan("store = [\"conn_cur\"], key = \"{header.x-a}\"", None);
        let lines = vec!["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"];
        let holds = track(&plan, &Headers(lines));
        let mut texts: Vec<Vec<u8>> = plan.entries().into_iter().map(|entry| entry.text).collect();
        texts.sort();
        assert_eq!(texts.concat(), b"abcdefgk");
        drop(holds);
        assert!(plan.entries().iter().all(|entry| entry.values == [0]), "all are over");
    }

    /// A table whose keys and counters stay the same goes on.
    #[test]
    fn counts_go_on_as_long_as_they_mean_the_same() {
        let first = plan("store = [\"http_req_cnt\", \"gpc0\"]", None);
        drop(track(&first, &Headers(vec![])));
        for (keys, goes_on) in [
            ("store = [\"http_req_cnt\", \"gpc0\"], when = \"path == '/a'\"", true),
            ("store = [\"http_req_cnt\", \"gpc0\"], increment.gpc0 = \"status == 404\"", true),
            ("store = [\"http_req_cnt\"]", false),
            ("store = [\"http_req_cnt\", \"gpc0\"], expire = \"1m\"", false),
            ("store = [\"http_req_cnt\", \"gpc0\"], keys_max = 7", false),
            ("store = [\"http_req_cnt\", \"gpc0\"], key = \"{host}\"", false),
        ] {
            let next = plan(keys, Some(&first));
            assert_eq!(next.keys() == 1, goes_on, "{keys}");
            let other = plan(keys, None);
            other.resume(&first.contents());
            let is_same_shape = goes_on || keys.contains("expire") || keys.contains("keys_max");
            assert_eq!(other.keys() == 1, is_same_shape, "in another process: {keys}");
        }
    }
}
