//! What the memory is used for: sums by the known sizes of what workers count, once per look and never on the path of a request.

use std::sync::Arc;

use weir_observe::{MemoryClassStats, PerWorker, WorkerShard};
use weir_proxy::state::snapshot::Snapshot;
use weir_proxy::worker::ObjectSizes;

use super::caches;
use super::usage::MemoryUsage;

/// What the event loop and the timers keep for a connection (decision 5).
const EVENT_LOOP_BYTES: u64 = 296;

/// What TLS keeps for an idle connection (decision 64).
const TLS_BYTES: u64 = 4_029;

/// What a request in a queue takes: its place, and that of its client.
const WAITER_BYTES: u64 = 128;

/// An entry of a table of limits by key.
const KEY_BYTES: u64 = 64;

/// The classes of a use, in the order of the documentation; the last one is what is in no other.
pub(super) fn classes(
    usage: MemoryUsage,
    snapshot: &Snapshot,
    shards: &[Arc<WorkerShard>],
    recorder: u64,
) -> Vec<MemoryClassStats> {
    let positive = |number: i64| u64::try_from(number).unwrap_or(0);
    let sum = |of: fn(&WorkerShard) -> i64| positive(shards.iter().map(|shard| of(shard)).sum());
    let sizes = ObjectSizes::of_this_build();
    let servers =
        snapshot.upstreams.iter().flat_map(|plan| plan.server_shards.iter().flat_map(PerWorker::used));
    let to_servers = positive(servers.map(|shard| shard.connections_open.value()).sum());
    let encrypted = snapshot.listeners.iter().filter(|plan| plan.tls.is_some());
    let encrypted = encrypted.flat_map(|plan| plan.state.shards.iter());
    let encrypted = positive(encrypted.map(|shard| shard.connections_open.value()).sum());
    let upstreams = snapshot.upstreams.iter().flat_map(|plan| plan.shards.used());
    let waiting = positive(upstreams.map(|shard| shard.queue_length.value()).sum());
    let keys: usize = snapshot.limits.iter().map(|limit| limit.keys()).sum();
    let buffers = sum(|shard| shard.buffers_in_use.value() + shard.buffers_free.value());
    let known = [
        (
            "connections",
            sum(|shard| shard.connections_open.value()) * (sizes.client_connection as u64 + EVENT_LOOP_BYTES)
                + to_servers * (sizes.server_connection as u64 + EVENT_LOOP_BYTES),
        ),
        (
            "streams",
            sum(|shard| shard.exchanges_open.value() + shard.exchanges_kept.value()) * sizes.exchange as u64,
        ),
        ("buffers", buffers * snapshot.process.buffer_size.bytes()),
        ("tls", encrypted * TLS_BYTES),
        ("queues", waiting * WAITER_BYTES),
        ("tables", keys as u64 * KEY_BYTES),
        ("cache", caches::bytes(snapshot)),
        ("recorder", recorder),
        ("sockets", usage.sockets),
    ];
    let accounted: u64 = known.iter().map(|(_, bytes)| bytes).sum();
    let other = ("other", usage.sum().saturating_sub(accounted));
    known.into_iter().chain([other]).map(|(name, bytes)| MemoryClassStats { name, bytes }).collect()
}
