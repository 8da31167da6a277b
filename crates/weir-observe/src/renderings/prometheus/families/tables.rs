//! Families of the tables of counters.

use super::{Family, MetricType, Write, families};

pub(super) const FAMILIES: &[Family] = families! {
    "weir_table_keys" Gauge Table, "Keys that have an entry in the table.",
        |samples, table| samples.value(table.keys());
    "weir_table_keys_max" Gauge Table, "Keys that the table is made for (`keys_max`).",
        |samples, table| samples.value(table.keys_max());
    "weir_table_evictions_total" Counter Table, "Keys that were forgotten before they had expired, since the table had no room.",
        |samples, table| samples.value(table.evictions());
    "weir_table_untracked_total" Counter Table, "Requests and connections that were not counted, since all entries of the table were in use by others.",
        |samples, table| samples.value(table.untracked());
};
