//! The whole document.

use std::sync::LazyLock;

use super::{
    CacheText, DiscoveryText, LimitText, ListText, ListenerText, MapText, RoutesFromText, StoreText,
    TableText, TracesText, UpstreamText,
};
use crate::config::{AccessLog, Admin, Dns, LogSettings, Metrics, Process, RecorderSettings};
use crate::key::{
    Bounds, ConfigSection as _, ConfigValue, Map, OneOrMany, SpannedTable, TreeReader, ValueKind, Vocabulary,
    section,
};
use crate::source::TreeNode;

section! {
    /// All keys are in one of these tables. At least one listener is required.
    #[derive(Debug, Clone)]
    pub(crate) struct Document at "" {
        /// Files that are read as part of this one, as paths or patterns (`*`, `?`, `[a-z]`, `**`) relative to this file. Listeners,
        /// upstreams and routes may be spread over files; any other key is set in one file only.
        include: OneOrMany<Box<str>> = optional, like "nginx `include`";
        /// Workers, limits of the whole process, stop and reload.
        process: SpannedTable<Process> = {};
        /// Weir's own log.
        log: LogSettings = {};
        /// The access log of every listener without one of its own.
        access_log: SpannedTable<AccessLog> = {};
        /// How names of servers are resolved.
        dns: SpannedTable<Dns> = {};
        /// Sources of servers.
        discovery: SpannedTable<DiscoveryText> = {};
        /// Status page, metrics and runtime changes.
        admin: SpannedTable<Admin> = {};
        /// Completed exchanges that are kept for `weir why`.
        recorder: RecorderSettings = {};
        /// The metrics for Prometheus.
        metrics: Metrics = {};
        /// Traces by OpenTelemetry.
        traces: SpannedTable<TracesText> = {}, like "nginx `ngx_otel_module`, HAProxy `filter opentracing`";
        /// Maps from texts of requests to other texts, by name.
        map: Map<SpannedTable<MapText>> = {}, like "nginx `map`, `geo`; HAProxy `map_*`";
        /// Lists of addresses and other keys: allowed, denied, slowed down or tagged, by name.
        list: Map<SpannedTable<ListText>> = {}, like "nginx `geo`, HAProxy `acl`";
        /// Limits on requests by client address, header and the like, by name.
        limit: Map<SpannedTable<LimitText>> = {}, like "nginx `limit_req_zone`, `limit_conn_zone`; HAProxy `stick-table`, Envoy `local_ratelimit`, Traefik `rateLimit`";
        /// Counters by client address, header and the like, which conditions, placeholders and the log ask for, by name.
        table: Map<SpannedTable<TableText>> = {}, like "HAProxy `stick-table`";
        /// Where several nodes share limits, tables and affinity, by name.
        store: Map<SpannedTable<StoreText>> = {}, like "Traefik `rateLimit.redis`, Envoy `rate_limit_service`, HAProxy `peers`";
        /// Keys under a name: a listener, a route, an upstream, a server, `health` or `files` takes them with `use = ["NAME"]`. A key that is
        /// set there counts; tables are merged key by key, and the routes of a block come to those of the listener. Blocks may use blocks, three
        /// deep. Two blocks that set the same key are an error. Only what says `use` has them: nothing is inherited.
        block: Map<BlockText> = {}, like "nginx `include` (of a part), HAProxy `defaults NAME`, Traefik `middlewares`";
        /// Stores of responses, by name.
        cache: Map<SpannedTable<CacheText>> = {}, like "nginx `proxy_cache_path`, HAProxy `cache`, Varnish `-s`";
        /// Stores whose keys hold routes and upstreams, by name.
        routes_from: Map<SpannedTable<RoutesFromText>> = {}, like "Traefik `providers.etcd`, `providers.consul`";
        /// Sockets that accept clients, by name.
        listener: Map<SpannedTable<ListenerText>> = {}, like "nginx `server`, HAProxy `frontend`, Envoy listener, Traefik entry point";
        /// Sets of servers, by name.
        upstream: Map<SpannedTable<UpstreamText>> = {}, like "nginx `upstream`, HAProxy `backend`, Envoy cluster, Traefik service";
    }
}

/// Keys under a name. They are put where they are used before anything is read, so this is only a place in the reference.
#[derive(Debug, Clone)]
pub(crate) struct BlockText;

impl ConfigValue for BlockText {
    fn kind(_: Bounds) -> ValueKind {
        ValueKind::AnyTable
    }

    fn read(_: &TreeNode, _: Bounds, _: &mut TreeReader<'_>) -> Option<Self> {
        Some(Self)
    }

    fn write(&self) -> String {
        "{}".to_owned()
    }
}

impl Document {
    /// Every table of a document, and the equivalents of its keys in other products.
    pub(crate) fn vocabulary() -> &'static Vocabulary {
        static VOCABULARY: LazyLock<Vocabulary> = LazyLock::new(|| Vocabulary::new(Document::SECTION));
        &VOCABULARY
    }
}
