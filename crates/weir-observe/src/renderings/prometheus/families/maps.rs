//! Families of the maps.

use super::{Family, MetricType, Write, families};

pub(super) const FAMILIES: &[Family] = families! {
    "weir_map_lookups_total" Counter Map, "Lookups of the map, by what they found: entry, database (a record of its database), or default (nothing). A request looks a map up wherever a rule asks for it.",
        |samples, map| {
            for (outcome, count) in ["entry", "database", "default"].into_iter().zip(map.lookups()) {
                samples.labelled(&[("outcome", outcome)], count);
            }
        };
    "weir_map_entries" Gauge Map, "Entries of the map, without the records of its database.",
        |samples, map| samples.value(map.entries());
    "weir_map_memory_bytes" Gauge Map, "Memory of the entries, without the database.",
        |samples, map| samples.value(map.memory_bytes());
    "weir_map_refused" Gauge Map, "Whether files of the map have changed and cannot be used, so that what was read before counts (1), or not (0). Only of maps with files.",
        |samples, map| map.is_refused().into_iter().for_each(|refused| samples.value(u8::from(refused)));
};
