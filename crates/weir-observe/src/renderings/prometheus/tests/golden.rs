//! Two workers that have counted something everywhere, and the text that must come of it.

use crate::counters::shard::{ProbeShard, ShardSizes, UpstreamShard, WorkerShard};
use crate::failure::{Cause, Failure};
use crate::words::phase::Phase;

/// Two listeners, an upstream of two servers and one of one server, all of them used by both workers.
pub(super) fn used_shards() -> Vec<WorkerShard> {
    (0..2).map(used_shard).collect()
}

fn used_shard(worker: u64) -> WorkerShard {
    let shard = WorkerShard::new(ShardSizes { listeners: 2, servers: &[2, 1] });
    shard.connections_accepted.add(7 + worker);
    shard.connections_open.set(3);
    shard.connections_handed_in.add(worker);
    shard.exchanges.add(900);
    shard.log_lines_dropped.add(2 * worker);
    shard.compression.compressed[0].add(5 + worker);
    shard.compression.decompressed[1].add(1);
    shard.compression.refused[4].add(3);
    shard.compression.bytes_in.add(40_000);
    shard.compression.bytes_out.add(9_000);
    shard.compression.nanos.add(2_500_000);
    shard.compression.open.set(2);
    shard.compression.step.set(1);
    for (listener, scale) in shard.listeners.iter().zip(1..) {
        listener.connections.add(10 * scale);
        listener.connections_open.set(4);
        listener.connections_open.set(2);
        listener.requests.add(450 * scale);
        listener.bytes_in.add(123_456 * scale);
        listener.tls_handshakes[1][0].add(scale);
        [200, 204, 301, 404, 503].into_iter().for_each(|status| listener.responses.record(status));
        listener.failures.record(Failure::server(Phase::Connect, Cause::Refused));
        listener.failures.record(Failure::client(Phase::Relay, Cause::Closed));
    }
    for (upstream, scale) in shard.upstreams.iter().zip(1..) {
        use_upstream(upstream, scale + worker);
    }
    shard
}

fn use_upstream(upstream: &UpstreamShard, scale: u64) {
    upstream.requests.add(300 * scale);
    upstream.queued.add(scale);
    upstream.queue_length.set(5);
    upstream.queue_length.set(1);
    [200, 200, 404, 502].into_iter().for_each(|status| upstream.responses.record(status));
    upstream.retries[0].add(scale);
    upstream.retries_refused[1].add(1);
    upstream.affinity[0].add(4);
    upstream.grpc_statuses[14].add(2);
    upstream.failures.record(Failure::server(Phase::Response, Cause::TimedOut));
    upstream.queue_time.record(40 * scale);
    upstream.exchange_time.record(5_000 * scale);
    for (server, count) in upstream.servers.iter().zip(1..) {
        server.attempts.add(300 * count);
        server.requests.add(299 * count);
        server.connects.add(count);
        server.connections_open.set(6);
        server.connections_idle.set(5);
        server.bytes_out.add(77);
        [100, 200, 500].into_iter().for_each(|status| server.responses.record(status));
        server.failures.record(Phase::Connect);
        server.outlier_failures.add(1);
        server.error_lines.add(3);
        [100, 128, 1_000_000, 40_000_000]
            .into_iter()
            .for_each(|micros| server.response_time.record(micros * scale));
        server.connect_time.record(250);
    }
}

/// The counters of the probes of one of the servers.
pub(super) fn used_probes() -> ProbeShard {
    let probes = ProbeShard::default();
    probes.passed.add(8);
    probes.failures.record(Failure::server(Phase::Response, Cause::UnexpectedStatus));
    probes.not_made.add(1);
    probes.changes.increment();
    probes.last_micros.set(2_001_500);
    probes
}
