//! The overview of the process at one moment: its figures, its live rates, and the state of each part.
//!
//! Read on the control thread by the code that shows it; the workers do not notice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_config::{
    HealthCheck, HealthProbe, Mirror, Redirect, Route, RouteAction, SplitAction, SplitTarget, UpstreamIndex,
    shown_conditions,
};
use weir_observe::haproxy::{CheckLayer, check_status};
use weir_observe::overview::{
    self, CacheOverview, DifferenceOverview, KeysOverview, LimitOverview, ListenerOverview, MirrorOverview,
    MirrorRouteOverview, Overview, PageOverview, ProbeOverview, ProcessOverview, Quantiles, RefusedKey,
    RouteOverview, ServerOverview, ServerStatus, SourceOverview, UpstreamOverview, WorkerOverview,
};
use weir_observe::{
    CacheResult, CacheShard, Counter, Level, LimitShard, ListenerStats, MemoryStats, RouteStats, ServerStats,
    Stats, UpstreamStats, WorkerShard,
};
use weir_traffic::limit::TopKey;
use weir_traffic::{Health, Mode, ServerTier};

use super::certificate_reports::certificates;
use super::collection;
use super::live_rates::{LiveRates, SAMPLE_INTERVAL};
use super::tables;
use crate::administration::admin_access::AdminAccess;
use crate::cluster::node::announcements::Announcements;
use crate::cluster::node::hand_over::{HandOver, NodeState};
use crate::lifecycle::panics;
use crate::lifecycle::privileges;
use crate::lifecycle::process;
use crate::lifecycle::process::open_files_max;
use crate::lifecycle::sockets::listening_sockets::BoundListener;
use crate::memory::MemoryView;
use crate::servers::modes::{ServerModes, UnknownServer};
use crate::telemetry::reload_counts::ReloadCounts;
use crate::telemetry::trace_counts::TraceCounts;
use weir_proxy::net::clock;
use weir_proxy::state::routes::access::FetchedKeys;
use weir_proxy::state::routes::mirror::{BodyDigest, MirrorDifference};
use weir_proxy::state::shared::Shared;
use weir_proxy::state::snapshot::{
    CachePlan, CurrentSnapshot, LimitPlan, ListenerPlan, MirrorPlan, RoutePlan, Snapshot, UpstreamPlan,
};

/// The addresses in use, for reports.
pub(crate) type BoundListeners = Arc<ArcSwap<Vec<BoundListener>>>;

/// Everything that an overview is made of.
pub(crate) struct Sources {
    pub(crate) shards: Vec<Arc<WorkerShard>>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) current: CurrentSnapshot,
    pub(crate) reloads: Arc<ReloadCounts>,
    /// The counts of spans.
    pub(crate) traces: Arc<TraceCounts>,
    pub(crate) modes: Arc<ServerModes>,
    pub(crate) bound: BoundListeners,
    pub(crate) via_name: Box<str>,
    pub(crate) access: Arc<AdminAccess>,
    pub(crate) hand_over: Arc<HandOver>,
    pub(crate) announcements: Arc<Announcements>,
    pub(crate) started_ms: u64,
    /// The last measurement of memory.
    pub(crate) memory: MemoryView,
    pub(crate) live_rates: LiveRates,
}

impl Sources {
    /// Samples the live rates until the task is dropped.
    pub(crate) async fn sample_live_rates(self: Arc<Self>) {
        let mut samples = tokio::time::interval(SAMPLE_INTERVAL);
        samples.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        loop {
            samples.tick().await;
            self.live_rates.sample(&self.current.load(), &self.shards);
        }
    }

    /// The config in use, ready for the data path.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The state of this node towards others.
    pub(crate) fn node_state(&self) -> NodeState {
        self.hand_over.state()
    }

    /// Whether the process is about to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.shared.stop_announced.load(Ordering::Relaxed)
    }

    /// Whether an upstream has a server that takes requests; `None`: there is no such upstream.
    pub(crate) fn is_usable(&self, upstream: &str) -> Option<bool> {
        let snapshot = self.current.load();
        let (_, plan) = snapshot.upstream(upstream)?;
        Some(plan.balancer().states().iter().any(|state| state.is_eligible()))
    }

    /// The weight of one server, now.
    ///
    /// # Errors
    /// When there is no such server.
    pub(crate) fn weight(&self, upstream: &str, server: &str) -> Result<u32, UnknownServer> {
        let snapshot = self.current.load();
        let (upstream, server) = find(&snapshot, upstream, server)?;
        Ok(snapshot.upstreams[upstream].balancer().states()[server].weight())
    }

    /// One server, now.
    ///
    /// # Errors
    /// When there is no such server.
    pub(crate) fn server_overview(
        &self,
        upstream: &str,
        server: &str,
    ) -> Result<ServerOverview, UnknownServer> {
        let snapshot = self.current.load();
        let (upstream, place) = find(&snapshot, upstream, server)?;
        let plan = &snapshot.upstreams[upstream];
        let unknown = || UnknownServer::Server(plan.config.name.to_string(), server.to_owned());
        let figures = collection::of_server(&snapshot, upstream, place).ok_or_else(unknown)?;
        Ok(self.server(plan, place, figures))
    }

    /// Whether there is such a server.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn knows(&self, upstream: &str, server: &str) -> Result<(), UnknownServer> {
        find(&self.current.load(), upstream, server).map(|_| ())
    }

    /// Everything, now.
    pub(crate) fn overview(&self) -> Overview {
        let snapshot = self.current.load_full();
        let shown = collection::shown(&snapshot);
        let (upstreams, servers) = (shown.len(), shown.iter().map(|(_, servers)| servers.len()).sum());
        self.overview_of(&snapshot, &shown, PageOverview { upstreams, servers, ..PageOverview::default() })
    }

    /// One page of the servers of one upstream or of all, and everything else; `None`: there is no such upstream, or no such page.
    pub(crate) fn page(&self, upstream: Option<&str>, number: usize) -> Option<Overview> {
        let snapshot = self.current.load_full();
        let (shown, page) = collection::page(&snapshot, upstream, number)?;
        Some(self.overview_of(&snapshot, &shown, page))
    }

    fn overview_of(
        &self,
        snapshot: &Snapshot,
        shown: &collection::ShownServers,
        page: PageOverview,
    ) -> Overview {
        let figures = collection::collect_of(shown, &self.shards, snapshot, &self.reloads, &self.traces);
        let Stats { workers, listeners, upstreams, reload, own_log_lines_dropped, .. } = figures;
        let access_log_lines_lost = workers.iter().map(|worker| worker.log_lines_dropped).sum();
        let bound = self.bound.load();
        let plans = snapshot.listeners.iter().zip(listeners);
        let listeners = plans.map(|(plan, figures)| self.listener(snapshot, plan, figures, &bound));
        let protocols = protocols(snapshot);
        let upstreams = shown.iter().zip(upstreams).map(|((place, shown), figures)| {
            let protocol = protocols[*place];
            UpstreamOverview { protocol, ..self.upstream(&snapshot.upstreams[*place], shown, figures) }
        });
        let mut connections_open = Level::default();
        workers.iter().for_each(|worker| connections_open.merge(worker.connections_open));
        Overview {
            page,
            process: ProcessOverview {
                access_log_lines_lost,
                own_log_lines_lost: own_log_lines_dropped,
                ..self.process(connections_open)
            },
            config: reload,
            routes_from: self.reloads.routes_from.load().to_vec(),
            listeners: listeners.collect(),
            limits: limits(snapshot),
            tables: tables::overviews(snapshot),
            caches: caches(snapshot),
            keys: keys(snapshot),
            certificates: certificates(snapshot),
            upstreams: upstreams.collect(),
            workers: (workers.into_iter().enumerate())
                .map(|(index, figures)| WorkerOverview {
                    exchanges_rate: self.live_rates.worker(index),
                    stats: figures,
                })
                .collect(),
        }
    }

    fn process(&self, connections_open: Level) -> ProcessOverview {
        let (open_files_max, system) = (open_files_max(), process::figures());
        ProcessOverview {
            version: env!("CARGO_PKG_VERSION"),
            name: self.via_name.to_string(),
            pid: std::process::id(),
            at_ms: unix_ms(),
            started_ms: self.started_ms,
            is_stopping: self.is_stopping(),
            state: self.node_state().name(),
            announcements: self.announcements.overview(),
            is_watched: self.announcements.is_watched(),
            connections_open,
            connections_max: u64::from(self.shared.connections.count_max()),
            open_files: system.open_fds,
            open_files_max,
            memory_bytes: system.resident_bytes,
            memory: MemoryStats::clone(&self.memory.load()),
            allows_changes: self.access.allows_changes(),
            access_log_lines_lost: 0,
            own_log_lines_lost: 0,
            confinement: privileges::overview(),
            panics: panics::overview(),
        }
    }

    fn listener(
        &self,
        snapshot: &Snapshot,
        plan: &ListenerPlan,
        mut figures: ListenerStats,
        bound: &[BoundListener],
    ) -> ListenerOverview {
        let config = &plan.config;
        let recent = self.live_rates.listener(&config.name);
        let of_listener = bound.iter().filter(|bound| bound.listener == config.name);
        let routes = plan.route_plans.iter().zip(std::mem::take(&mut figures.routes));
        ListenerOverview {
            name: config.name.to_string(),
            addresses: of_listener.map(|bound| bound.address.to_string()).collect(),
            protocol: config.protocol.name(),
            has_tls: config.tls.is_some(),
            connections_max: config.connections_max,
            maintenance: plan.state.maintenance(),
            routes: routes.map(|(plan, figures)| route_overview(snapshot, &plan.config, figures)).collect(),
            rates: recent.rates,
            history: recent.history,
            failures: overview::failure_counts(&figures.failures),
            tls_handshakes: ListenerOverview::handshakes_of(&figures),
            stats: figures,
        }
    }

    /// `shown` are the places of the servers that `figures` are about.
    fn upstream(&self, plan: &UpstreamPlan, shown: &[usize], mut figures: UpstreamStats) -> UpstreamOverview {
        let recent = self.live_rates.upstream(&plan.config.name);
        let servers = std::mem::take(&mut figures.servers).into_iter().zip(shown);
        let servers: Vec<_> = servers.map(|(figures, place)| self.server(plan, *place, figures)).collect();
        let [retries, retries_refused, affinity] = UpstreamOverview::counts_of(&figures);
        UpstreamOverview {
            name: plan.config.name.to_string(),
            protocol: HTTP,
            balance: plan.config.balance.name().to_owned(),
            when_full: plan.config.when_full.name(),
            servers_usable: (0..plan.config.servers.len())
                .filter(|place| status_of(plan, *place) == ServerStatus::Up)
                .count(),
            servers_total: collection::shown_servers(plan).len(),
            queue_length_max: plan.config.queue.length_max as u64,
            queue_time: Quantiles::new(&figures.queue_time),
            response_time: recent.response_time(),
            rates: recent.rates,
            history: recent.history,
            failures: overview::failure_counts(&figures.failures),
            retries,
            retries_refused,
            affinity,
            source: plan.source.said().map(|said| SourceOverview {
                name: said.source.to_string(),
                said_at_ms: said.said_at_ms,
                is_stale: said.is_stale,
                problem: said.problem.as_deref().map(str::to_owned),
                remark: said.remark.as_deref().map(str::to_owned),
                changes: plan.source.changes(),
            }),
            servers,
            stats: figures,
        }
    }

    fn server(&self, plan: &UpstreamPlan, place: usize, figures: ServerStats) -> ServerOverview {
        let (config, state) = (&plan.config.servers[place], &plan.balancer().states()[place]);
        let (rates, response_time) = self.live_rates.server(&plan.config.name, &config.name);
        let since = plan.live[place].last_change.get();
        let now = clock::now();
        let leaves_in = plan.leaves_at[place].map(|at| at.saturating_duration_since(now));
        let drains_in = || self.modes.deadline_in(&plan.config.name, &config.name, plan.millis(now));
        ServerOverview {
            name: config.name.to_string(),
            address: config.address.to_string(),
            endpoints: plan.live[place].endpoints.load().iter().map(ToString::to_string).collect(),
            status: status_of(plan, place),
            since_ms: since.at_ms,
            why: since.why.into_owned(),
            weight: state.weight(),
            ramp_percent: state.ramp() * 100 / weir_traffic::RAMP_FULL,
            is_backup: config.tier == ServerTier::Backup,
            is_last_resort: config.tier == ServerTier::LastResort,
            zone: config.description.as_ref().and_then(|it| it.zone.as_deref()).map(str::to_owned),
            metadata: metadata(config),
            max_requests: Some(state.max_requests()).filter(|max| *max > 0),
            in_flight: state.in_flight(),
            deadline_in_ms: leaves_in.map(|left| left.as_millis() as u64).or_else(drains_in),
            reuse_percent: ServerOverview::reuse_of(&figures),
            response_time,
            connect_time: Quantiles::new(&figures.connect_time),
            rates,
            failures: ServerOverview::failures_of(&figures),
            ejections: overview::named_counts(
                figures.ejections.iter().map(|(name, _)| *name),
                figures.ejections.iter().map(|(_, count)| count),
            ),
            probes: figures.probes.as_ref().map(|probes| ProbeOverview {
                passed: probes.passed,
                failed: probes.failures.total(),
                failures: overview::failure_counts(&probes.failures),
                last_us: probes.last_micros,
                check: check_status(layer_of(plan), probes.last),
                changes: probes.changes,
            }),
            stats: figures,
        }
    }
}

/// The mirrors of the routes, and where they have answered in another way.
pub(crate) fn mirrors(snapshot: &Snapshot) -> Vec<MirrorOverview> {
    let listeners = snapshot.listeners.iter();
    let routes =
        listeners.flat_map(|listener| listener.route_plans.iter().map(move |route| (listener, route)));
    let name = |upstream: UpstreamIndex| snapshot.upstreams[upstream.0].config.name.to_string();
    let mirror = |listener: &Arc<ListenerPlan>,
                  route: &RoutePlan,
                  copied_upstream: Option<String>,
                  plan: &MirrorPlan,
                  settings: &Mirror| {
        let mut figures = RouteStats::default();
        route.shards.used().for_each(|shard| figures.add(shard));
        MirrorOverview {
            listener: listener.config.name.to_string(),
            route: route.config.name.to_string(),
            copied_upstream,
            upstream: name(settings.upstream),
            share: settings.share.percent().round() as u32,
            compare: settings.compare.iter().map(|part| part.name()).collect(),
            stats: figures.mirror,
            routes: plan.state.differences_by_route().into_iter().map(route_differences).collect(),
            last_differences: plan.state.differences().into_iter().map(difference).collect(),
        }
    };
    let of_route = |(listener, route): (&Arc<ListenerPlan>, &RoutePlan)| -> Vec<MirrorOverview> {
        let of_way = |(way, first): (&RoutePlan, usize)| -> Vec<MirrorOverview> {
            let is_target = !std::ptr::eq(way, route);
            let copied = way.config.action.upstreams().next().filter(|_| is_target).map(name);
            let mirrors = way.mirrors.iter().zip(&way.config.mirrors).skip(first);
            mirrors.map(|(plan, settings)| mirror(listener, route, copied.clone(), plan, settings)).collect()
        };
        route.copying().flat_map(of_way).collect()
    };
    routes.flat_map(of_route).collect()
}

fn route_differences((route, differences): (Box<str>, [u64; 3])) -> MirrorRouteOverview {
    MirrorRouteOverview { route: route.into(), differences }
}

fn difference(found: MirrorDifference) -> DifferenceOverview {
    let body = |digest: BodyDigest| (digest.len, format!("{:032x}", digest.hash));
    DifferenceOverview {
        at: found.at,
        method: found.method.into(),
        target: found.target.into(),
        request_id: found.request_id.into(),
        status: found.status,
        mirror_status: found.mirror_status,
        grpc_status: found.calls.map(|[real, _]| real.name()),
        mirror_grpc_status: found.calls.map(|[_, mirror]| mirror.name()),
        headers: found.headers.into_iter().map(String::from).collect(),
        body: found.bodies.map(|[real, _]| body(real)),
        mirror_body: found.bodies.map(|[_, mirror]| body(mirror)),
        answered_by: found.answered_by.map(String::from),
    }
}

/// The limits by key, now.
pub(crate) fn limits(snapshot: &Snapshot) -> Vec<LimitOverview> {
    snapshot.limits.iter().map(|plan| limit(plan)).collect()
}

fn limit(plan: &LimitPlan) -> LimitOverview {
    let config = &plan.config;
    let count =
        |of: fn(&LimitShard) -> &Counter| plan.state.shards.used().map(|shard| of(shard).value()).sum();
    let key = |(key, last_ms_ago): (TopKey, u64)| {
        let text = String::from_utf8_lossy(&key.text).into_owned();
        RefusedKey { key: text, count: key.count, last_ms_ago }
    };
    LimitOverview {
        name: config.name.to_string(),
        key: config.key.to_string(),
        rule: config.rule(),
        is_dry_run: config.dry_run,
        passed: count(|shard| &shard.passed),
        delayed: count(|shard| &shard.delayed),
        refused: count(|shard| &shard.refused),
        excess: count(|shard| &shard.excess),
        waiting: plan.waiting().into(),
        keys: plan.keys() as u64,
        keys_max: config.keys_max as u64,
        evictions: plan.evictions(),
        shared: plan.sharing().map(tables::shared),
        top: plan.top_refused().into_iter().map(key).collect(),
    }
}

/// The keys of tokens that are fetched from servers, now.
pub(crate) fn keys(snapshot: &Snapshot) -> Vec<KeysOverview> {
    let keys = |fetched: &Arc<FetchedKeys>| {
        let (settings, figures) = (&fetched.settings, fetched.figures());
        let millis = |at: Duration| u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        KeysOverview {
            upstream: settings.upstream_name.to_string(),
            path: settings.path.to_string(),
            keys: fetched.now().map(|keys| keys.len() as u64),
            fetched_ms: figures.fetched.map(millis),
            fetches: figures.fetches,
            unchanged: figures.unchanged,
            failures: figures.failures,
            last_failure: figures.last_failure.map(String::from),
        }
    };
    snapshot.keys.iter().map(keys).collect()
}

/// The caches, now.
pub(crate) fn caches(snapshot: &Snapshot) -> Vec<CacheOverview> {
    snapshot.caches.iter().map(|plan| cache(plan)).collect()
}

fn cache(plan: &CachePlan) -> CacheOverview {
    let shards = &plan.state.shards;
    let count = |of: &dyn Fn(&CacheShard) -> &Counter| shards.used().map(|shard| of(shard).value()).sum();
    let holds = plan.holds();
    let by_result = |result: CacheResult| (result.as_str(), count(&|shard| &shard.requests[result as usize]));
    CacheOverview {
        name: plan.config.name.to_string(),
        requests: CacheResult::ALL.into_iter().map(by_result).collect(),
        stored: count(&|shard| &shard.stored),
        not_stored: count(&|shard| &shard.not_stored),
        responses: holds.responses,
        memory_bytes: holds.memory_bytes,
        memory_bytes_max: holds.memory_bytes_max,
        disk_files: holds.disk.map(|disk| disk.files),
        disk_bytes: holds.disk.map(|disk| disk.bytes),
        evictions: holds.evictions.into_iter().collect(),
    }
}

/// The places of an upstream and of one of its servers, by their names.
fn find(snapshot: &Snapshot, upstream: &str, server: &str) -> Result<(usize, usize), UnknownServer> {
    let found = snapshot.upstream(upstream);
    let (place, plan) = found.ok_or_else(|| UnknownServer::Upstream(upstream.to_owned()))?;
    let unknown = || UnknownServer::Server(upstream.to_owned(), server.to_owned());
    Ok((place, collection::shown_server(plan, server).ok_or_else(unknown)?))
}

/// The layer that the probes of an upstream check.
fn layer_of(plan: &UpstreamPlan) -> CheckLayer {
    match plan.config.health.as_ref() {
        Some(check) if check.dialogue.is_some() => CheckLayer::Answer,
        Some(HealthCheck { probe: HealthProbe::Http(_) | HealthProbe::Grpc(_), .. }) => CheckLayer::Answer,
        Some(HealthCheck { probe: HealthProbe::Tls, .. }) => CheckLayer::Tls,
        Some(HealthCheck { probe: HealthProbe::Tcp, .. }) | None => CheckLayer::Connection,
    }
}

const HTTP: &str = "http";

/// The protocol of each upstream: `tcp` where only TCP listeners send to it.
fn protocols(snapshot: &Snapshot) -> Vec<&'static str> {
    let mut senders = vec![(false, false); snapshot.upstreams.len()];
    for listener in &snapshot.listeners {
        let is_tcp = !listener.config.protocol.routes_requests();
        for route in &listener.route_plans {
            for UpstreamIndex(target) in route.config.action.upstreams() {
                senders[target].0 |= is_tcp;
                senders[target].1 |= !is_tcp;
            }
        }
    }
    senders.into_iter().map(|found| if found == (true, false) { "tcp" } else { HTTP }).collect()
}

/// The state of a server.
fn status_of(plan: &UpstreamPlan, place: usize) -> ServerStatus {
    let state = &plan.balancer().states()[place];
    match state.effective_mode() {
        _ if plan.leaves_at[place].is_some() => ServerStatus::Leaving,
        Mode::Maintenance => ServerStatus::Maintenance,
        Mode::Draining => ServerStatus::Draining,
        Mode::Serving if state.health() == Health::Down => ServerStatus::Down,
        Mode::Serving if state.is_ejected() => ServerStatus::Ejected,
        Mode::Serving => ServerStatus::Up,
    }
}

fn route_overview(snapshot: &Snapshot, route: &Route, figures: RouteStats) -> RouteOverview {
    let name = |place: usize| snapshot.upstreams[place].config.name.to_string();
    let copied = |mirror: &Mirror| format!("{} copied to {}", mirror.share, name(mirror.upstream.0));
    let (action, upstreams) = match &route.action {
        RouteAction::Upstream(upstream) => {
            let name = name(upstream.0);
            (format!("to {name}"), vec![name])
        }
        RouteAction::Split(parts) => {
            // Names choose without regard to weights.
            let weight = |part: &SplitTarget| match &route.split_by {
                None => format!(" {}", part.weight),
                Some(_) => String::new(),
            };
            let share = |part: &SplitTarget| match part.to {
                SplitAction::Upstream(upstream) => {
                    let own = part.own_mirrors(route.mirrors.len()).iter();
                    let own = own.map(|mirror| format!(" ({})", copied(mirror)));
                    format!("{}{}{}", name(upstream.0), weight(part), own.collect::<String>())
                }
                SplitAction::Respond(status) => format!("answer with {status}{}", weight(part)),
            };
            let shares = parts.iter().map(share).collect::<Vec<_>>().join(", ");
            let upstreams = route.action.upstreams().map(|upstream| name(upstream.0));
            let by = route.split_by.as_ref().map(|template| format!(" by {template}"));
            (format!("split{}: {shares}", by.unwrap_or_default()), upstreams.collect())
        }
        RouteAction::Redirect(Redirect { status, .. }) => (format!("redirect with {status}"), Vec::new()),
        RouteAction::Respond(fixed) => (format!("answer with {}", fixed.status), Vec::new()),
        RouteAction::Then(name) => (format!("as the route {name}"), Vec::new()),
        RouteAction::Files(files) => {
            let root = files.root.display();
            match files.otherwise.map(|upstream| name(upstream.0)) {
                Some(name) => (format!("files of {root}, others to {name}"), vec![name]),
                None => (format!("files of {root}"), Vec::new()),
            }
        }
    };
    let all_copied = route.mirrors.iter().map(|mirror| format!(", {}", copied(mirror)));
    let action = std::iter::once(action).chain(all_copied).collect::<String>();
    let (name, matches) = (route.name.to_string(), shown_conditions(&route.matches));
    RouteOverview { name, matches, action, upstreams, stats: figures }
}

/// Milliseconds since 1970.
pub(crate) fn unix_ms() -> u64 {
    u64::try_from(clock::unix_now().as_millis()).unwrap_or(u64::MAX)
}

/// What the source of a server says of it beside its zone.
fn metadata(server: &weir_config::Server) -> BTreeMap<String, String> {
    let known = server.description.iter().flat_map(|description| &description.metadata);
    known.map(|(key, value)| (key.to_string(), value.to_string())).collect()
}
