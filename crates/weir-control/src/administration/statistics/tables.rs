//! The tables of counters for overview and metrics.

use std::sync::Arc;

use weir_observe::overview::TableOverview;
use weir_observe::prometheus::TablePart;

use weir_proxy::state::snapshot::{Snapshot, TablePlan};

/// The tables, now.
pub(crate) fn overviews(snapshot: &Snapshot) -> Vec<TableOverview> {
    let overview = |plan: &Arc<TablePlan>| TableOverview {
        name: plan.name().to_owned(),
        key: plan.config.definition.key.to_string(),
        counters: plan.counters().map(|counter| counter.to_string()).collect(),
        keys: plan.keys() as u64,
        keys_max: plan.config.definition.keys_max as u64,
        evictions: plan.evictions(),
        untracked: plan.untracked(),
    };
    snapshot.tables.iter().map(overview).collect()
}

/// The data of a table for metrics.
pub(super) struct TableMetrics(pub(super) Arc<TablePlan>);

impl TablePart for TableMetrics {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn keys(&self) -> usize {
        self.0.keys()
    }

    fn keys_max(&self) -> usize {
        self.0.config.definition.keys_max
    }

    fn evictions(&self) -> u64 {
        self.0.evictions()
    }

    fn untracked(&self) -> u64 {
        self.0.untracked()
    }
}
