//! The figures of the whole process at one moment: the counters of the workers, and the state of servers and certificates.

use std::collections::HashSet;
use std::sync::Arc;

use weir_observe::overview::PageOverview;
use weir_observe::{
    CertificateStats, ProbeShard, RouteStats, ServerStats, StatNames, Stats, UpstreamStatNames, WorkerShard,
};
use weir_traffic::ejection::EjectionReason;
use weir_traffic::{Health, ServerId};

use crate::servers::modes::LEAVING;
use crate::telemetry::logs::own_log;
use crate::telemetry::reload_counts::ReloadCounts;
use crate::telemetry::trace_counts::TraceCounts;
use weir_proxy::net::tls::server_config::TlsServerConfig;
use weir_proxy::state::snapshot::{RoutePlan, Snapshot, UpstreamPlan};

/// The counters of the workers, and the health and ejection of the servers.
pub(crate) fn collect(
    shards: &[Arc<WorkerShard>],
    snapshot: &Snapshot,
    reloads: &ReloadCounts,
    traces: &TraceCounts,
) -> Stats {
    collect_of(&shown(snapshot), shards, snapshot, reloads, traces)
}

/// The upstreams that are shown, and the places of their servers that are.
pub(crate) type ShownServers = Vec<(usize, Vec<usize>)>;

/// Servers on one page: their part of it takes about 10 MB.
pub(crate) const SERVERS_PER_PAGE: usize = 1_000;

/// The servers that are shown now. They change over time: a caller that combines figures and servers must ask once for both.
pub(crate) fn shown(snapshot: &Snapshot) -> ShownServers {
    snapshot.upstreams.iter().map(|plan| shown_servers(plan)).enumerate().collect()
}

/// The servers on one page, of one upstream or of all; `None`: there is no such upstream, or no such page.
pub(crate) fn page(
    snapshot: &Snapshot,
    upstream: Option<&str>,
    number: usize,
) -> Option<(ShownServers, PageOverview)> {
    let wanted = (number.checked_sub(1)?).checked_mul(SERVERS_PER_PAGE)?;
    let wanted = wanted..wanted.checked_add(SERVERS_PER_PAGE)?;
    let (mut shown, mut servers, mut upstreams) = (ShownServers::new(), 0, 0);
    let is_asked = |plan: &UpstreamPlan| upstream.is_none_or(|name| *plan.config.name == *name);
    for (place, plan) in snapshot.upstreams.iter().enumerate().filter(|(_, plan)| is_asked(plan)) {
        let of_upstream = shown_servers(plan);
        let within = |end: usize| end.saturating_sub(servers).min(of_upstream.len());
        let on_page = within(wanted.start)..within(wanted.end);
        servers += of_upstream.len();
        upstreams += 1;
        if !on_page.is_empty() {
            shown.push((place, of_upstream[on_page].to_vec()));
        }
    }
    let pages = servers.div_ceil(SERVERS_PER_PAGE).max(1);
    let is_there = number <= pages && (upstreams > 0 || upstream.is_none());
    is_there.then_some((shown, PageOverview { number, pages, servers, upstreams }))
}

/// The figures including these servers.
pub(crate) fn collect_of(
    shown: &ShownServers,
    shards: &[Arc<WorkerShard>],
    snapshot: &Snapshot,
    reloads: &ReloadCounts,
    traces: &TraceCounts,
) -> Stats {
    let Stats { listeners, upstreams, .. } = Stats::named(&names_of(snapshot, shown));
    let of_process = of_process(shards, snapshot, reloads, traces);
    let mut figures = Stats { listeners, upstreams, ..of_process };
    for (index, listener) in snapshot.listeners.iter().enumerate() {
        listener.state.shards.iter().for_each(|shard| figures.add_listener(index, shard));
        figures.note_routes(index, listener.route_plans.iter().map(route).collect());
    }
    for (index, tls) in snapshot.listeners.iter().map(|listener| &listener.tls).enumerate() {
        let Some(tls) = tls else { continue };
        figures.note_certificates(index, certificates_in_use(tls), tls.certificates.reloads());
        if let Some(lists) = revocations(tls) {
            figures.note_revocations(index, lists);
        }
    }
    add_upstreams(&mut figures, shown, snapshot);
    figures
}

/// The figures of one server alone.
pub(crate) fn of_server(snapshot: &Snapshot, upstream: usize, server: usize) -> Option<ServerStats> {
    let shown = vec![(upstream, vec![server])];
    let mut figures =
        Stats::named(&StatNames { listeners: Vec::new(), upstreams: upstream_names(snapshot, &shown) });
    add_upstreams(&mut figures, &shown, snapshot);
    figures.upstreams.pop()?.servers.pop()
}

fn add_upstreams(figures: &mut Stats, shown: &ShownServers, snapshot: &Snapshot) {
    for (upstream, (place, shown)) in shown.iter().enumerate() {
        let plan = &snapshot.upstreams[*place];
        plan.shards.used().for_each(|shard| figures.add_upstream(upstream, shard));
        for (server, place) in shown.iter().copied().enumerate() {
            plan.server_shards[place].used().for_each(|shard| figures.add_server(upstream, server, shard));
            let state = &plan.balancer().states()[place];
            figures.note_mode(upstream, server, mode(plan, place));
            figures.note_in_flight(upstream, server, state.in_flight());
            figures.note_shared_idle(upstream, server, idle_shared(plan, place));
            figures.note_health(upstream, server, state.health() == Health::Up, probes(plan, place));
        }
        note_ejections(figures, upstream, plan, shown);
    }
}

/// The figures of the process and of its workers alone.
pub(crate) fn of_process(
    shards: &[Arc<WorkerShard>],
    snapshot: &Snapshot,
    reloads: &ReloadCounts,
    traces: &TraceCounts,
) -> Stats {
    let mut figures = Stats {
        reload: reloads.figures(snapshot.generation, snapshot.alive()),
        traces: traces.figures(),
        own_log_lines_dropped: own_log::lines_dropped(),
        ..Stats::default()
    };
    shards.iter().for_each(|shard| figures.add_worker(shard));
    figures
}

/// The certificates that clients are shown now.
pub(crate) fn certificates_in_use(tls: &TlsServerConfig) -> Vec<CertificateStats> {
    let in_use = tls.certificates.in_use();
    let issued = tls.certificates.issued_in_use();
    let in_use = in_use.iter().map(|shown| &shown.certificate).chain(&issued);
    let stats = in_use.map(|certificate| CertificateStats {
        file: certificate.files.certificate.display().to_string(),
        expiry_seconds: certificate.not_after.seconds(),
    });
    stats.collect()
}

/// The lists of revoked certificates that clients are verified by.
pub(crate) fn revocations(tls: &TlsServerConfig) -> Option<CertificateStats> {
    let lists = tls.client_authorities()?.revocations.clone()?;
    let (file, expiry_seconds) = (lists.file.display().to_string(), lists.next_update.seconds());
    Some(CertificateStats { file, expiry_seconds })
}

/// The operator's mode of a server, or that the config does not name it any more.
pub(crate) fn mode(plan: &UpstreamPlan, server: usize) -> &'static str {
    let is_leaving = plan.leaves_at[server].is_some();
    if is_leaving { LEAVING } else { plan.balancer().states()[server].effective_mode().name() }
}

/// Idle connections to a server that belong to all workers together.
pub(crate) fn idle_shared(plan: &UpstreamPlan, server: usize) -> usize {
    plan.shared_pool[server].as_ref().map_or(0, |shared| shared.count())
}

/// The probe counters of a server; `None` when it is not probed.
pub(crate) fn probes(plan: &UpstreamPlan, server: usize) -> Option<&ProbeShard> {
    plan.probes[server].as_deref().filter(|_| plan.leaves_at[server].is_none())
}

/// How often a server was ejected, by reason; nothing where it never is.
pub(crate) fn ejections(
    plan: &UpstreamPlan,
    server: usize,
    counts: [u64; EjectionReason::COUNT],
) -> Vec<(&'static str, u64)> {
    let may_be = plan.config.ejection.is_some() && plan.config.servers[server].ejection;
    EjectionReason::NAMES.into_iter().zip(counts).filter(|_| may_be).collect()
}

fn route(plan: &RoutePlan) -> RouteStats {
    let mut figures = RouteStats::named(&plan.config.name);
    plan.shards.used().for_each(|shard| figures.add(shard));
    figures
}

/// The places of the servers that are shown: those of the config, and those that still have requests. A name means one server
/// only: of two, the one of the config.
pub(crate) fn shown_servers(plan: &UpstreamPlan) -> Vec<usize> {
    let servers = &plan.config.servers;
    let of_config = |place: &usize| plan.leaves_at[*place].is_none();
    let (mut shown, leaving): (Vec<usize>, Vec<usize>) = (0..servers.len()).partition(of_config);
    if leaving.is_empty() {
        return shown;
    }
    let mut names: HashSet<&str> = shown.iter().map(|place| &*servers[*place].name).collect();
    for place in leaving {
        if !plan.is_vacant(place) && names.insert(&servers[place].name) {
            shown.push(place);
        }
    }
    shown
}

/// The server that is shown by this name: that of the config, or one that something still runs on.
pub(crate) fn shown_server(plan: &UpstreamPlan, name: &str) -> Option<usize> {
    let leaving = || shown_servers(plan).into_iter().find(|place| *plan.config.servers[*place].name == *name);
    plan.in_service(name).or_else(leaving)
}

fn note_ejections(figures: &mut Stats, upstream: usize, plan: &UpstreamPlan, shown: &[usize]) {
    let table = plan.outlier_detector.lock();
    figures.note_panic(upstream, table.is_in_panic());
    for (server, place) in shown.iter().copied().enumerate() {
        let counts = table.ejections(ServerId(place as u32));
        let ejections = ejections(plan, place, counts);
        figures.note_ejection(upstream, server, plan.balancer().states()[place].is_ejected(), ejections);
    }
}

fn names_of(snapshot: &Snapshot, shown: &ShownServers) -> StatNames {
    StatNames {
        listeners: snapshot.listeners.iter().map(|plan| plan.config.name.to_string()).collect(),
        upstreams: upstream_names(snapshot, shown),
    }
}

fn upstream_names(snapshot: &Snapshot, shown: &ShownServers) -> Vec<UpstreamStatNames> {
    let name = |plan: &UpstreamPlan, place: &usize| plan.config.servers[*place].name.to_string();
    let upstream = |(place, shown): &(usize, Vec<usize>)| {
        let plan = &snapshot.upstreams[*place];
        let servers = shown.iter().map(|place| name(plan, place)).collect();
        UpstreamStatNames { name: plan.config.name.to_string(), servers }
    };
    shown.iter().map(upstream).collect()
}
