//! Families of the limits by key.

use super::{Family, MetricType, Write, families, sums};
use crate::shard::LimitShard;

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
};
