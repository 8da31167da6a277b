//! Limits that nodes share: the exchange with the store, one task for each.
//!
//! Each `interval`, what was used here since the last time goes to the store, which answers with what all nodes have used; the tables of the limits are raised to
//! that. Requests do not wait for any of it. When the store fails, each node has its limits for itself, until a connection succeeds again: then the debts of all
//! keys go there first, as the least that they owe.
//!
//! Tables of counters that nodes share are exchanged at the same moments. Affinity goes the same way, but as soon as there is something to tell or to ask.
//!
//! With sentinels, the store is their master: one task asks for it, and beside the exchange whether it still is.

mod sentinel;
mod counts;
mod affinity;
mod connection;
mod failure;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use weir_config::{ServerAddress, StorePlace};
use weir_http::resp::RespReply;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::stores::limit_store::{LimitStorePlan, SharedLimit};
use weir_proxy::state::stores::shared_table::SharedTable;
use weir_traffic::limit::{KeyUse, SharedDebt};

use connection::StoreConnection;
use failure::{StoreError, StoreFailure, StorePeer, StorePeerKind};
use sentinel::Sentinels;

/// The script that the store runs for each exchange.
const SCRIPT: &str = include_str!("exchange.lua");

/// Keys of one run of the script: the store does nothing else meanwhile, some hundred microseconds.
const KEYS_AT_ONCE: usize = 256;

/// How long the key of the hash function stays in the store once no node uses it.
const HASH_KEY_MS: &[u8] = b"86400000";

/// How often the store is asked for the key of the hash function, whether or not there is anything to exchange.
const CHECK_TIME: Duration = Duration::from_secs(1);

/// The pause before a connection is made anew: at first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

/// Exchanges the limits of a store until the task is dropped.
pub(crate) async fn keep_exchanging(store: Arc<LimitStorePlan>) {
    let mut trouble = Trouble::default();
    let mut source = match &store.config.place {
        StorePlace::Address(address) => StoreSource::Address(address),
        StorePlace::Master(master) => StoreSource::Sentinels(Sentinels::new(master, store.config.timeout)),
    };
    let mut master = None;
    loop {
        let failed = match &mut source {
            StoreSource::Address(address) => exchange_at(&store, address, &mut trouble).await,
            StoreSource::Sentinels(sentinels) => {
                exchange_with_master(&store, sentinels, &mut master, &mut trouble).await
            }
        };
        store.fail(&failed.to_string());
        trouble.report(&store, &failed);
        tokio::time::sleep(trouble.pause).await;
    }
}

/// Who says where the store is.
enum StoreSource<'a> {
    /// The config.
    Address(&'a ServerAddress),
    Sentinels(Sentinels<'a>),
}

/// What is said about a store that fails: once that it does, and once that it is over.
struct Trouble {
    pause: Duration,
    since: Option<Instant>,
}

impl Default for Trouble {
    fn default() -> Self {
        Self { pause: RETRY_FIRST, since: None }
    }
}

impl Trouble {
    fn report(&mut self, store: &LimitStorePlan, failure: &StoreFailure) {
        let config = &store.config;
        if self.since.is_some() {
            self.pause = (self.pause * 2).min(RETRY_MAX);
            return;
        }
        self.since = Some(clock::now());
        for (what, has) in shared(store) {
            tracing::warn!(
                store = &*config.name,
                address = %config.place,
                error = %failure,
                change = failure.change(),
                "{what} not shared any more: each node has {has} for itself until the store answers"
            );
        }
    }

    fn end(&mut self, store: &LimitStorePlan) {
        let Trouble { since, .. } = std::mem::take(self);
        let Some(since) = since else { return };
        let after = clock::now().saturating_duration_since(since);
        for (what, _) in shared(store) {
            tracing::info!(
                store = &*store.config.name,
                after_ms = after.as_millis() as u64,
                "{what} shared by nodes again"
            );
        }
    }
}

/// What is shared in a store, and what a node has of it without the store, in the words of the log.
fn shared(store: &LimitStorePlan) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = [
        (!store.affinities.is_empty(), ("affinity is", "its keys")),
        (!store.limits.is_empty(), ("limits are", "them")),
        (!store.tables.is_empty(), ("tables are", "them")),
    ];
    all.into_iter().filter_map(|(is_shared, words)| is_shared.then_some(words))
}

/// Exchanges with the store at this address until that fails.
async fn exchange_at(store: &LimitStorePlan, address: &ServerAddress, trouble: &mut Trouble) -> StoreFailure {
    let peer = StorePeer { kind: StorePeerKind::Store, address: address.clone() };
    let Err(error) = exchange(store, &peer, trouble).await;
    StoreFailure::new(&peer, error)
}

/// Asks for the master, and exchanges with it until that fails or it is the master no more. `known` is the one that the log has named.
async fn exchange_with_master(
    store: &LimitStorePlan,
    sentinels: &mut Sentinels<'_>,
    known: &mut Option<ServerAddress>,
    trouble: &mut Trouble,
) -> StoreFailure {
    let named = match sentinels.find().await {
        Ok(named) => named,
        Err(failure) => return failure,
    };
    let peer = StorePeer { kind: StorePeerKind::Master, address: named.address.clone() };
    if known.as_ref() != Some(&peer.address) {
        tracing::info!(
            store = &*store.config.name,
            master = %peer.address,
            "the sentinels name the master of the store"
        );
        *known = Some(peer.address.clone());
    }
    let error = tokio::select! {
        Err(error) = exchange(store, &peer, trouble) => error,
        next = sentinels.watch(named) => StoreError::Replaced(next),
    };
    if !matches!(error, StoreError::Replaced(_)) {
        sentinels.turn();
    }
    StoreFailure::new(&peer, error)
}

/// Connects, then exchanges again and again.
async fn exchange(
    store: &LimitStorePlan,
    peer: &StorePeer,
    trouble: &mut Trouble,
) -> Result<Infallible, StoreError> {
    let mut connection = connect(store, peer).await?;
    let script = match connection.ask_one(&[b"SCRIPT", b"LOAD", SCRIPT.as_bytes()]).await? {
        RespReply::String(Some(hash)) => hash,
        _ => return Err(StoreError::Unexpected("SCRIPT LOAD")),
    };
    let master = Some(peer).filter(|peer| peer.kind == StorePeerKind::Master);
    let master = master.map(|peer| peer.address.to_string());
    for limit in &store.limits {
        agree_on_limit(limit, &mut connection).await?;
        let debts = limit.begin();
        tell(limit, &debts, &script, &mut connection).await?;
        limit.is_shared(master.as_deref());
    }
    let _open = affinity::OpenSharing::new(&store.affinities);
    let counts = counts::CountsScript::load(&store.tables, &mut connection).await?;
    for table in &store.tables {
        agree_on_table(table, &mut connection).await?;
        counts.exchange(table, table.begin(), (&mut connection, &store.affinities)).await?;
        table.is_shared(master.as_deref());
    }
    trouble.end(store);
    let mut checked = clock::now();
    let mut turns = tokio::time::interval(store.config.interval);
    turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let has_turn = tokio::select! {
            _ = turns.tick() => true,
            () = affinity::changed(&store.affinities) => false,
        };
        for shared in &store.affinities {
            affinity::exchange(shared, &mut connection).await?;
        }
        if !has_turn {
            continue;
        }
        if clock::now().saturating_duration_since(checked) >= CHECK_TIME {
            if store.limits.is_empty() && store.tables.is_empty() {
                connection.ask_one(&[b"PING"]).await?;
            }
            for limit in &store.limits {
                if agree_on_limit(limit, &mut connection).await? {
                    limit.begin();
                }
            }
            for table in &store.tables {
                if agree_on_table(table, &mut connection).await? {
                    table.begin();
                }
            }
            checked = clock::now();
        }
        for limit in &store.limits {
            tell(limit, &limit.take(), &script, &mut connection).await?;
        }
        for table in &store.tables {
            counts.exchange(table, table.take(), (&mut connection, &store.affinities)).await?;
        }
    }
}

/// A connection on which commands can be sent.
async fn connect(store: &LimitStorePlan, peer: &StorePeer) -> Result<StoreConnection, StoreError> {
    let config = &store.config;
    let (tls, login) = (config.tls.as_ref(), config.login.as_ref());
    let mut connection = StoreConnection::open(&peer.address, tls, login, config.timeout).await?;
    if peer.kind == StorePeerKind::Master {
        sentinel::check_role(&mut connection).await?;
    }
    if config.database != 0 {
        connection.ask_one(&[b"SELECT", config.database.to_string().as_bytes()]).await?;
    }
    Ok(connection)
}

/// Has the keys of a limit mean the same on all nodes. Whether they meant something else here.
async fn agree_on_limit(limit: &SharedLimit, connection: &mut StoreConnection) -> Result<bool, StoreError> {
    let other = agree(&limit.prefix, limit.hash_key(), connection).await?;
    other.into_iter().for_each(|key| limit.adopt(key));
    Ok(other.is_some())
}

/// The same for a table.
async fn agree_on_table(table: &SharedTable, connection: &mut StoreConnection) -> Result<bool, StoreError> {
    let other = agree(&table.prefix, table.hash_key(), connection).await?;
    other.into_iter().for_each(|key| table.adopt(key));
    Ok(other.is_some())
}

/// The key of the hash function that is first in the store is that of all nodes: which one, if it is another one here.
async fn agree(
    prefix: &str,
    [first, second]: [u64; 2],
    connection: &mut StoreConnection,
) -> Result<Option<[u64; 2]>, StoreError> {
    let name = format!("{prefix}hash-key");
    let own = format!("{first:016x}{second:016x}");
    let (name, own) = (name.as_bytes(), own.as_bytes());
    let commands = [
        &[&b"SET"[..], name, own, b"NX", b"PX", HASH_KEY_MS][..],
        &[b"GET", name],
        &[b"PEXPIRE", name, HASH_KEY_MS],
    ];
    let replies = connection.ask(commands.into_iter()).await?;
    let [_, RespReply::String(Some(agreed)), _] = &replies[..] else {
        return Err(StoreError::Unexpected("GET"));
    };
    if agreed == own {
        return Ok(None);
    }
    let halves = std::str::from_utf8(agreed).ok().filter(|text| text.len() == own.len() && text.is_ascii());
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let halves = halves.and_then(|text| Some([number(&text[..16])?, number(&text[16..])?]));
    halves.map(Some).ok_or(StoreError::Unexpected("GET"))
}

/// Tells what was used, and learns what all nodes have used of the same keys.
async fn tell(
    limit: &SharedLimit,
    uses: &[KeyUse],
    script: &[u8],
    connection: &mut StoreConnection,
) -> Result<(), StoreError> {
    let debt_max_ns = match limit.is_capped {
        true => limit.tokens.refill_ns(),
        false => limit.tokens.shared_debt_max_ns(),
    };
    for uses in uses.chunks(KEYS_AT_ONCE) {
        let mut words = vec![b"EVALSHA".to_vec(), script.to_vec(), uses.len().to_string().into_bytes()];
        words.extend(uses.iter().map(|it| format!("{}{:016x}", limit.prefix, it.key).into_bytes()));
        let mut push = |micros: i64| words.push(micros.to_string().into_bytes());
        push(micros(debt_max_ns));
        push(micros(limit.tokens.blocked_max_ns()));
        for KeyUse { taken_ns, owed_ns, blocked_ns, .. } in uses {
            push(taken_ns.signum() * micros(taken_ns.unsigned_abs()));
            push(micros(*owed_ns));
            push(micros(*blocked_ns));
        }
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let asked = clock::now();
        let debts = match connection.ask_one(&words).await? {
            RespReply::Array(Some(debts)) if debts.len() == uses.len() => debts,
            _ => return Err(StoreError::Unexpected("EVALSHA")),
        };
        let debts: Option<Vec<SharedDebt>> =
            uses.iter().zip(debts).map(|(it, debt)| shared_debt(it.key, &debt)).collect();
        limit.learn(debts.ok_or(StoreError::Unexpected("EVALSHA"))?.into_iter(), asked);
    }
    Ok(())
}

fn shared_debt(key: u64, debt: &RespReply) -> Option<SharedDebt> {
    let RespReply::Integer(micros) = *debt else { return None };
    Some(SharedDebt { key, full_in_ns: micros.unsigned_abs().saturating_mul(1_000), is_blocked: micros < 0 })
}

/// Whole microseconds, not fewer: the debts of a batch of tokens lose nothing.
fn micros(nanos: u64) -> i64 {
    i64::try_from(nanos.div_ceil(1_000)).unwrap_or(i64::MAX)
}
