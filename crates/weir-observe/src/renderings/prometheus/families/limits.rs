//! Families of the limits by key.

use super::{Family, MetricType, Write, families, sums};
use crate::counters::shard::LimitShard;

pub(super) const FAMILIES: &[Family] = families! {
    "weir_limit_requests_total" Counter Limit, "Requests under the limit, by outcome: passed, delayed (and passed), refused, or excess (over a limit that is a dry run, and passed).",
        |samples, limit| {
            let outcomes = ["passed", "delayed", "refused", "excess"];
            let counts = sums(limit.shards().used(), |shard: &LimitShard| {
                [&shard.passed, &shard.delayed, &shard.refused, &shard.excess].map(|counter| counter.value())
            });
            for (outcome, count) in outcomes.into_iter().zip(counts) {
                samples.labelled(&[("outcome", outcome)], count);
            }
        };
    "weir_limit_paced_total" Counter Limit, "Responses that were slowed down to the bandwidth of the limit.",
        |samples, limit| {
            let [paced] = sums(limit.shards().used(), |shard: &LimitShard| [shard.paced.value()]);
            samples.value(paced);
        };
    "weir_limit_keys" Gauge Limit, "Keys that the table of the limit holds and that have used some of it.",
        |samples, limit| samples.value(limit.keys());
    "weir_limit_keys_max" Gauge Limit, "Keys that the table of the limit is made for (`keys_max`).",
        |samples, limit| samples.value(limit.keys_max());
    "weir_limit_evictions_total" Counter Limit, "Keys that were forgotten although they had used some of the limit, since the table had no room.",
        |samples, limit| samples.value(limit.evictions());
    "weir_limit_waiting" Gauge Limit, "Requests that wait for their turn.",
        |samples, limit| samples.value(limit.waiting());
    "weir_limit_shared" Gauge Limit, "Whether all nodes have one limit (1), or this one has it for itself since the store does not answer (0). Only of limits with `shared`.",
        |samples, limit| if let Some(sharing) = limit.sharing() {
            samples.value(u8::from(sharing.is_up));
        };
    "weir_limit_exchanged_keys_total" Counter Limit, "Keys whose use was exchanged with the store. Only of limits with `shared`.",
        |samples, limit| if let Some(sharing) = limit.sharing() {
            samples.value(sharing.exchanged);
        };
    "weir_limit_exchange_failures_total" Counter Limit, "Connections to the store, and exchanges with it, that have failed. Only of limits with `shared`.",
        |samples, limit| if let Some(sharing) = limit.sharing() {
            samples.value(sharing.failures);
        };
    "weir_limit_unshared_uses_total" Counter Limit, "Requests that other nodes do not know of, since more than `keys_max` keys were used between two exchanges. Only of limits with `shared`.",
        |samples, limit| if let Some(sharing) = limit.sharing() {
            samples.value(sharing.dropped);
        };
};
