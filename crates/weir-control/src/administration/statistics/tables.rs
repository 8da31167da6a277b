//! The tables of counters for overview and metrics, and the maps for metrics.

use std::sync::Arc;

use weir_config::{LiveMap, MapLookups, OwnValue};
use weir_observe::overview::{SharedOverview, TableOverview};
use weir_observe::prometheus::{MapPart, SharingTotals, TablePart};

use weir_proxy::state::limits::limit_sharing::SharingFigures;
use weir_proxy::state::snapshot::{Snapshot, TablePlan};

/// The tables, now.
pub(crate) fn overviews(snapshot: &Snapshot) -> Vec<TableOverview> {
    let table = |plan: &Arc<TablePlan>| TableOverview {
        name: plan.name().to_owned(),
        key: plan.config.definition.key.to_string(),
        counters: plan.counters().map(|counter| counter.to_string()).collect(),
        keys: plan.keys() as u64,
        keys_max: plan.config.definition.keys_max as u64,
        evictions: plan.evictions(),
        untracked: plan.untracked(),
        shared: plan.sharing().map(shared),
    };
    snapshot.tables.iter().map(table).collect()
}

/// How nodes share a limit or a table.
pub(super) fn shared(sharing: SharingFigures) -> SharedOverview {
    SharedOverview {
        store: sharing.store.into(),
        is_up: sharing.is_up,
        exchanged: sharing.exchanged,
        failures: sharing.failures,
        dropped: sharing.dropped,
        error: sharing.last_error.map(String::from),
        master: sharing.master.map(String::from),
    }
}

/// How the exchange of a limit or a table goes.
pub(super) fn sharing(figures: &SharingFigures) -> SharingTotals {
    let SharingFigures { is_up, exchanged, failures, dropped, .. } = *figures;
    SharingTotals { is_up, exchanged, failures, dropped }
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

    fn sharing(&self) -> Option<SharingTotals> {
        self.0.sharing().as_ref().map(sharing)
    }
}

/// The data of a map for metrics.
pub(super) struct MapMetrics {
    name: Box<str>,
    live: Arc<LiveMap>,
    has_files: bool,
}

impl MapMetrics {
    pub(super) fn new(own: &OwnValue) -> Option<Self> {
        let map = own.map()?;
        let (live, has_files) = (Arc::clone(map.live()?), map.sources().next().is_some());
        Some(Self { name: own.name().into(), live, has_files })
    }
}

impl MapPart for MapMetrics {
    fn name(&self) -> &str {
        &self.name
    }

    fn lookups(&self) -> [u64; 3] {
        let MapLookups { entry, database, default } = self.live.lookups();
        [entry, database, default]
    }

    fn entries(&self) -> usize {
        self.live.now().len()
    }

    fn memory_bytes(&self) -> usize {
        self.live.now().heap_bytes()
    }

    fn is_refused(&self) -> Option<bool> {
        self.has_files.then(|| self.live.problem().is_some())
    }
}
