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
    "weir_table_shared" Gauge Table, "Whether all nodes have one table (1), or this one has it for itself since the store does not answer (0). Only of tables with `shared`.",
        |samples, table| if let Some(sharing) = table.sharing() {
            samples.value(u8::from(sharing.is_up));
        };
    "weir_table_exchanged_keys_total" Counter Table, "Keys whose counts were exchanged with the store. Only of tables with `shared`.",
        |samples, table| if let Some(sharing) = table.sharing() {
            samples.value(sharing.exchanged);
        };
    "weir_table_exchange_failures_total" Counter Table, "Connections to the store, and exchanges with it, that have failed. Only of tables with `shared`.",
        |samples, table| if let Some(sharing) = table.sharing() {
            samples.value(sharing.failures);
        };
    "weir_table_unshared_uses_total" Counter Table, "Counts that other nodes do not know of, since too many keys were used between two exchanges. Only of tables with `shared`.",
        |samples, table| if let Some(sharing) = table.sharing() {
            samples.value(sharing.dropped);
        };
};
