//! All figures in the text format 0.0.4 of Prometheus, written piece by piece.
//!
//! Names follow its conventions: `weir_` first, the base unit last, `_total` on counters. Cardinality is bounded by the
//! config: names of listeners, upstreams and servers, and closed sets (classes, phases, reasons); nothing that a peer sends
//! becomes a label. All samples of a family stand together, so the servers are passed once for each family; each pass reads
//! each value from the shards, and a scrape holds one piece of the text.

mod scrape;
mod filter;
mod families;
mod source;
mod text;
mod buckets;
#[cfg(test)]
mod tests;

pub use self::buckets::BucketBounds;
pub use self::filter::{FamilyFilter, NoSuchFamily};
pub use self::scrape::{PIECE_BYTES, Scrape};
pub use self::source::{
    CacheHoldings, CachePart, DiskHoldings, KeyFetchTotals, LimitPart, ListenerPart, MapPart, MetricSource,
    NameTotals, SharingTotals, SourceTotals, TablePart, UpstreamPart,
};

/// The value of the `Content-Type` field.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
