//! Families of the upstreams.

use std::collections::BTreeMap;

use super::{
    Family, MetricType, Samples, Write, families, level, sum, sums, times, write_classes, write_reasons,
};
use crate::counters::counter::Counter;
use crate::counters::per_worker::PerWorker;
use crate::counters::shard::UpstreamShard;
use crate::renderings::prometheus::source::UpstreamPart;
use crate::words::affinity::AffinityOutcome;
use crate::words::retries::{RETRY_CAUSES, RETRY_REFUSALS};
use weir_http::grpc::GrpcStatus;

pub(super) const FAMILIES: &[Family] = families! {
    "weir_upstream_requests_total" Counter Upstream, "Exchanges routed to the upstream.",
        |samples, upstream| samples.value(sum(upstream.shards().used(), |shard| shard.requests.value()));
    "weir_upstream_queued_total" Counter Upstream, "Exchanges that entered the queue.",
        |samples, upstream| samples.value(sum(upstream.shards().used(), |shard| shard.queued.value()));
    "weir_upstream_queue_length" Gauge Upstream, "Exchanges in the queue.",
        |samples, upstream| samples.value(level(upstream.shards().used(), |shard| shard.queue_length.level()).now);
    "weir_upstream_queue_length_peak" Gauge Upstream, "Peak of exchanges in the queue: the sum of the peaks of all workers, an upper bound.",
        |samples, upstream| samples.value(level(upstream.shards().used(), |shard| shard.queue_length.level()).peak);
    "weir_upstream_panic" Gauge Upstream, "Panic mode: whether all servers get requests because too few are healthy (1) or not (0).",
        |samples, upstream| samples.value(u8::from(upstream.is_in_panic()));
    "weir_upstream_source_said_timestamp_seconds" Gauge Upstream, "When the source of servers last named them.",
        |samples, upstream| upstream.source().into_iter().for_each(|source| samples.value(source.said_at));
    "weir_upstream_source_stale" Gauge Upstream, "Whether the source of servers does not answer, so that the last known ones are in use (1), or does (0), be it with an empty answer that is not believed yet.",
        |samples, upstream| upstream.source().into_iter().for_each(|source| samples.value(u8::from(source.is_stale)));
    "weir_upstream_source_changes_total" Counter Upstream, "How often the source of servers has named others than before.",
        |samples, upstream| upstream.source().into_iter().for_each(|source| samples.value(source.changes));
    "weir_upstream_key_fetches_total" Counter Upstream, "Fetches of keys of tokens (`remote_keys`) from the upstream.",
        |samples, upstream| upstream.key_fetches().into_iter().for_each(|keys| samples.value(keys.fetches));
    "weir_upstream_key_fetch_failures_total" Counter Upstream, "Fetches of keys of tokens that brought no keys that can be used: those of before stay in use.",
        |samples, upstream| upstream.key_fetches().into_iter().for_each(|keys| samples.value(keys.failures));
    "weir_upstream_keys_fetched_timestamp_seconds" Gauge Upstream, "When keys of tokens were last fetched, of several those of the longest ago; 0 as long as there are none.",
        |samples, upstream| upstream.key_fetches().into_iter().for_each(|keys| samples.value(keys.fetched));
    "weir_upstream_names" Gauge Upstream, "Names of servers that requests have given and that are known, those that lead nowhere included. Only of upstreams with `dynamic`, as all families of names.",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.names));
    "weir_upstream_names_usable" Gauge Upstream, "Those of them with addresses.",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.usable));
    "weir_upstream_names_looked_up" Gauge Upstream, "Those of them that are being looked up, or wait for that.",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.looked_up));
    "weir_upstream_names_max" Gauge Upstream, "Names that are known at once at most (`dynamic.names_max`).",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.names_max));
    "weir_upstream_name_evictions_total" Counter Upstream, "Names that were forgotten to make room for others.",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.evictions));
    "weir_upstream_name_refusals_total" Counter Upstream, "Requests for a new name that found no room, since no other name could be forgotten.",
        |samples, upstream| upstream.names().into_iter().for_each(|names| samples.value(names.refusals));
    "weir_upstream_responses_total" Counter Upstream, "Responses of the upstream sent to clients, by status class.",
        |samples, upstream| {
            if upstream.shards().is_used() {
                write_classes(samples, classes(upstream.shards()));
            }
        };
    "weir_upstream_status_responses_total" Counter Upstream, "Responses of the upstream sent to clients, by status; a status outside 100 to 599 counts as 599.",
        |samples, upstream| {
            // Only statuses that occurred: an upstream has a dozen of them, of 500 that are possible.
            for (status, count) in statuses(upstream.shards()) {
                samples.labelled(&[("status", itoa::Buffer::new().format(status))], count);
            }
        };
    "weir_upstream_failures_total" Counter Upstream, "Failed exchanges of the upstream, by reason code and party.",
        |samples, upstream| write_reasons(samples, upstream.shards().used().map(|shard| &shard.failures));
    "weir_upstream_retries_total" Counter Upstream, "Retries, by the failure of the attempt before.",
        |samples, upstream| {
            let retries = || sums(upstream.shards().used(), |shard| values(&shard.retries));
            write_by(samples, upstream, "cause", RETRY_CAUSES, retries);
        };
    "weir_upstream_retries_refused_total" Counter Upstream, "Failed attempts that were not retried, by reason.",
        |samples, upstream| {
            let refused = || sums(upstream.shards().used(), |shard| values(&shard.retries_refused));
            write_by(samples, upstream, "reason", RETRY_REFUSALS, refused);
        };
    "weir_upstream_grpc_calls_total" Counter Upstream, "gRPC calls that are over, by status.",
        |samples, upstream| {
            let counts = sums(upstream.shards().used(), |shard| values(&shard.grpc_statuses));
            // Only of upstreams that have had calls, and statuses that occurred.
            for (status, count) in GrpcStatus::ALL.iter().zip(counts).filter(|(_, count)| *count > 0) {
                samples.labelled(&[("status", status.name())], count);
            }
        };
    "weir_upstream_affinity_total" Counter Upstream, "Responses with session affinity: client kept on its server, moved to another one, new, or answered 503 since it may have no other (`unavailable`).",
        |samples, upstream| {
            let counts = sums(upstream.shards().used(), |shard| values(&shard.affinity));
            // Only of upstreams that have it: the others would show three zeros each.
            if counts != [0; AffinityOutcome::ALL.len()] {
                write_by(samples, upstream, "outcome", AffinityOutcome::ALL.map(AffinityOutcome::name), || counts);
            }
        };
    "weir_upstream_queue_time_seconds" Histogram Upstream, "Time in the queue, of exchanges that entered it.",
        |samples, upstream| samples.histogram(&times(upstream.shards().used(), |shard| &shard.queue_time));
    "weir_upstream_exchange_time_seconds" Histogram Upstream, "Time from the first byte of the request to the last byte of the response.",
        |samples, upstream| samples.histogram(&times(upstream.shards().used(), |shard| &shard.exchange_time));
};

/// No samples for an upstream without requests.
fn write_by<const N: usize>(
    samples: &mut Samples<'_>,
    upstream: &dyn UpstreamPart,
    label: &str,
    words: [&str; N],
    counts: impl Fn() -> [u64; N],
) {
    if upstream.shards().is_used() {
        for (word, count) in words.into_iter().zip(counts()) {
            samples.labelled(&[(label, word)], count);
        }
    }
}

fn statuses(shards: &PerWorker<UpstreamShard>) -> BTreeMap<u16, u64> {
    let mut statuses = BTreeMap::new();
    for (status, count) in shards.used().flat_map(|shard| shard.responses.occurred()) {
        *statuses.entry(status).or_default() += count;
    }
    statuses
}

fn classes(shards: &PerWorker<UpstreamShard>) -> [u64; 5] {
    let mut classes = [0; 5];
    for (status, count) in shards.used().flat_map(|shard| shard.responses.occurred()) {
        classes[usize::from(status / 100 - 1)] += count;
    }
    classes
}

fn values<const N: usize>(counters: &[Counter; N]) -> [u64; N] {
    std::array::from_fn(|index| counters[index].value())
}
