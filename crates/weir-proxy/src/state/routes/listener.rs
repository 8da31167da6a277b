//! A listener of the config with its rules in the form the data path uses, and what it keeps from one config to the next.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use weir_config::{
    AccessList, AccessLog, ErrorPage, Feature, ForwardHost, LimitUse, Listener, Mirror, PartitionName,
    PathForm, RemotePage, Route, RouteAction, RowSet, RuleOrder, SplitTarget, Stage, TokenKeys, TrackedTable,
    UpstreamIndex, WithheldHeaders, is_in,
};
use weir_http::{
    ChunkedLimits, EncodedSlashRule, FieldName, FieldSet, HeadLimits, Lenient, LenientChunks, PathRules,
};
use weir_observe::{ListenerShard, PerWorker, RouteShard};
use weir_traffic::limit::{ClientLimit, ConnectionCount};
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{MethodMatch, RouteTable};
use weir_traffic::split::WeightedSplit;

use super::access::{AccessPlan, AccessPlans, FetchedKeys};
use super::access_logs::{access_logs, asks_at_end, is_of_response, log_conditions, logs};
use super::mirror::MirrorState;
use super::static_files::FilesPlan;
use super::stripped_fields;
use super::stripped_fields::StrippedFields;
use super::wait_limits::WaitLimits;
use crate::net::peer::Peer;
use crate::net::tls::client_certificates::{CertificateFields, fields_without};
use crate::net::tls::server_config::TlsServerConfig;
use crate::state::caching::cache::{CachePlan, RouteCachePlan};
use crate::state::caching::cache_keys::trail_names;
use crate::state::caching::page_store::PageStore;
use crate::state::limits::limit::{ConnectionRate, LimitInUse, LimitPlan};
use crate::state::servers::method_set::MethodSet;
use crate::state::servers::plan_inputs::{PlanError, PlanInputs, TlsError, is_same};
use crate::state::servers::upstream::UpstreamPlan;
use crate::state::tables::table::{TableInUse, TablePlan};

/// Client addresses that are counted at most, for each listener that limits connections per client.
const CLIENTS_MAX: usize = 1 << 20;

/// Features that phases ask by themselves, whatever rows a route has: what a request brings with it, and what is no matter of the route alone.
const OF_PHASES: RowSet = RowSet::of_feature(Feature::Grpc)
    .or(RowSet::of_feature(Feature::Cors))
    .or(RowSet::of_feature(Feature::Rewrite))
    .or(RowSet::of_feature(Feature::Retries));

/// What stands between a request that has its route and a server.
const AHEAD: RowSet = RowSet::between(Stage::Route, Stage::BeforeServer).without(OF_PHASES);

/// What a listener keeps over reloads: its connections and its counters.
#[derive(Debug)]
pub struct ListenerState {
    /// Tells it from others; of more than 65 536 since the start, two have the same.
    pub(crate) number: u16,
    pub(crate) connections: ConnectionCount,
    /// Seconds after which clients may ask again, while an operator has it answer every request with the page for maintenance; 0: it serves.
    maintenance: AtomicU32,
    /// Connections per client address, once they were limited.
    clients: OnceLock<ClientLimit>,
    /// What each worker counts.
    pub shards: Box<[Arc<ListenerShard>]>,
}

impl ListenerState {
    fn new(config: &Listener, inputs: &PlanInputs) -> Self {
        static NUMBER: AtomicU16 = AtomicU16::new(0);
        let state = Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            connections: ConnectionCount::new(u32::MAX),
            maintenance: AtomicU32::new(0),
            clients: OnceLock::new(),
            shards: (0..inputs.workers).map(|_| Arc::default()).collect(),
        };
        state.limit(config, inputs.seed);
        state
    }

    /// Goes by the limits of this config.
    fn limit(&self, config: &Listener, seed: u64) {
        self.connections.set_count_max(config.connections_max.unwrap_or(u32::MAX));
        if let Some(max) = config.connections_per_client_max {
            self.clients.get_or_init(|| ClientLimit::new(max, CLIENTS_MAX, seed)).set_count_max(max);
        }
    }

    /// Begins or ends maintenance: with so many seconds after which clients may ask again.
    pub fn set_maintenance(&self, retry_after: Option<u32>) {
        self.maintenance.store(retry_after.map_or(0, |seconds| seconds.max(1)), Ordering::Relaxed);
    }

    /// The seconds after which clients may ask again, while it is in maintenance.
    #[inline]
    pub fn maintenance(&self) -> Option<u32> {
        match self.maintenance.load(Ordering::Relaxed) {
            0 => None,
            seconds => Some(seconds),
        }
    }

    /// Connections per client address, if they are counted.
    pub(crate) fn clients(&self) -> Option<&ClientLimit> {
        self.clients.get()
    }
}

/// A listener, its rules in the form the data path uses.
#[derive(Debug)]
pub struct ListenerPlan {
    /// The listener in the config.
    pub config: Arc<Listener>,
    /// What goes on in the next config.
    pub state: Arc<ListenerState>,
    seed: u64,
    /// Limits and path rules for request heads.
    pub head_limits: HeadLimits,
    pub(crate) chunked_limits: ChunkedLimits,
    /// What the clients of a listener with TLS are offered.
    pub tls: Option<Arc<TlsServerConfig>>,
    pub(crate) routes: RouteTable,
    /// Whether routes are looked up by more than what they match: see [`weir_config::ListenerParts::looks_up_apart`].
    pub(crate) looks_up_apart: bool,
    /// What each route adds to the partitions of responses for requests that have left it; empty where nothing is stored.
    pub(crate) trail_names: Box<[Option<PartitionName>]>,
    /// Whether the log of a route, or that of the listener, has lines of some exchanges only.
    pub(crate) selects_lines: bool,
    /// Whether something is asked at the end of an exchange: the condition of a log, or of a counter of a table.
    pub(crate) asks_at_end: bool,
    /// Whether a route of a TCP listener depends on the server name of TLS.
    pub(crate) asks_for_sni: bool,
    /// Whether TLS that ends here passes through on some route.
    pub(crate) passes_tls: bool,
    /// The connections that each client may open in a time.
    pub connection_rate: Option<Arc<ConnectionRate>>,
    /// The lists and limits for requests that no route takes; routes have those of the listener, too.
    pub(crate) rules: Option<Box<RequestRules>>,
    /// The routes, in the order of the config.
    pub route_plans: Vec<RoutePlan>,
    /// The ways to servers that have error pages.
    page_routes: Box<[PageRoute]>,
    /// The pages that they have given lately.
    pub(crate) pages: Option<PageStore>,
    /// Known request fields that are not copied, from any client.
    pub(crate) request_drop: FieldSet,
    /// Headers that only Weir may send to servers, on any listener.
    withheld: WithheldHeaders,
    /// Fields that stop here: of trusted proxies, and of other peers.
    stripped: [Option<Arc<StrippedFields>>; 2],
    /// The same in trailers.
    stripped_trailers: [Option<Arc<StrippedFields>>; 2],
    /// The fields for servers about a client without a certificate; `None` where none is requested.
    pub(crate) fields_without_certificate: Option<CertificateFields>,
    /// What Weir calls itself in `Via`.
    pub(crate) via_name: Box<str>,
    pub(crate) logs_response_fields: bool,
    /// Whether a line of some log shows where the client connected to.
    pub(crate) logs_local: bool,
    trusts_no_peer: bool,
    /// The request-id field when it is not the usual one, which is among the known names.
    own_id_header: Option<Box<[u8]>>,
}

/// What routes refer to by name.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::state) struct NamedPlans<'a> {
    pub(in crate::state) limits: &'a [Arc<LimitPlan>],
    pub(in crate::state) tables: &'a [Arc<TablePlan>],
    pub(in crate::state) caches: &'a [Arc<CachePlan>],
    pub(in crate::state) keys: &'a [Arc<FetchedKeys>],
    /// Fields that the listener writes for each request, in lower case.
    pub(in crate::state) written: &'a [Box<str>],
}

/// The lists that requests are looked up in, and the limits that they are under.
#[derive(Debug)]
pub(crate) struct RequestRules {
    pub(crate) lists: Box<[ListInUse]>,
    pub(crate) limits: Box<[LimitInUse]>,
    /// The tables that count them.
    pub(crate) tables: Box<[TableInUse]>,
    /// The stage at which the last of them is asked.
    pub(crate) last: Stage,
}

/// A list where a listener or a route names it.
#[derive(Debug)]
pub(crate) struct ListInUse {
    pub(crate) list: Arc<AccessList>,
    /// The stage at which its key is known.
    pub(crate) stage: Stage,
}

/// A route, ready for use.
#[derive(Debug)]
pub struct RoutePlan {
    /// The route in the config.
    pub config: Arc<Route>,
    /// What is asked of clients.
    pub access: Option<Box<AccessPlan>>,
    /// The way to the server that decides about requests.
    pub(crate) auth_route: Option<Box<RoutePlan>>,
    /// The way to the server from which the keys of tokens are fetched.
    pub(crate) keys_route: Option<Box<RoutePlan>>,
    pub(crate) split: Option<Box<SplitPlan>>,
    /// The lists and limits for its requests.
    pub(crate) rules: Option<Box<RequestRules>>,
    /// The files that it serves.
    pub(crate) files: Option<Arc<FilesPlan>>,
    pub(crate) rewrite: Option<Box<Rewrite>>,
    pub(crate) body_bytes_max: u64,
    /// What it stores.
    pub(crate) cache: Option<Box<RouteCachePlan>>,
    /// Where copies of its requests go; of a target of a split, first those of its route.
    pub mirrors: Box<[MirrorPlan]>,
    /// The rows of the table of features that act on its requests, be it for one target of its split.
    pub(crate) rows: RowSet,
    /// Those of them that stand between a request and a server, and those of the targets of its split.
    pub(crate) ahead: RowSet,
    /// Fields of requests that it takes out, or puts there itself.
    pub(crate) stripped: Option<Arc<StrippedFields>>,
    /// Trailers of requests that stop here: of trusted proxies, and of other peers. `None` where the route adds nothing to what the listener says.
    stripped_trailers: Option<[Arc<StrippedFields>; 2]>,
    /// Trailers of responses that stop here.
    pub(crate) stripped_from_responses: Option<Arc<StrippedFields>>,
    /// What each worker counts.
    pub shards: PerWorker<RouteShard>,
}

/// The way to servers that have error pages.
#[derive(Debug)]
struct PageRoute {
    upstream: UpstreamIndex,
    forward_host: ForwardHost,
    route: RoutePlan,
}

impl PageRoute {
    fn is_of(&self, remote: &RemotePage) -> bool {
        (self.upstream, &self.forward_host) == (remote.upstream, &remote.forward_host)
    }
}

/// The split of a route, ready for use.
#[derive(Debug)]
pub(crate) struct SplitPlan {
    pub(crate) weights: WeightedSplit,
    /// The plans of targets that are not as the route is, by their places; empty if all are.
    pub(crate) targets: Box<[Option<RoutePlan>]>,
}

/// The mirror of a route, ready for use.
#[derive(Debug)]
pub struct MirrorPlan {
    /// The way of the copies.
    pub(crate) route: RoutePlan,
    /// The methods that are copied.
    pub(crate) methods: MethodSet,
    /// What goes on in the next config.
    pub state: Arc<MirrorState>,
}

impl ListenerPlan {
    /// `withheld`: headers that only Weir may send. `before`: the listener of this name in the config of before.
    ///
    /// # Errors
    /// When TLS cannot be offered, or two routes are tied.
    pub(in crate::state) fn new(
        config: &Arc<Listener>,
        inputs: &PlanInputs,
        withheld: &WithheldHeaders,
        named: NamedPlans<'_>,
        before: Option<&ListenerPlan>,
    ) -> Result<Self, PlanError> {
        let clients = config.tls.as_ref().and_then(|tls| tls.client_certificates.as_ref());
        let names = stripped_fields::of_listener(config, withheld);
        let tls = server_config(config, inputs, before)?;
        let state = before.map(|before| Arc::clone(&before.state));
        let usual_id = FieldName::XRequestId.as_str();
        let id = config.request_id.header.as_deref();
        let without_certificate = clients.map(|clients| fields_without(&clients.headers));
        let written = written_fields(config, without_certificate.as_ref());
        let named = NamedPlans { written: &written, ..named };
        let own_id = id.filter(|name| !name.eq_ignore_ascii_case(usual_id));
        let of_client = config.client_address_header.single();
        let stripped_trailers = names.clone().map(|mut names| {
            names.extend(own_id.map(Box::from));
            // What names the client is read from the head: behind a body, it is never a word of the proxy.
            names.extend(of_client.map(|name| (**name).into()));
            StrippedFields::of_trailers(names, config.lenient.underscore_names).map(Arc::new)
        });
        Ok(Self {
            state: state.unwrap_or_else(|| Arc::new(ListenerState::new(config, inputs))),
            seed: inputs.seed,
            tls,
            head_limits: head_limits(config),
            chunked_limits: chunked_limits(config),
            connection_rate: config.connections_per_client_rate.and_then(|rate| {
                ConnectionRate::new(rate, before.and_then(|before| before.connection_rate.as_ref()))
            }),
            rules: request_rules(&config.lists, (&config.limited_by, &config.tracked), named),
            route_plans: route_plans(config, inputs, named, &stripped_trailers, before),
            page_routes: page_routes(config, inputs),
            pages: PageStore::new(config),
            routes: config.route_table()?,
            looks_up_apart: config.looks_up_apart(),
            trail_names: trail_names(config),
            selects_lines: access_logs(config).any(AccessLog::selects),
            asks_at_end: asks_at_end(config),
            asks_for_sni: !config.protocol.routes_requests()
                && config.routes.iter().any(|route| !route.matches.hosts.is_empty()),
            passes_tls: config.tls.is_some() && config.routes.iter().any(|route| route.tls_passthrough),
            request_drop: FieldSet::REQUEST_HOP.with(replaced_fields(config, own_id.is_some())),
            stripped: names.map(|names| StrippedFields::new(names).map(Arc::new)),
            stripped_trailers,
            fields_without_certificate: without_certificate,
            via_name: inputs.via_name.clone(),
            logs_response_fields: logs(config).any(|format| format.shows_response_fields())
                || log_conditions(config).any(|condition| condition.values().any(is_of_response)),
            logs_local: logs(config).any(|format| format.format().shows_local()),
            trusts_no_peer: config.trusted_proxies.is_empty(),
            own_id_header: own_id.map(|name| name.as_bytes().into()),
            withheld: withheld.clone(),
            config: Arc::clone(config),
        })
    }

    /// Whether the plan of this listener in another config, with these headers, would be the same.
    pub(in crate::state) fn is_as(&self, config: &Arc<Listener>, withheld: &WithheldHeaders) -> bool {
        self.withheld == *withheld && is_same(&self.config, config)
    }

    /// The way to the server that has an error page.
    pub(crate) fn page_route(&self, remote: &RemotePage) -> Option<&RoutePlan> {
        let found = self.page_routes.iter().find(|way| way.is_of(remote));
        found.map(|way| &way.route)
    }

    /// The place of the route of this name.
    pub(crate) fn route_named(&self, name: &str) -> Option<usize> {
        self.route_plans.iter().position(|route| *route.config.name == *name)
    }

    /// Makes its limits hold for the connections that the listener has.
    pub(in crate::state) fn take_effect(&self) {
        self.state.limit(&self.config, self.seed);
    }

    /// Whether this peer is a trusted proxy.
    pub(crate) fn trusts(&self, peer: Peer) -> bool {
        !self.trusts_no_peer && self.config.trusted_proxies.contains(peer.ip())
    }

    /// Fields that this peer may not send, if there are any that some peer may not.
    pub(crate) fn withheld_from(&self, peer: Peer) -> Option<&Arc<StrippedFields>> {
        let has_any = self.stripped.iter().any(Option::is_some);
        if has_any { self.stripped(peer) } else { None }
    }

    /// Whether limits on connections do not hold for this peer.
    pub(crate) fn is_exempt(&self, peer: Peer) -> bool {
        self.trusts(peer) || peer.ip().is_some_and(|ip| is_in(&self.config.connections_exempt, ip))
    }

    /// Fields that this peer may not send.
    pub(crate) fn stripped(&self, peer: Peer) -> Option<&Arc<StrippedFields>> {
        self.stripped[usize::from(!self.trusts(peer))].as_ref()
    }

    /// Trailers that this peer may not send, before there is a route.
    pub(crate) fn stripped_trailers(&self, peer: Peer) -> Option<&Arc<StrippedFields>> {
        self.stripped_trailers[usize::from(!self.trusts(peer))].as_ref()
    }

    /// Trailers that this peer may not send to a server by this plan; `None`: all those that it may send at all.
    #[inline]
    pub(crate) fn stripped_trailers_on<'a>(
        &self,
        route: &'a RoutePlan,
        peer: Peer,
    ) -> Option<&'a Arc<StrippedFields>> {
        route.stripped_trailers.as_ref().map(|stripped| &stripped[usize::from(!self.trusts(peer))])
    }

    /// The field in which clients get the id of a request, if they do.
    pub(crate) fn id_of_responses(&self) -> Option<&[u8]> {
        let id = &self.config.request_id;
        id.header.as_ref().filter(|_| id.in_response).map(|header| header.as_bytes())
    }

    /// The request-id field when it is not `X-Request-Id`.
    pub(crate) fn own_id_header(&self) -> Option<&[u8]> {
        self.own_id_header.as_deref()
    }

    /// How long each party may keep an exchange waiting that goes to `upstream`.
    #[inline]
    pub(crate) fn wait_limits(&self, upstream: &UpstreamPlan) -> WaitLimits {
        let timeouts = &upstream.config.timeouts;
        WaitLimits {
            request_body: self.config.timeouts.request_body,
            send: timeouts.send,
            response: timeouts.response,
            relay: timeouts.relay,
            client_send: self.config.timeouts.send,
        }
    }

    /// How long the client may take for an answer that Weir gives itself.
    pub(crate) fn client_wait_limits(&self) -> WaitLimits {
        WaitLimits { client_send: self.config.timeouts.send, ..WaitLimits::default() }
    }
}

/// Known fields of requests that the listener writes itself, or does not let pass.
fn replaced_fields(config: &Listener, has_own_id: bool) -> FieldSet {
    let mut replaced = Vec::new();
    if config.forwarded.via {
        replaced.push(FieldName::Via);
    }
    if config.forwarded.x_forwarded {
        replaced.push(FieldName::XForwardedFor);
    }
    if config.forwarded.rfc7239 {
        replaced.push(FieldName::Forwarded);
    }
    if config.request_id.header.is_some() && !has_own_id {
        replaced.push(FieldName::XRequestId);
    }
    if !config.lenient.underscore_names {
        replaced.push(FieldName::Underscored);
    }
    FieldSet::new(&replaced)
}

/// What a listener allows chunked bodies to have beside their bytes.
fn chunked_limits(config: &Listener) -> ChunkedLimits {
    ChunkedLimits {
        extension_bytes_max: config.limits.chunk_extension_size.as_usize(),
        trailer_bytes_max: config.limits.trailer_size.as_usize(),
        trailer_fields_max: config.limits.headers,
        lenient: LenientChunks {
            padded_size: config.lenient.padded_chunk_size,
            empty_extension: config.lenient.empty_chunk_extension,
        },
    }
}

/// Fields that servers get with a value for each request, in place of what the client has sent, in lower case.
fn written_fields(config: &Listener, without_certificate: Option<&CertificateFields>) -> Vec<Box<str>> {
    let mut names = vec!["traceparent".to_owned()];
    if config.forwarded.x_forwarded {
        names.push("x-forwarded-for".to_owned());
    }
    if config.forwarded.rfc7239 {
        names.push("forwarded".to_owned());
    }
    names.extend(config.request_id.header.as_ref().map(|name| name.to_ascii_lowercase()));
    let of_certificate = without_certificate.into_iter().flatten();
    names.extend(of_certificate.map(|(name, _)| name.to_ascii_lowercase()));
    names.into_iter().map(String::into_boxed_str).collect()
}

fn route_plans(
    config: &Listener,
    inputs: &PlanInputs,
    named: NamedPlans<'_>,
    stripped_trailers: &[Option<Arc<StrippedFields>>; 2],
    before: Option<&ListenerPlan>,
) -> Vec<RoutePlan> {
    let before = before.iter().flat_map(|before| &before.route_plans);
    let before: HashMap<&str, &RoutePlan> = before.map(|plan| (&*plan.config.name, plan)).collect();
    let mut access = AccessPlans::new(named.keys);
    let mut plan = |route: &Arc<Route>, before: Option<&RoutePlan>, copied: &[Arc<MirrorState>]| {
        let auth_route = auth_route(route, inputs).map(Box::new);
        let keys_route = keys_route(route, inputs).map(Box::new);
        let mirrors = mirrors(route, inputs, copied);
        let plan = RoutePlan::new(route, inputs, named, before);
        let stripped_trailers = StrippedFields::of_request_trailers(route).map(|stripped| {
            let around = stripped_trailers.each_ref().map(Option::as_deref);
            around.map(|around| Arc::new(around.map_or_else(|| stripped.clone(), |one| one.with(&stripped))))
        });
        let access = access.of(route, before.and_then(|before| before.access.as_deref()));
        RoutePlan { access, auth_route, keys_route, mirrors, stripped_trailers, ..plan }
    };
    let with_targets = |route: &Arc<Route>| {
        let before = before.get(&*route.name).copied();
        let mut whole = plan(route, before, &mirror_states(before, 0));
        if let (RouteAction::Split(parts), Some(split)) = (&route.action, whole.split.take()) {
            // They count as what the route is.
            let mut target_plan = |(place, part): (usize, &SplitTarget)| {
                let copied = states_of_target(&whole, before, place);
                Some(plan(&Arc::new(part.route(route)?), Some(&whole), &copied))
            };
            let targets: Box<[_]> = if parts.iter().any(SplitTarget::is_apart) {
                parts.iter().enumerate().map(&mut target_plan).collect()
            } else {
                Box::default()
            };
            let of_targets = targets.iter().flatten().map(|target| target.ahead);
            whole.ahead = of_targets.fold(whole.ahead, RowSet::or);
            whole.split = Some(Box::new(SplitPlan { targets, ..*split }));
        }
        whole
    };
    let mut plans: Vec<RoutePlan> = config.routes.iter().map(with_targets).collect();
    let rows = rows_of_rerouted(config);
    let add_rows = |plan: &mut RoutePlan| plan.rows = plan.rows.or(rows);
    for plan in &mut plans {
        add_rows(plan);
        let targets = plan.split.iter_mut().flat_map(|split| &mut split.targets);
        targets.flatten().for_each(add_rows);
    }
    plans
}

/// The rows that every route has since any of them may have the response to a request that came for another one: in place of an error page, or because
/// a server has sent it on.
fn rows_of_rerouted(config: &Listener) -> RowSet {
    let of_routes = || config.routes.iter().flat_map(|route| &route.error_pages);
    let mut rows = RowSet::EMPTY;
    if config.error_pages.iter().chain(of_routes()).any(ErrorPage::goes_on) {
        rows = rows.or(RowSet::row(Stage::ResponseHead, Feature::ErrorPages));
    }
    let replaces = |page: &ErrorPage| page.goes_on() && page.of_servers;
    let is_replaced = config.error_pages.iter().chain(of_routes()).any(replaces);
    if is_replaced || config.routes.iter().any(|route| route.obeys_redirects()) {
        rows = rows.or(RowSet::row(Stage::ResponseFields, Feature::Accel));
    }
    rows
}

/// The way to the server that decides about the requests of a route.
fn auth_route(route: &Route, inputs: &PlanInputs) -> Option<RoutePlan> {
    let forward = route.access.as_ref()?.forward.as_ref()?;
    let to_server = Arc::new(forward.route(&route.name));
    Some(RoutePlan::new(&to_server, inputs, NamedPlans::default(), None))
}

/// The ways to the servers that have error pages of the listener or its routes, each once.
fn page_routes(config: &Listener, inputs: &PlanInputs) -> Box<[PageRoute]> {
    let of_routes = config.routes.iter().flat_map(|route| &route.error_pages);
    let mut ways: Vec<PageRoute> = Vec::new();
    for remote in config.error_pages.iter().chain(of_routes).filter_map(|page| page.remote.as_ref()) {
        if !ways.iter().any(|way| way.is_of(remote)) {
            let route = RoutePlan::new(&Arc::new(remote.route()), inputs, NamedPlans::default(), None);
            ways.push(PageRoute {
                upstream: remote.upstream,
                forward_host: remote.forward_host.clone(),
                route,
            });
        }
    }
    ways.into()
}

/// The way to the server from which the keys of tokens are fetched.
fn keys_route(route: &Route, inputs: &PlanInputs) -> Option<RoutePlan> {
    let TokenKeys::Remote(remote) = &route.access.as_ref()?.jwt.as_ref()?.keys else { return None };
    let to_server = Arc::new(remote.route(&route.name));
    Some(RoutePlan::new(&to_server, inputs, NamedPlans::default(), None))
}

/// What is known of the mirrors of a route, the first ones left out.
fn mirror_states(route: Option<&RoutePlan>, first: usize) -> Vec<Arc<MirrorState>> {
    let mirrors = route.iter().flat_map(|route| route.mirrors.iter().skip(first));
    mirrors.map(|mirror| Arc::clone(&mirror.state)).collect()
}

/// What is known of the mirrors of a target of the split of `whole`: those of the route are the same ones, and its own those that the target in
/// this place had `before`.
fn states_of_target(whole: &RoutePlan, before: Option<&RoutePlan>, place: usize) -> Vec<Arc<MirrorState>> {
    let of_route = before.map_or(0, |before| before.mirrors.len());
    let own = mirror_states(before.and_then(|before| before.target(place)), of_route);
    [mirror_states(Some(whole), 0), own].concat()
}

/// The ways of copies of the requests of a route, which are changed as the requests are; `known`: what goes on of each.
fn mirrors(route: &Route, inputs: &PlanInputs, known: &[Arc<MirrorState>]) -> Box<[MirrorPlan]> {
    let plan = |(place, settings)| mirror(route, settings, inputs, known.get(place));
    route.mirrors.iter().enumerate().map(plan).collect()
}

fn mirror(
    route: &Route,
    settings: &Mirror,
    inputs: &PlanInputs,
    known: Option<&Arc<MirrorState>>,
) -> MirrorPlan {
    MirrorPlan {
        route: RoutePlan::new(&Arc::new(settings.route(route)), inputs, NamedPlans::default(), None),
        methods: MethodSet::new(settings.methods.iter().map(MethodMatch::as_str)),
        state: known.cloned().unwrap_or_default(),
    }
}

/// The lists, limits and tables that a listener or a route names, if there are any.
fn request_rules(
    lists: &[Arc<AccessList>],
    uses: (&[LimitUse], &[Arc<TrackedTable>]),
    named: NamedPlans<'_>,
) -> Option<Box<RequestRules>> {
    let (uses, tracked) = uses;
    if lists.is_empty() && uses.is_empty() && tracked.is_empty() {
        return None;
    }
    let order = RuleOrder::new(lists);
    let plan = |one: &LimitUse| {
        let plan = Arc::clone(named.limits.iter().find(|plan| plan.config.name == one.limit.name)?);
        let stage = order.of_limit(&one.limit);
        let upstream = one.upstream.map(|upstream| upstream.0);
        Some(LimitInUse { plan, upstream, status: one.status, stage })
    };
    let limits: Box<[LimitInUse]> = uses.iter().filter_map(plan).collect();
    let in_use = |list: &Arc<AccessList>| ListInUse { list: Arc::clone(list), stage: order.of_list(list) };
    let lists: Box<[ListInUse]> = lists.iter().map(in_use).collect();
    let stages = lists.iter().map(|one| one.stage).chain(limits.iter().map(|one| one.stage));
    let last = stages.max().unwrap_or(Stage::Route);
    let table = |one: &Arc<TrackedTable>| {
        let plan = named.tables.iter().find(|plan| plan.name() == &*one.definition.name)?;
        Some(TableInUse { plan: Arc::clone(plan), stage: one.stage() })
    };
    let tables = tracked.iter().filter_map(table).collect();
    Some(Box::new(RequestRules { lists, limits, tables, last }))
}

/// The TLS of the listener. As long as the config and its files are the same, the one before is kept, with its ticket keys, so that
/// sessions can be resumed.
fn server_config(
    config: &Listener,
    inputs: &PlanInputs,
    before: Option<&ListenerPlan>,
) -> Result<Option<Arc<TlsServerConfig>>, TlsError> {
    let Some(tls) = &config.tls else { return Ok(None) };
    let unchanged = before.filter(|before| {
        before.config.tls.as_ref() == Some(tls) && protocols(&before.config) == protocols(config)
    });
    if let Some(server_config) = unchanged.and_then(|before| before.tls.clone()) {
        return Ok(Some(server_config));
    }
    let known = before.and_then(|before| before.tls.as_deref());
    let server_config = TlsServerConfig::new(tls, protocols(config), &inputs.issuers, known);
    let server_config =
        server_config.map_err(|error| TlsError { place: format!("listener `{}`", config.name), error })?;
    Ok(Some(Arc::new(server_config)))
}

/// The protocols that clients with TLS may agree on (ALPN).
fn protocols(listener: &Listener) -> &'static [&'static [u8]] {
    match (listener.protocol.routes_requests(), listener.http2.enabled) {
        (true, true) => &[b"h2", b"http/1.1"],
        (true, false) => &[b"http/1.1"],
        (false, _) => &[],
    }
}

/// What a listener allows the head of a request to be.
pub fn head_limits(listener: &Listener) -> HeadLimits {
    let (limits, allow) = (&listener.limits, &listener.lenient);
    HeadLimits {
        head_bytes_max: limits.head_size.as_usize(),
        target_bytes_max: limits.target_size.as_usize(),
        fields_max: limits.headers,
        paths: PathRules {
            encoded_slash: encoded_slash(listener.paths.encoded_slash),
            refuse_other_forms: listener.paths.forward == PathForm::Refused,
        },
        lenient: Lenient {
            bare_lf: allow.bare_lf,
            obs_fold: allow.obs_fold,
            unencoded_target: allow.unencoded_target,
            unsafe_target: allow.unsafe_target,
            target_fragment: allow.target_fragment,
            repeated_equal_length: allow.repeated_length,
            padded_length: allow.padded_length,
            ..Lenient::default()
        },
        refuse_encoded_nul: !allow.encoded_nul,
    }
}

const fn encoded_slash(rule: weir_config::EncodedSlashAction) -> EncodedSlashRule {
    match rule {
        weir_config::EncodedSlashAction::Keep => EncodedSlashRule::Keep,
        weir_config::EncodedSlashAction::Decode => EncodedSlashRule::Decode,
        weir_config::EncodedSlashAction::Refuse => EncodedSlashRule::Refuse,
    }
}

impl RoutePlan {
    /// Whether one of its features may take the response of a server, before the client has anything of it.
    #[inline(always)]
    pub(crate) fn acts_on_response_heads(&self) -> bool {
        self.rows.meets(const { RowSet::at(Stage::ResponseHead).without(OF_PHASES) })
    }

    /// Whether one of its features has fields for responses, or against them.
    #[inline(always)]
    pub(crate) fn acts_on_response_fields(&self) -> bool {
        self.rows.meets(const { RowSet::at(Stage::ResponseFields) })
    }

    /// Whether it changes the heads of requests.
    #[inline(always)]
    pub(crate) fn changes_requests(&self) -> bool {
        self.rows.meets(const { RowSet::row(Stage::Server, Feature::Headers) })
    }

    /// Whether it changes the heads of responses.
    #[inline(always)]
    pub(crate) fn changes_responses(&self) -> bool {
        self.rows.meets(const { RowSet::row(Stage::ResponseFields, Feature::Headers) })
    }

    /// The plan of a target of the split, if that is not as the route is.
    pub(crate) fn target(&self, place: usize) -> Option<&RoutePlan> {
        self.split.as_ref()?.targets.get(place)?.as_ref()
    }

    /// The place of the target that has this plan.
    pub(crate) fn place_of_target(&self, plan: &RoutePlan) -> Option<usize> {
        let targets = self.split.iter().flat_map(|split| &split.targets);
        targets.map(Option::as_ref).position(|one| one.is_some_and(|one| std::ptr::eq(one, plan)))
    }

    /// The plans with mirrors of their own, and how many of their first mirrors are not: that of the route, and those of targets of its split.
    pub fn copying(&self) -> impl Iterator<Item = (&RoutePlan, usize)> {
        let targets = self.split.iter().flat_map(|split| &split.targets).flatten();
        std::iter::once((self, 0)).chain(targets.map(|target| (target, self.mirrors.len())))
    }

    /// Goes on counting where `before`, the route of this name, left off.
    fn new(
        config: &Arc<Route>,
        inputs: &PlanInputs,
        named: NamedPlans<'_>,
        before: Option<&RoutePlan>,
    ) -> Self {
        let split = match &config.action {
            RouteAction::Split(parts) => {
                let weights: Vec<u32> = parts.iter().map(|part| part.weight).collect();
                let weights = WeightedSplit::new(&weights).expect("the config check has seen the weights");
                Some(Box::new(SplitPlan { weights, targets: Box::default() }))
            }
            RouteAction::Upstream(_)
            | RouteAction::Redirect(_)
            | RouteAction::Respond(_)
            | RouteAction::Files(_)
            | RouteAction::Then(_) => None,
        };
        let files = match (&config.action, &config.fastcgi) {
            (RouteAction::Files(files), None) => Some(FilesPlan::new(files)),
            (RouteAction::Files(files), Some(scripts)) => Some(FilesPlan::new(files).with_scripts(scripts)),
            (_, Some(scripts)) => FilesPlan::of_scripts(scripts),
            (_, None) => None,
        };
        let mut rows = config.rows();
        if files.is_none() {
            // FastCGI for an application that has no script in a file.
            rows = rows.without(RowSet::of_feature(Feature::Files));
        }
        Self {
            shards: before.map_or_else(|| PerWorker::new(inputs.workers), |before| before.shards.clone()),
            access: None,
            auth_route: None,
            keys_route: None,
            mirrors: Box::default(),
            rows,
            ahead: rows.and(AHEAD),
            stripped: StrippedFields::of_requests(config).map(Arc::new),
            stripped_trailers: None,
            stripped_from_responses: StrippedFields::of_responses(config).map(Arc::new),
            split,
            rules: request_rules(&config.lists, (&config.limited_by, &config.tracked), named),
            files: files.map(Arc::new),
            rewrite: config.rewrite.clone().map(Box::new),
            body_bytes_max: config.body_size.map_or(u64::MAX, weir_config::Size::bytes),
            cache: RouteCachePlan::new(config, named.caches, named.written),
            config: Arc::clone(config),
        }
    }
}
