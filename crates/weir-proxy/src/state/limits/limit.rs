//! A limit by key in the form the data path uses, with what all workers share of it: the table of its keys, and its counters.
//!
//! The table goes on over reloads under the name of the limit, as long as the config keeps its shape. Must not answer clients.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_config::{KeyLimit, KeyLimitParts, RequestFrequency, Stage};
use weir_observe::{LimitShard, PerWorker};
use weir_traffic::limit::{
    BandwidthLimit, BucketLevel, ClientKey, ClientLimit, KeyDebt, RateLimit, TopKey, TopKeys,
};

use super::key_hasher::KeyHasher;
use super::limit_sharing::{SharingFigures, SharingState};
use crate::net::clock::{self, Instant};

/// Requests that wait for their turn at most, for each limit.
const WAITING_MAX: u32 = 10_000;

/// A limit by key.
#[derive(Debug)]
pub struct LimitPlan {
    /// The limit in the config.
    pub config: Arc<KeyLimit>,
    /// What goes on in the next config.
    pub state: Arc<LimitState>,
}

/// A limit where a listener or a route names it.
#[derive(Debug, Clone)]
pub(crate) struct LimitInUse {
    pub(crate) plan: Arc<LimitPlan>,
    /// Only of requests to the upstream in this place; `None`: of all.
    pub(crate) upstream: Option<usize>,
    /// The status of its refusals here; `None`: its own.
    pub(crate) status: Option<u16>,
    /// The stage at which its key is known.
    pub(crate) stage: Stage,
}

/// What a limit keeps over reloads.
#[derive(Debug)]
pub struct LimitState {
    table: Arc<LimitTable>,
    /// What each worker counts.
    pub shards: PerWorker<LimitShard>,
    /// The keys that each worker refuses most.
    top: PerWorker<Mutex<TopKeys>>,
    /// Requests that wait for their turn.
    waiting: AtomicU32,
}

/// Connections that each client may open in a time.
#[derive(Debug)]
pub struct ConnectionRate {
    /// The rate in the config.
    rate: RequestFrequency,
    hasher: KeyHasher,
    epoch: Instant,
    clients: RateLimit,
}

/// Clients that the table of a listener is made for.
const CLIENTS_MAX: usize = 100_000;

impl ConnectionRate {
    /// The table goes on from the listener of this name in the config of before, if its rate is the same.
    pub(in crate::state) fn new(
        rate: RequestFrequency,
        before: Option<&Arc<ConnectionRate>>,
    ) -> Option<Arc<Self>> {
        if let Some(before) = before.filter(|before| before.rate == rate) {
            return Some(Arc::clone(before));
        }
        let clients = RateLimit::new(rate.tokens().ok()?, CLIENTS_MAX);
        Some(Arc::new(Self { rate, hasher: KeyHasher::new(), epoch: clock::now(), clients }))
    }

    /// Whether the client may open a connection now.
    pub(crate) fn admits(&self, client: ClientKey, now: Instant) -> bool {
        let key = self.hasher.hash_one(client.number());
        self.clients.try_take(key, now.nanos_since(self.epoch)).is_ok()
    }

    /// What the clients have used of it, for another process.
    pub fn debts(&self) -> RateDebts {
        let now_ns = clock::now().nanos_since(self.epoch);
        RateDebts {
            shape: format!("{:?}", self.rate),
            hash_key: self.hasher.key(),
            debts: self.clients.debts(now_ns),
        }
    }

    /// Goes on from another process, if its rate is the same; no client has come yet.
    pub fn resume(&self, debts: &RateDebts) {
        if debts.shape == format!("{:?}", self.rate) {
            self.hasher.set_key(debts.hash_key);
            let now_ns = clock::now().nanos_since(self.epoch);
            debts.debts.iter().for_each(|debt| self.clients.owe(*debt, now_ns));
        }
    }
}

/// What keys have used of a rate, for another process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateDebts {
    /// What has to be the same there, as text.
    pub shape: String,
    /// The key of the hash function of keys.
    pub hash_key: [u64; 2],
    /// By the hashes of keys.
    pub debts: Vec<KeyDebt>,
}

/// What is known of the keys.
#[derive(Debug)]
pub(in crate::state) struct LimitTable {
    /// Keyed at random, so that no client can choose keys that meet in one place.
    pub(in crate::state) hasher: KeyHasher,
    /// Where the time of the table begins.
    pub(in crate::state) epoch: Instant,
    pub(in crate::state) rate: Option<RateLimit>,
    /// How the exchange with other nodes goes, if the limit is shared.
    pub(in crate::state) sharing: SharingState,
    concurrent: Option<ClientLimit>,
    bandwidth: Option<BandwidthLimit>,
}

/// What a limit says to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitAnswer {
    /// It goes on, after so many nanoseconds.
    Pass { wait_ns: u64 },
    /// It has come too soon, by so many nanoseconds.
    OverRate { retry_ns: u64 },
    /// Too many requests of its key run.
    OverConcurrency,
}

impl LimitPlan {
    /// `before`: the limit of this name in the config of before.
    pub(in crate::state) fn new(
        config: &Arc<KeyLimit>,
        workers: usize,
        before: Option<&LimitPlan>,
    ) -> LimitPlan {
        let table = before.filter(|before| has_same_table(&before.config, config));
        let table = table.map(|before| Arc::clone(&before.state.table));
        let state = LimitState {
            table: table.unwrap_or_else(|| Arc::new(LimitTable::new(config))),
            shards: before.map_or_else(|| PerWorker::new(workers), |before| before.state.shards.clone()),
            top: before.map_or_else(|| PerWorker::new(workers), |before| before.state.top.clone()),
            waiting: AtomicU32::new(0),
        };
        LimitPlan { config: Arc::clone(config), state: Arc::new(state) }
    }

    /// The hash of a key.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.state.table.hasher.hash_one(key)
    }

    /// The same of the network of an address.
    #[inline]
    pub(crate) fn hash_address(&self, address: IpAddr) -> u64 {
        self.state.table.hasher.hash_one(self.config.prefixes.network(address))
    }

    /// Takes from the rate of a key and from its concurrency, unless it is over one of them: then nothing is taken.
    #[inline]
    pub(crate) fn ask(&self, key: u64, now: Instant) -> LimitAnswer {
        let table = &*self.state.table;
        let now_ns = now.nanos_since(table.epoch);
        let mut wait_ns = 0;
        if let Some(rate) = &table.rate {
            let asked = match self.config.counts_responses() {
                true => rate.check(key, now_ns).map(|()| 0),
                false => rate.try_take(key, now_ns),
            };
            match asked {
                Ok(wait) => wait_ns = wait,
                Err(retry_ns) => return LimitAnswer::OverRate { retry_ns },
            }
        }
        if let Some(concurrent) = &table.concurrent
            && concurrent.try_acquire(ClientKey::of_hash(key)).is_err()
        {
            self.give_back_token(key);
            return LimitAnswer::OverConcurrency;
        }
        LimitAnswer::Pass { wait_ns }
    }

    /// Gives back what a request has taken of the rate that was refused for another reason.
    pub(crate) fn give_back_token(&self, key: u64) {
        if let Some(rate) = self.state.table.rate.as_ref().filter(|_| !self.config.counts_responses()) {
            rate.give_back(key);
        }
    }

    /// What is left of the rate of a key; `None`: it has no rate.
    pub(crate) fn level(&self, key: u64, now: Instant) -> Option<BucketLevel> {
        let table = &self.state.table;
        Some(table.rate.as_ref()?.level(key, now.nanos_since(table.epoch)))
    }

    /// Whether responses tell what is left of it.
    pub(crate) fn tells(&self) -> bool {
        self.config.fields_in_responses && self.config.rate.is_some() && !self.config.dry_run
    }

    /// Whether responses are sent no faster than it allows.
    pub(crate) fn is_pacing(&self) -> bool {
        self.config.bandwidth.is_some() && !self.config.dry_run
    }

    /// How many of `wanted` bytes of a response are taken next.
    pub(crate) fn next_piece(&self, key: u64, wanted: usize, now: Instant) -> usize {
        let table = &*self.state.table;
        let Some(bandwidth) = &table.bandwidth else { return wanted };
        bandwidth.next_piece(key, wanted, now.nanos_since(table.epoch))
    }

    /// Takes the next bytes of a key: when they may be sent.
    pub(crate) fn take_bytes(&self, key: u64, len: usize, now: Instant) -> Instant {
        let table = &*self.state.table;
        let Some(bandwidth) = &table.bandwidth else { return now };
        now + Duration::from_nanos(bandwidth.take(key, len, now.nanos_since(table.epoch)))
    }

    /// Gives back bytes that were not sent.
    pub(crate) fn give_back_bytes(&self, key: u64, len: usize) {
        if let Some(bandwidth) = &self.state.table.bandwidth {
            bandwidth.give_back(key, len);
        }
    }

    /// A request of the key is over that was under the limit on requests at once.
    pub(crate) fn release(&self, key: u64) {
        if let Some(concurrent) = &self.state.table.concurrent {
            concurrent.release(ClientKey::of_hash(key));
        }
    }

    /// Whether something is to be done when a request is over.
    pub(crate) fn is_held(&self) -> bool {
        self.state.table.concurrent.is_some() || self.config.counts_responses()
    }

    /// Counts a response with this status towards the rate of the key, if it is one that counts.
    pub(crate) fn count_response(&self, key: u64, status: u16, now: Instant) {
        if let Some(rate) = self.state.table.rate.as_ref().filter(|_| self.config.counts(status)) {
            rate.spend(key, now.nanos_since(self.state.table.epoch));
        }
    }

    /// Notes that a key was refused. Its text is shown to operators.
    pub(crate) fn note_refusal(&self, worker: usize, key: u64, text: &[u8], now: Instant) {
        let now_ns = now.nanos_since(self.state.table.epoch);
        let mut top = lock(self.state.top.of(worker));
        top.count(key, text, now_ns);
    }

    /// A place among the requests that wait; `None`: there are too many.
    pub(crate) fn wait(self: &Arc<Self>) -> Option<WaitingTurn> {
        let more = |waiting: u32| (waiting < WAITING_MAX).then_some(waiting + 1);
        let counted = self.state.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.is_ok().then(|| WaitingTurn(Arc::clone(self)))
    }

    /// The keys that were refused most, and how many milliseconds ago the last time was.
    pub fn top_refused(&self) -> Vec<(TopKey, u64)> {
        let mut all = TopKeys::default();
        self.state.top.used().for_each(|top| all.add(&lock(top)));
        let now_ns = clock::now().nanos_since(self.state.table.epoch);
        let ago = |key: TopKey| {
            let ago_ms = now_ns.saturating_sub(key.last_ns) / 1_000_000;
            (key, ago_ms)
        };
        all.into_sorted().into_iter().map(ago).collect()
    }

    /// How many keys the table holds that have used some of the limit.
    pub fn keys(&self) -> usize {
        let table = &self.state.table;
        let now_ns = clock::now().nanos_since(table.epoch);
        let by_rate = table.rate.as_ref().map_or(0, |rate| rate.keys(now_ns));
        let by_bandwidth = table.bandwidth.as_ref().map_or(0, |bandwidth| bandwidth.keys(now_ns));
        by_rate.max(by_bandwidth).max(table.concurrent.as_ref().map_or(0, ClientLimit::clients))
    }

    /// How many keys were forgotten although they had used some of it.
    pub fn evictions(&self) -> u64 {
        let table = &self.state.table;
        table.rate.as_ref().map_or(0, RateLimit::evictions)
            + table.bandwidth.as_ref().map_or(0, BandwidthLimit::evictions)
    }

    /// What keys have used of its rate, for another process; `None`: it has none.
    pub fn debts(&self) -> Option<RateDebts> {
        let table = &self.state.table;
        let now_ns = clock::now().nanos_since(table.epoch);
        let debts = table.rate.as_ref()?.debts(now_ns);
        Some(RateDebts { shape: self.shape(), hash_key: table.hasher.key(), debts })
    }

    /// Goes on from another process, if the keys mean the same there; no request has come yet.
    pub fn resume(&self, debts: &RateDebts) {
        let table = &self.state.table;
        if let Some(rate) = table.rate.as_ref().filter(|_| debts.shape == self.shape()) {
            table.hasher.set_key(debts.hash_key);
            let now_ns = clock::now().nanos_since(table.epoch);
            debts.debts.iter().for_each(|debt| rate.owe(*debt, now_ns));
        }
    }

    /// How the exchange with other nodes goes; `None`: the limit is of this node alone.
    pub fn sharing(&self) -> Option<SharingFigures> {
        let (store, table) = (self.config.shared.as_ref()?, &self.state.table);
        let dropped = table.rate.as_ref().map_or(0, RateLimit::untold_dropped);
        Some(table.sharing.figures(&store.name, dropped))
    }

    /// Its table, for the exchange with other nodes.
    pub(in crate::state) fn table(&self) -> Arc<LimitTable> {
        Arc::clone(&self.state.table)
    }

    /// What makes the debts of a key those of the same key elsewhere.
    pub(in crate::state) fn shape(&self) -> String {
        let KeyLimitParts { rate, prefixes, key, .. } = &**self.config;
        format!("{:?} {prefixes:?} {key:?}", rate.map(|rate| rate.tokens))
    }

    /// How many requests wait for their turn.
    pub fn waiting(&self) -> u32 {
        self.state.waiting.load(Ordering::Relaxed)
    }
}

impl LimitTable {
    fn new(config: &KeyLimit) -> LimitTable {
        LimitTable {
            hasher: KeyHasher::new(),
            epoch: clock::now(),
            rate: config.rate.map(|rate| {
                let limit = RateLimit::new(rate.tokens, config.keys_max);
                if config.shared.is_some() { limit.shared(config.keys_max) } else { limit }
            }),
            sharing: SharingState::default(),
            // The keys are hashes, which need no seed.
            concurrent: config.concurrent.map(|max| ClientLimit::new(max, config.keys_max, 0)),
            bandwidth: config.bandwidth.map(|bandwidth| {
                let rate = bandwidth.rate.bytes_per_second();
                BandwidthLimit::new(rate, bandwidth.burst.bytes(), config.keys_max)
            }),
        }
    }
}

/// Whether the keys of one config mean the same in another.
fn has_same_table(before: &KeyLimit, config: &KeyLimit) -> bool {
    let rate = |limit: &KeyLimit| limit.rate.map(|rate| rate.tokens);
    let shape =
        |limit: &KeyLimit| (rate(limit), limit.concurrent, limit.bandwidth, limit.keys_max, limit.prefixes);
    let store = |limit: &KeyLimit| limit.shared.as_ref().map(|store| store.name.clone());
    shape(before) == shape(config) && before.key == config.key && store(before) == store(config)
}

/// A request that waits for its turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct WaitingTurn(Arc<LimitPlan>);

impl Drop for WaitingTurn {
    fn drop(&mut self) {
        self.0.state.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a limit holds for a request until that is over: its place among the requests at once, and what its response will count.
#[derive(Debug)]
pub(crate) struct LimitHold {
    pub(crate) plan: Arc<LimitPlan>,
    pub(crate) key: u64,
    /// Whether it has a place; not when it went on although the limit was reached, since that is a dry run.
    pub(crate) has_place: bool,
}

impl Drop for LimitHold {
    fn drop(&mut self) {
        if self.has_place {
            self.plan.release(self.key);
        }
    }
}

fn lock(top: &Mutex<TopKeys>) -> std::sync::MutexGuard<'_, TopKeys> {
    top.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use weir_config::Config;

    use super::*;

    fn plan(keys: &str, before: Option<&LimitPlan>) -> Arc<LimitPlan> {
        let text = format!(
            "limit.one = {{ {keys} }}\nlistener.web = {{ address = \":0\", upstream = \"app\", limited_by = \"one\" }}\n\
             upstream.app.servers = [\"a:80\"]"
        );
        let config = Config::parse(&text, "weir.toml").expect("a good config");
        Arc::new(LimitPlan::new(&config.limits[0], 2, before))
    }

    #[test]
    fn a_refusal_by_concurrency_gives_the_token_back() {
        let plan = plan("rate = \"2/h\", concurrent = 1", None);
        let (key, now) = (plan.hash(b"a"), clock::now());
        assert_eq!(plan.ask(key, now), LimitAnswer::Pass { wait_ns: 0 });
        for _ in 0..5 {
            assert_eq!(plan.ask(key, now), LimitAnswer::OverConcurrency);
        }
        plan.release(key);
        assert_eq!(plan.ask(key, now), LimitAnswer::Pass { wait_ns: 0 });
        plan.release(key);
        assert!(matches!(plan.ask(key, now), LimitAnswer::OverRate { .. }));
        assert_eq!((plan.keys(), plan.evictions()), (1, 0));
    }

    #[test]
    fn the_requests_that_wait_are_bounded() {
        let plan = plan("rate = \"1/h\", delay = \"1m\"", None);
        let mut waiting: Vec<WaitingTurn> = std::iter::from_fn(|| plan.wait()).collect();
        assert_eq!((waiting.len(), plan.waiting()), (WAITING_MAX as usize, WAITING_MAX));
        waiting.pop();
        assert!(plan.wait().is_some() && plan.waiting() == WAITING_MAX - 1);
        drop(waiting);
        assert_eq!(plan.waiting(), 0);
    }

    /// A table of the same shape goes on; counters always do.
    #[test]
    fn a_table_goes_on_as_long_as_keys_mean_the_same() {
        let first = plan("rate = \"1/h\"", None);
        let (key, now) = (first.hash(b"a"), clock::now());
        first.ask(key, now);
        first.state.shards.of(1).passed.increment();
        for (keys, goes_on) in [
            ("rate = \"1/h\", status = 503, dry_run = true, count_status = 404", true),
            ("rate = \"1/h\", block = \"1m\"", false),
            ("rate = \"2/h\"", false),
            ("rate = \"1/h\", key = \"{host}\"", false),
            ("rate = \"1/h\", prefix.ipv4 = 24", false),
            ("rate = \"1/h\", keys_max = 7", false),
            ("rate = \"1/h\", concurrent = 1", false),
            ("rate = \"1/h\", bandwidth = \"1kB/s\"", false),
        ] {
            let next = plan(keys, Some(&first));
            let is_over = matches!(next.ask(key, now), LimitAnswer::OverRate { .. });
            assert_eq!(is_over && next.hash(b"a") == key, goes_on, "{keys}");
            assert_eq!(next.state.shards.used().map(|shard| shard.passed.value()).sum::<u64>(), 1, "{keys}");
        }
    }

    #[test]
    fn connections_have_a_rate() {
        let rate: RequestFrequency = "2/h".parse().unwrap();
        let clients = ConnectionRate::new(rate, None).unwrap();
        let client = |text: &str| ClientKey::from(text.parse::<IpAddr>().unwrap());
        let now = clock::now() + Duration::from_secs(1);
        let admits = |rate: &ConnectionRate, text| rate.admits(client(text), now);
        assert_eq!([0; 3].map(|_| admits(&clients, "192.0.2.1")), [true, true, false]);
        assert!(admits(&clients, "192.0.2.2"));
        let next = ConnectionRate::new(rate, Some(&clients)).unwrap();
        assert!(!admits(&next, "192.0.2.1"));
        let other = ConnectionRate::new("3/h".parse().unwrap(), Some(&clients)).unwrap();
        assert!(admits(&other, "192.0.2.1"));
    }
}
