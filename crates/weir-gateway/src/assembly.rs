//! From attached routes to listeners and upstreams of a [`Config`]. What has not changed is shared with the configuration before.
//!
//! Hosts, paths, methods and numbers of rules decide between routes in Weir as in the API; what they leave open, age and name decide there,
//! and here a priority among those that are otherwise equal.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use weir_config::{
    Config, ConfigFault, FixedResponse, Listener, ListenerParts, Mirror, Route, RouteAction, RouteParts,
    RouteSettings, ShareFraction, SplitAction, SplitTarget, UpstreamIndex,
};
use weir_sort::CompactSort as _;
use weir_traffic::route::{HostPattern, RouteMatch};

use super::options::settings::GatewaySettings;
use crate::api::SharedText;
use crate::attachment::Attachment;
use crate::backends::Backend;
use crate::compile::{
    CompiledAction, CompiledRoute, CompiledRule, CompiledTarget, RouteKind, TargetSettings, rank,
};
use crate::ingress::IngressInput;
use crate::listeners::{self, GatewayListenerPlan, GatewayPlan, ListenerRole};
use crate::refusal::checked_route;
use crate::store::ObjectKey;
use crate::upstream_table::UpstreamTable;

/// A route object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteKey {
    pub(crate) kind: RouteKind,
    pub(crate) key: ObjectKey,
}

/// A route with what it is attached to.
#[derive(Debug)]
pub(crate) struct RouteState {
    pub(crate) compiled: Arc<CompiledRoute>,
    pub(crate) attachments: Vec<Attachment>,
}

/// A route on a listener, as it was built last.
#[derive(Debug)]
struct BuiltRoute {
    compiled: Arc<CompiledRoute>,
    hosts: Box<[SharedText]>,
    /// Those of them of which TLS passes through although the port ends it.
    passed: Box<[SharedText]>,
    priorities: Box<[i32]>,
    indices: Box<[UpstreamIndex]>,
    routes: Box<[Arc<Route>]>,
    /// The last turn in which the listener had it.
    turn: u64,
}

/// Those of one listener. The map stays from turn to turn, and moves no large values when it grows.
type BuiltRoutes = HashMap<RouteKey, Box<BuiltRoute>>;

/// What was built last.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    upstreams: UpstreamTable,
    /// By the name of the listener.
    built: BTreeMap<Box<str>, BuiltRoutes>,
    /// Counts the assemblies.
    turn: u64,
    listeners: BTreeMap<Box<str>, Arc<Listener>>,
    /// What the last translation has left out, and why: nothing, as long as objects are translated to what can be.
    faults: Vec<ConfigFault>,
}

/// The open listeners of a Gateway on one port.
struct Port<'a> {
    gateway: &'a GatewayPlan,
    plans: Vec<&'a GatewayListenerPlan>,
    /// The hosts of listeners that are closed for want of a certificate.
    closed: Vec<SharedText>,
    has_tls: bool,
    number: u16,
    is_http: bool,
    /// The routes with their hosts, the one that precedes all others last.
    routes: Vec<(&'a RouteKey, &'a RouteState, Vec<SharedText>)>,
    listener: ListenerParts,
}

impl Assembly {
    /// What was left out since this was asked for last, and why.
    pub(crate) fn take_faults(&mut self) -> Vec<ConfigFault> {
        let mut faults = self.upstreams.take_faults();
        faults.append(&mut self.faults);
        faults
    }

    /// The upstreams that have become other ones since this was asked for last.
    pub(crate) fn take_fresh(&mut self) -> Vec<Arc<Backend>> {
        self.upstreams.take_fresh()
    }

    /// The upstreams of a service.
    pub(crate) fn of_service(&self, service: &ObjectKey) -> impl Iterator<Item = &Arc<Backend>> {
        self.upstreams.of_service(service)
    }

    pub(crate) fn assemble(
        &mut self,
        plans: &[GatewayPlan],
        routes: &BTreeMap<RouteKey, RouteState>,
        settings: &GatewaySettings,
        mut ingress: Option<&mut IngressInput<'_>>,
    ) -> Option<Config> {
        let ports = ports(plans, routes, settings);
        let unresolved = Backend::unresolved();
        if ports.iter().any(|port| !port.is_http) {
            self.upstreams.keep(&unresolved);
        }
        for port in &ports {
            for (_, state, hosts) in port.routes.iter().rev() {
                for (passage, _) in port.passages(hosts) {
                    let backends = state.compiled.backends();
                    backends.for_each(|backend| self.upstreams.keep(&passage.backend(backend)));
                }
            }
        }
        if let Some(ingress) = &ingress {
            ingress.backends().into_iter().for_each(|backend| self.upstreams.keep(backend));
        }
        self.upstreams.sweep();
        self.turn += 1;
        let mut before = std::mem::take(&mut self.built);
        let mut known = std::mem::take(&mut self.listeners);
        for mut port in ports {
            let name = port.listener.name.clone();
            let built = self.build(&port, before.remove(&name).unwrap_or_default());
            let mut routes = self.unmatched(&port);
            for (key, _, _) in port.routes.iter().rev() {
                routes.extend(built[*key].routes.iter().cloned());
            }
            port.listener.routes = routes;
            self.built.insert(name.clone(), built);
            let listener = match known.remove(&name) {
                Some(same) if is_same(&same, &port.listener) => Some(same),
                _ => self.noted(Listener::from_parts(port.listener)).map(Arc::new),
            };
            self.listeners.extend(listener.map(|listener| (name, listener)));
        }
        let mut config = settings.base.to_parts();
        config.listeners = self.listeners.values().cloned().collect();
        config.upstreams = self.upstreams.all().cloned().collect();
        if let Some(ingress) = &mut ingress {
            let parts = ingress.parts(&|backend| self.upstreams.index(backend));
            config.listeners.extend(parts.listeners);
            config.lists.extend(parts.lists);
            config.limits.extend(parts.limits);
            self.faults.extend(parts.faults);
        }
        self.noted(Config::from_parts(config))
    }

    /// What was made; why not is noted.
    fn noted<T>(&mut self, made: Result<T, Vec<ConfigFault>>) -> Option<T> {
        made.map_err(|faults| self.faults.extend(faults)).ok()
    }

    /// The routes of a listener, those that are as before as they were.
    fn build(&mut self, port: &Port<'_>, mut built: BuiltRoutes) -> BuiltRoutes {
        let mut priorities = Priorities::default();
        for host in port.hostnames() {
            priorities.next(rank(&RouteMatch::default()), std::iter::once(&*host));
        }
        for (key, state, hosts) in &port.routes {
            let compiled = &state.compiled;
            let mut wanted = Vec::new();
            for rule in compiled.rules.iter().rev() {
                for rank in rule.ranks.iter().rev() {
                    wanted.push(priorities.next(*rank, hosts.iter().map(|host| &**host)));
                }
            }
            wanted.reverse();
            let passages = port.passages(hosts);
            let indices = passages
                .iter()
                .flat_map(|(passage, _)| compiled.backends().map(|backend| self.index(*passage, backend)));
            let indices: Vec<_> = indices.collect();
            let passed: Vec<SharedText> = (passages.iter())
                .filter(|(passage, _)| passage.passes_beside_others)
                .flat_map(|(_, hosts)| hosts.iter().cloned())
                .collect();
            let is_same = |built: &BuiltRoute| {
                Arc::ptr_eq(&built.compiled, compiled)
                    && *built.hosts == **hosts
                    && *built.passed == *passed
                    && *built.priorities == *wanted
                    && *built.indices == *indices
            };
            if let Some(known) = built.get_mut(*key).filter(|known| is_same(known)) {
                known.turn = self.turn;
                continue;
            }
            let mut routes = Vec::new();
            for (passage, hosts) in &passages {
                let parts = self.routes_of(*passage, compiled, hosts, &wanted);
                routes.extend(parts.into_iter().map(|parts| checked_route(parts, &mut self.faults)));
            }
            let one = BuiltRoute {
                compiled: Arc::clone(compiled),
                hosts: hosts.as_slice().into(),
                passed: passed.into(),
                priorities: wanted.into(),
                indices: indices.into(),
                routes: routes.into(),
                turn: self.turn,
            };
            built.insert((*key).clone(), Box::new(one));
        }
        built.retain(|_, one| one.turn == self.turn);
        built
    }

    /// The routes for hosts that are treated alike.
    fn routes_of(
        &self,
        passage: Passage<'_>,
        compiled: &CompiledRoute,
        hosts: &[SharedText],
        priorities: &[i32],
    ) -> Vec<RouteParts> {
        let Some(hosts) = patterns(hosts) else { return Vec::new() };
        let mut priorities = priorities.iter();
        let mut routes = Vec::new();
        let mut places = HashSet::new();
        for rule in &compiled.rules {
            let mut settings = self.with_mirrors(passage, &rule.settings, (rule, &[]));
            if passage.passes_beside_others {
                Arc::make_mut(&mut settings).tls_passthrough = true;
            }
            for (number, matches) in rule.matches.iter().enumerate() {
                let priority = *priorities.next().expect("each match has one");
                let Some(action) = self.action_of(passage, rule, number) else { continue };
                let matches = RouteMatch { hosts: hosts.clone(), priority, ..matches.clone() };
                let place = place_of_match(&rule.name, number, &mut places);
                let kind = compiled.kind.name().to_ascii_lowercase();
                let passed = if passage.passes_beside_others { "/passthrough" } else { "" };
                let name = format!("{kind}/{}/{place}{passed}", compiled.key);
                let mut parts = RouteParts::new(&name, Arc::new(matches), action);
                parts.settings = Arc::clone(&settings);
                routes.push(parts);
            }
        }
        routes
    }

    fn action_of(&self, passage: Passage<'_>, rule: &CompiledRule, number: usize) -> Option<RouteAction> {
        Some(match &rule.action {
            CompiledAction::Respond(status) => respond(*status),
            CompiledAction::Redirect(plans) => {
                RouteAction::Redirect(plans.get(number)?.at(passage.has_tls, passage.port).ok()?)
            }
            CompiledAction::Backends(targets) => match &targets[..] {
                [CompiledTarget { backend: Some(backend), own: None, .. }] => {
                    RouteAction::Upstream(self.index(passage, backend))
                }
                targets => {
                    let target = |one| self.split_target(passage, rule, one);
                    RouteAction::Split(targets.iter().map(target).collect())
                }
            },
        })
    }

    fn index(&self, passage: Passage<'_>, backend: &Arc<Backend>) -> UpstreamIndex {
        self.upstreams.index(&passage.backend(backend))
    }

    fn split_target(
        &self,
        passage: Passage<'_>,
        rule: &CompiledRule,
        target: &CompiledTarget,
    ) -> SplitTarget {
        let to = match &target.backend {
            Some(backend) => SplitAction::Upstream(self.index(passage, backend)),
            None => SplitAction::Respond(500),
        };
        let settings = |own: &TargetSettings| self.with_mirrors(passage, &own.settings, (rule, &own.mirrors));
        let mut split = SplitTarget::new(to, target.weight);
        split.settings = target.own.as_ref().map(settings);
        split
    }

    /// The settings with the mirrors of the rule, and then those of one of its backends.
    fn with_mirrors(
        &self,
        passage: Passage<'_>,
        settings: &Arc<RouteSettings>,
        (rule, of_target): (&CompiledRule, &[(Arc<Backend>, ShareFraction)]),
    ) -> Arc<RouteSettings> {
        let mut settings = Arc::clone(settings);
        if !rule.mirrors.is_empty() || !of_target.is_empty() {
            let mirror = |(backend, share): &(Arc<Backend>, ShareFraction)| {
                Mirror::of_all(self.index(passage, backend), *share)
            };
            let mirrors = rule.mirrors.iter().chain(of_target);
            Arc::make_mut(&mut settings).mirrors = mirrors.map(mirror).collect();
        }
        settings
    }

    /// What happens to requests of a listener's hosts that no route of its own takes: those of less specific listeners do not get them.
    fn unmatched(&mut self, port: &Port<'_>) -> Vec<Arc<Route>> {
        let hostnames = port.hostnames();
        let unresolved = self.upstreams.index_of(&Backend::unresolved());
        let of_hosts = hostnames.iter().filter_map(|host| {
            let hosts = patterns(std::slice::from_ref(host))?;
            let name = format!("no-route/{}", if host.is_empty() { "*" } else { host });
            let action = match port.is_http {
                true => respond(404),
                false => RouteAction::Upstream(unresolved?),
            };
            let matches = Arc::new(RouteMatch { hosts, ..RouteMatch::default() });
            let mut parts = RouteParts::new(&name, matches, action);
            if listeners::passes_tls(&port.plans, host) {
                parts.tls_passthrough = true;
            }
            Some(checked_route(parts, &mut self.faults))
        });
        of_hosts.collect()
    }
}

impl<'a> Port<'a> {
    /// The hosts of a route by what happens to their TLS; without those of which there are none.
    fn passages(&self, hosts: &[SharedText]) -> Vec<(Passage<'a>, Vec<SharedText>)> {
        let (passed, ended): (Vec<SharedText>, Vec<SharedText>) =
            hosts.iter().cloned().partition(|host| listeners::passes_tls(&self.plans, host));
        let originates_tls = !self.plans.iter().all(|plan| plan.role == Some(ListenerRole::TlsPassthrough));
        let ends = Passage {
            gateway: self.gateway,
            has_tls: self.has_tls,
            port: self.number,
            originates_tls,
            passes_beside_others: false,
        };
        let passes = Passage { originates_tls: false, passes_beside_others: true, ..ends };
        [(ends, ended), (passes, passed)].into_iter().filter(|(_, hosts)| !hosts.is_empty()).collect()
    }

    /// The hosts of the listeners, closed ones included, each once.
    fn hostnames(&self) -> Vec<SharedText> {
        let open = self.plans.iter().map(|plan| &plan.hostname);
        let mut hosts: Vec<SharedText> = open.chain(&self.closed).cloned().collect();
        hosts.sort_compact();
        hosts.dedup();
        hosts
    }
}

/// What hosts of a port have in common.
#[derive(Debug, Clone, Copy)]
struct Passage<'a> {
    gateway: &'a GatewayPlan,
    has_tls: bool,
    port: u16,
    /// Whether TLS with servers, where a policy asks for it, begins here; else what clients send is TLS already.
    originates_tls: bool,
    /// Whether TLS passes through although the port ends that of other hosts.
    passes_beside_others: bool,
}

impl Passage<'_> {
    /// The backend for requests of this Gateway, which may have a certificate for servers.
    fn backend(self, backend: &Arc<Backend>) -> Arc<Backend> {
        match &self.gateway.certificate {
            _ if !self.originates_tls => backend.passed(),
            Some(Ok(certificate)) => backend.shown(&self.gateway.key, certificate),
            Some(Err(_)) | None => Arc::clone(backend),
        }
    }
}

/// The name of a match within its object: the rule's, and a number where that has several, or where another rule has come to the same.
fn place_of_match(rule: &str, number: usize, taken: &mut HashSet<String>) -> String {
    let mut place = if number == 0 { rule.to_owned() } else { format!("{rule}.{number}") };
    let mut again = number.max(1);
    while !taken.insert(place.clone()) {
        again += 1;
        place = format!("{rule}.{again}");
    }
    place
}

fn respond(status: u16) -> RouteAction {
    RouteAction::Respond(Box::new(FixedResponse::empty(status)))
}

/// The hosts of a match: none where it is for every host. Nothing if one is not a host, which the API server does not let pass.
fn patterns(hosts: &[SharedText]) -> Option<Vec<HostPattern>> {
    match hosts {
        [one] if one.is_empty() => Some(Vec::new()),
        _ => (hosts.iter())
            .map(|host| if host.is_empty() { Some(HostPattern::ANY) } else { HostPattern::parse(host).ok() })
            .collect(),
    }
}

fn is_same(one: &ListenerParts, other: &ListenerParts) -> bool {
    let same_routes = one.routes.len() == other.routes.len()
        && one.routes.iter().zip(&other.routes).all(|(one, other)| Arc::ptr_eq(one, other) || one == other);
    let bare = |listener: &ListenerParts| {
        let mut bare = listener.clone();
        bare.routes.clear();
        bare
    };
    same_routes && bare(one) == bare(other)
}

/// The next priority among matches that are equal in all else.
#[derive(Debug, Default)]
struct Priorities(HashMap<u64, i32>);

impl Priorities {
    /// A priority above all that matches of the same rank have on one of these hosts.
    fn next<'a>(&mut self, rank: u64, hosts: impl Iterator<Item = &'a str>) -> i32 {
        let places: Vec<u64> = hosts
            .map(|host| {
                let mut hasher = DefaultHasher::new();
                (rank, host).hash(&mut hasher);
                hasher.finish()
            })
            .collect();
        let next = places.iter().filter_map(|place| self.0.get(place)).max().map_or(0, |highest| highest + 1);
        self.0.extend(places.into_iter().map(|place| (place, next)));
        next
    }
}

/// The open ports with the routes that are attached to them.
fn ports<'a>(
    plans: &'a [GatewayPlan],
    routes: &'a BTreeMap<RouteKey, RouteState>,
    settings: &GatewaySettings,
) -> Vec<Port<'a>> {
    let mut ports: Vec<Port<'a>> = Vec::new();
    let mut places: HashMap<(usize, u16), usize> = HashMap::new();
    for (gateway, plan) in plans.iter().enumerate().filter(|(_, plan)| plan.accepted.is_ok()) {
        let mut by_port: BTreeMap<u16, Vec<&GatewayListenerPlan>> = BTreeMap::new();
        for listener in plan.listeners.iter().filter(|listener| listener.is_open()) {
            by_port.entry(listener.port).or_default().push(listener);
        }
        for (number, listeners) in by_port {
            places.insert((gateway, number), ports.len());
            let listener = listeners::listener(&plan.key, &listeners, settings);
            let is_http = listeners[0].role.is_some_and(listeners::ListenerRole::is_http);
            let has_tls = listener.tls.is_some();
            let is_closed =
                |one: &&GatewayListenerPlan| one.port == number && one.holds_hosts() && !one.is_open();
            let closed = plan.listeners.iter().filter(is_closed).map(|one| one.hostname.clone()).collect();
            ports.push(Port {
                gateway: plan,
                plans: listeners,
                closed,
                has_tls,
                number,
                is_http,
                routes: Vec::new(),
                listener,
            });
        }
    }
    for (key, state) in routes {
        for attachment in &state.attachments {
            for one in attachment.listeners() {
                let listener = &plans[attachment.gateway].listeners[one.listener];
                let place = places.get(&(attachment.gateway, listener.port));
                let Some(place) = place.filter(|_| listener.is_open()) else { continue };
                let of_port = &mut ports[*place].routes;
                match of_port.last_mut() {
                    Some((last, _, hosts)) if *last == key => hosts.extend(one.hosts.iter().cloned()),
                    _ => of_port.push((key, state, one.hosts.clone())),
                }
            }
        }
    }
    for port in &mut ports {
        for (_, _, hosts) in &mut port.routes {
            hosts.sort_compact();
            hosts.dedup();
        }
        // The oldest precedes all others, then the first by name: both come last.
        port.routes.sort_compact_by(|(one, of_one, _), (other, of_other, _)| {
            let order =
                |key: &'a RouteKey, state: &'a RouteState| (&state.compiled.created, &key.key, key.kind);
            order(other, of_other).cmp(&order(one, of_one))
        });
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_of_an_object_have_names_of_their_own() {
        let mut taken = HashSet::new();
        let mut place = |rule, number| place_of_match(rule, number, &mut taken);
        assert_eq!([place("a", 0), place("a", 1)], ["a", "a.1"]);
        assert_eq!(
            [place("a.1", 0), place("a", 0)],
            ["a.1.2", "a.2"],
            "a name may look like that of a match"
        );
    }
}
