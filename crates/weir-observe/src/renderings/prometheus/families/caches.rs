//! Families of the caches of responses.

use super::{Family, MetricType, Write, families, sum, sums};
use crate::counters::shard::CacheShard;
use crate::words::cache_result::CacheResult;

pub(super) const FAMILIES: &[Family] = families! {
    "weir_cache_requests_total" Counter Cache, "Requests, by result: hit, stale (used all the same), revalidated (confirmed by the server), collapsed (fetched by another request meanwhile), miss, or bypass.",
        |samples, cache| {
            let counts = sums(cache.shards().used(), |shard: &CacheShard| {
                shard.requests.each_ref().map(|counter| counter.value())
            });
            for (result, count) in CacheResult::ALL.into_iter().zip(counts) {
                samples.labelled(&[("result", result.as_str())], count);
            }
        };
    "weir_cache_stored_total" Counter Cache, "Responses that were stored.",
        |samples, cache| samples.value(sum(cache.shards().used(), |shard: &CacheShard| shard.stored.value()));
    "weir_cache_not_stored_total" Counter Cache, "Responses to requests that missed which were not stored; the access log has the reason.",
        |samples, cache| samples.value(sum(cache.shards().used(), |shard: &CacheShard| shard.not_stored.value()));
    "weir_cache_refreshes_total" Counter Cache, "Stale responses that were refreshed behind a request which had its answer.",
        |samples, cache| samples.value(sum(cache.shards().used(), |shard: &CacheShard| shard.refreshes.value()));
    "weir_cache_sent_bytes_total" Counter Cache, "Bytes of bodies sent from the cache.",
        |samples, cache| samples.value(sum(cache.shards().used(), |shard: &CacheShard| shard.bytes_sent.value()));
    "weir_cache_responses" Gauge Cache, "Stored responses.",
        |samples, cache| samples.value(cache.holds().responses);
    "weir_cache_memory_bytes" Gauge Cache, "Memory of the stored responses, heads and bookkeeping included.",
        |samples, cache| samples.value(cache.holds().memory_bytes);
    "weir_cache_memory_max_bytes" Gauge Cache, "Memory that there is for stored responses (`memory`).",
        |samples, cache| samples.value(cache.holds().memory_bytes_max);
    "weir_cache_disk_files" Gauge Cache, "Stored responses in files.",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.files));
    "weir_cache_disk_bytes" Gauge Cache, "Disk of the stored responses in files.",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.bytes));
    "weir_cache_disk_max_bytes" Gauge Cache, "Disk that there is for stored responses (`disk.size`).",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.bytes_max));
    "weir_cache_disk_evictions_total" Counter Cache, "Files that have made room for others.",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.evictions));
    "weir_cache_disk_written_bytes_total" Counter Cache, "Bytes written to files: responses as a whole, and the heads alone of those that a server has confirmed or that a soft purge has marked stale.",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.written_bytes));
    "weir_cache_disk_write_failures_total" Counter Cache, "Responses that could not be written to files: the disk has failed, or was too slow.",
        |samples, cache| cache.holds().disk.into_iter().for_each(|disk| samples.value(disk.write_failures));
    "weir_cache_evictions_total" Counter Cache, "Responses that are not stored any more, by reason.",
        |samples, cache| {
            for (reason, count) in cache.holds().evictions {
                samples.labelled(&[("reason", reason)], count);
            }
        };
};
