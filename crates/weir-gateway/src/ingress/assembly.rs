//! From the hosts of Ingresses to the listeners of the ports 80 and 443 with their routes. What has not changed is shared with those before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::{
    AccessList, ConfigFault, EncodedSlashAction, FixedResponse, ForwardAuth, HeaderName, HeaderTemplate,
    KeyLimit, ListenAddress, Listener, ListenerParts, ListenerTls, LoadedCertificate, Mirror, PriorKnowledge,
    Redirect, Route, RouteAction, RouteParts, RouteSettings, ShareFraction, SplitAction, SplitTarget,
    UpstreamIndex,
};
use weir_traffic::rewrite::Rewrite;
use weir_traffic::route::{HostPattern, PathMatch, RouteMatch};

use super::canary::CanaryRule;
use super::compile::{CompiledIngress, CompiledPath};
use super::default_certificate::DefaultCertificate;
use super::host_certificates::{HostCertificate, TlsDemand};
use super::hosts::{HostEntry, HostPlan, HostTable, shown};
use super::hsts::Hsts;
use super::lookup::UrlTarget;
use crate::api::SharedText;
use crate::backends::Backend;
use crate::options::settings::{GatewaySettings, IngressSettings};
use crate::refusal::checked_route;
use crate::store::ObjectKey;

/// What a client reads whose request would be handled in another way than its Ingress asks.
const NOT_SERVED: &str = "This path is not served: an annotation of its Ingress cannot be applied. The events of the Ingress say which.\n";

/// The path of challenges of ACME, which authorities fetch without TLS.
const CHALLENGES: &str = "/.well-known/acme-challenge";

/// Listeners and routes as they were built last.
#[derive(Debug, Default)]
pub(super) struct IngressAssembly {
    routes: HashMap<(bool, Arc<str>), Arc<Route>>,
    listeners: [Option<Arc<Listener>>; 2],
    certificates: Vec<Arc<LoadedCertificate>>,
}

/// What Ingresses add to a configuration.
#[derive(Debug, Default)]
pub(crate) struct IngressParts {
    pub(crate) listeners: Vec<Arc<Listener>>,
    pub(crate) lists: Vec<Arc<AccessList>>,
    pub(crate) limits: Vec<Arc<KeyLimit>>,
    /// What was left out, and why.
    pub(crate) faults: Vec<ConfigFault>,
}

/// A listener while its routes are made.
struct Build<'a> {
    table: &'a HostTable<'a>,
    index: &'a dyn Fn(&Backend) -> UpstreamIndex,
    has_tls: bool,
    hsts: &'a Hsts,
    /// The settings of routes without an Ingress: of hosts without a certificate, and of those with one.
    bare: [Arc<RouteSettings>; 2],
    /// The settings of an Ingress with what names upstreams, for hosts without a certificate and for those with one.
    settings: HashMap<(&'a ObjectKey, bool), Option<Arc<RouteSettings>>>,
    known: &'a HashMap<(bool, Arc<str>), Arc<Route>>,
    routes: Vec<Arc<Route>>,
    faults: Vec<ConfigFault>,
}

/// All upstreams that a table refers to.
pub(super) fn backends<'a>(table: &HostTable<'a>) -> Vec<&'a Arc<Backend>> {
    let mut backends = Vec::new();
    for entry in table.hosts.values().flat_map(|plan| &plan.entries) {
        backends.extend(&entry.path.backend);
        backends.extend(entry.canary.and_then(|(_, path)| path.backend.as_ref()));
        backends.extend(entry.ingress.mirror.as_ref().map(|mirror| &mirror.backend));
        if let Some(auth) = &entry.ingress.auth
            && let UrlTarget::Service(backend) = &auth.target
        {
            backends.push(backend);
        }
    }
    backends
}

impl IngressAssembly {
    pub(super) fn assemble(
        &mut self,
        table: &HostTable<'_>,
        (default_certificate, hsts): (&DefaultCertificate, &Hsts),
        (settings, ours): (&GatewaySettings, &IngressSettings),
        index: &dyn Fn(&Backend) -> UpstreamIndex,
    ) -> IngressParts {
        if table.hosts.is_empty() {
            *self = Self::default();
            return IngressParts::default();
        }
        let certificates = self.certificates(table, default_certificate);
        let mut routes = HashMap::new();
        let (mut listeners, mut faults) = (Vec::new(), Vec::new());
        for (place, has_tls) in [false, true].into_iter().enumerate() {
            if has_tls && certificates.is_empty() {
                continue;
            }
            let mut listener = listener(settings, ours, has_tls.then(|| certificates.clone()));
            let mut build = Build {
                table,
                index,
                has_tls,
                hsts,
                bare: bare(hsts),
                settings: HashMap::new(),
                known: &self.routes,
                routes: Vec::new(),
                faults: Vec::new(),
            };
            build.all();
            faults.append(&mut build.faults);
            routes
                .extend(build.routes.iter().map(|route| ((has_tls, route.name.clone()), Arc::clone(route))));
            listener.routes = build.routes;
            let same = self.listeners[place].take().filter(|known| ***known == listener);
            let made = || Listener::from_parts(listener).map_err(|found| faults.extend(found)).ok();
            self.listeners[place] = same.or_else(|| made().map(Arc::new));
            listeners.extend(self.listeners[place].clone());
        }
        (self.routes, self.certificates) = (routes, certificates);
        let used: BTreeMap<&ObjectKey, &Arc<CompiledIngress>> =
            (table.hosts.values().flat_map(|plan| &plan.entries))
                .map(|entry| (&entry.ingress.key, entry.ingress))
                .collect();
        IngressParts {
            listeners,
            lists: used.values().flat_map(|ingress| ingress.lists.iter().cloned()).collect(),
            limits: used.values().flat_map(|ingress| ingress.limits.iter().cloned()).collect(),
            faults,
        }
    }

    /// The certificates, each for the hosts alone that may have it: the names in a certificate say nothing about who may use them.
    fn certificates(
        &self,
        table: &HostTable<'_>,
        default_certificate: &DefaultCertificate,
    ) -> Vec<Arc<LoadedCertificate>> {
        let limited = |certificate: &LoadedCertificate, names: Vec<Box<str>>| {
            let limited = certificate.for_names(names);
            let known = self.certificates.iter().find(|known| ***known == limited);
            known.cloned().unwrap_or_else(|| Arc::new(limited))
        };
        let own = |(certificate, hosts): &(Arc<LoadedCertificate>, BTreeSet<SharedText>)| {
            limited(certificate, hosts.iter().map(Into::into).collect())
        };
        let default = default_certificate.loaded.as_ref().map(|certificate| {
            let hosts = table.hosts_of_default();
            match hosts.is_empty() {
                true => Arc::clone(certificate),
                false => {
                    let more = hosts
                        .into_iter()
                        .filter(|host| !certificate.names.iter().any(|name| **name == **host));
                    limited(
                        certificate,
                        certificate.names.iter().cloned().chain(more.map(Into::into)).collect(),
                    )
                }
            }
        });
        default.into_iter().chain(table.certificates.iter().map(own)).collect()
    }
}

/// One of the two listeners, without routes yet.
fn listener(
    settings: &GatewaySettings,
    ours: &IngressSettings,
    certificates: Option<Vec<Arc<LoadedCertificate>>>,
) -> ListenerParts {
    let (name, port) = match &certificates {
        None => ("ingress-http", ours.http_port),
        Some(_) => ("ingress-https", ours.https_port),
    };
    let address = match settings.bind {
        None => ListenAddress::AllTcp { port },
        Some(ip) => ListenAddress::Tcp(SocketAddr::new(ip, port)),
    };
    let mut listener = ListenerParts::new(name, vec![address], Vec::new());
    // As nginx: a path that a server decodes must not pass the rules for what it comes to.
    listener.paths.encoded_slash = EncodedSlashAction::Decode;
    listener.forwards_encoded_slashes = true;
    match certificates {
        // Clients of gRPC begin with HTTP/2 where there is no TLS to agree on it.
        None => listener.http2.prior_knowledge = PriorKnowledge::Allowed,
        Some(certificates) => listener.tls = Some(ListenerTls::with_certificates(certificates)),
    }
    listener
}

impl<'a> Build<'a> {
    fn all(&mut self) {
        let table = self.table;
        for (host, plan) in &table.hosts {
            let Some(hosts) = patterns(host) else { continue };
            self.host(host, &hosts, plan);
            let matches = RouteMatch { hosts, ..RouteMatch::default() };
            let settings = self.bare_settings(self.has_hsts(host, plan));
            self.push(&format!("no-route/{}", shown(host)), matches, respond(404, ""), settings);
        }
        for (host, (to, _)) in &table.redirected {
            let Some(hosts) = patterns(host) else { continue };
            let scheme = if self.has_tls { "https" } else { "http" };
            let action = redirect(&format!("{scheme}://{to}{{path}}{{query}}"), 308);
            let matches = RouteMatch { hosts, ..RouteMatch::default() };
            self.push(&format!("www-redirect/{host}"), matches, action, Arc::default());
        }
    }

    /// Whether responses of a host have `Strict-Transport-Security`, as in ingress-nginx: those over TLS, where a certificate was asked for.
    fn has_hsts(&self, host: &str, plan: &HostPlan<'_>) -> bool {
        self.has_tls && !host.is_empty() && plan.certificate != HostCertificate::Unasked
    }

    fn bare_settings(&self, has_hsts: bool) -> Arc<RouteSettings> {
        Arc::clone(&self.bare[usize::from(has_hsts)])
    }

    fn host(&mut self, host: &str, hosts: &[HostPattern], plan: &'a HostPlan<'a>) {
        let has_hsts = self.has_hsts(host, plan);
        let roots = plan.entries.iter().find_map(|entry| {
            let root = entry.ingress.draft.paths.app_root.as_ref()?;
            (!entry.ingress.is_refused && plan.is_of(entry.ingress)).then_some((entry, root))
        });
        let has_exact_root = plan
            .entries
            .iter()
            .any(|entry| !plan.is_regex && entry.path.is_exact && *entry.path.text == *"/");
        if let (Some((entry, to)), false) = (roots, has_exact_root) {
            let redirect = Redirect::new(to.clone(), 302);
            let path = PathMatch::exact("/").expect("it is a path");
            let matches = RouteMatch { hosts: hosts.to_vec(), path, ..RouteMatch::default() };
            let action = self.tls_redirect(entry).unwrap_or(RouteAction::Redirect(redirect));
            self.push(
                &format!("ingress/{}/{}/app-root", entry.ingress.key, shown(host)),
                matches,
                action,
                self.bare_settings(has_hsts),
            );
        }
        let count = i32::try_from(plan.entries.len()).unwrap_or(i32::MAX);
        for (place, entry) in (0..).zip(&plan.entries) {
            // Regular expressions are tried in this order, whatever rules on headers a canary adds.
            let precedence = if plan.is_regex { count - place } else { 0 };
            let base = RouteMatch { hosts: hosts.to_vec(), precedence, ..RouteMatch::default() };
            self.entry(host, (plan, entry), base);
        }
    }

    /// Where requests without TLS are sent that may not be served.
    fn tls_redirect(&self, entry: &HostEntry<'_>) -> Option<RouteAction> {
        if self.has_tls || entry.path.text.starts_with(CHALLENGES) {
            return None;
        }
        let paths = &entry.ingress.draft.paths;
        match entry.demand {
            _ if paths.tls_redirect_forced => Some(to_https(308)),
            TlsDemand::Asked if paths.tls_redirect => Some(to_https(308)),
            // Not one that browsers remember: TLS may turn out not to be asked for.
            TlsDemand::Unknown if paths.tls_redirect => Some(to_https(307)),
            _ => None,
        }
    }

    /// The routes of one path.
    fn entry(
        &mut self,
        host: &str,
        (plan, entry): (&'a HostPlan<'a>, &'a HostEntry<'a>),
        mut base: RouteMatch,
    ) {
        let (ingress, path) = (entry.ingress, entry.path);
        let has_hsts = self.has_hsts(host, plan);
        let Some((matched, rewrite)) = plan.read(entry) else { return };
        base.path = matched.clone();
        let kind = if path.is_exact { ".exact" } else { "" };
        let name = format!("ingress/{}/{}{}{kind}", ingress.key, shown(host), path.text);
        if let Some(action) = self.tls_redirect(entry) {
            return self.push(&name, base, action, Arc::default());
        }
        let settings = if ingress.is_refused || self.table.refused.contains(&ingress.key) {
            None
        } else {
            self.settings_of(ingress, has_hsts)
        };
        let Some(settings) = settings else {
            let settings = self.bare_settings(has_hsts);
            return self.push(&name, base, respond(503, NOT_SERVED), settings);
        };
        if let Some(action) = redirect_of(ingress) {
            return self.push(&name, base, action, settings);
        }
        let settings = with_rewrite(settings, rewrite.clone());
        let main = self.target(path);
        let Some((canary, canary_path)) = entry.canary else {
            return self.push(&name, base, main_action(main), settings);
        };
        let rare = self.target(canary_path);
        for CanaryRule { suffix, leads_to_canary, rule, above } in canary.canary_rules() {
            let headers = vec![rule.clone()];
            let matches = RouteMatch { headers, priority: *above, ..base.clone() };
            let action = main_action(if *leads_to_canary { rare } else { main });
            self.push(&format!("{name}{suffix}"), matches, action, Arc::clone(&settings));
        }
        let (weight, total) = (canary.draft.canary.weight, canary.draft.canary.weight_total);
        let action = match weight {
            0 => main_action(main),
            weight if weight >= total => main_action(rare),
            weight => RouteAction::Split(vec![target(rare, weight), target(main, total - weight)]),
        };
        self.push(&name, base, action, settings);
    }

    fn target(&self, path: &CompiledPath) -> Option<UpstreamIndex> {
        path.backend.as_ref().map(|backend| (self.index)(backend))
    }

    /// The settings of an Ingress; `None` if the server of its `auth-url` is not known.
    fn settings_of(
        &mut self,
        ingress: &'a Arc<CompiledIngress>,
        has_hsts: bool,
    ) -> Option<Arc<RouteSettings>> {
        if let Some(known) = self.settings.get(&(&ingress.key, has_hsts)) {
            return known.clone();
        }
        let made = self.make_settings(ingress, has_hsts);
        self.settings.insert((&ingress.key, has_hsts), made.clone());
        made
    }

    fn make_settings(&self, ingress: &CompiledIngress, has_hsts: bool) -> Option<Arc<RouteSettings>> {
        let with_hsts = || self.hsts.applied_to(&ingress.settings);
        let mut settings = match has_hsts {
            true => Arc::clone(ingress.settings_with_hsts.get_or_init(with_hsts)),
            false => Arc::clone(&ingress.settings),
        };
        if let Some(plan) = &ingress.mirror {
            let mut mirror = Mirror::of_all((self.index)(&plan.backend), ShareFraction::WHOLE);
            mirror.forward_host = plan.forward_host.clone();
            mirror.body_max = plan.body_max.unwrap_or(mirror.body_max);
            Arc::make_mut(&mut settings).mirrors = vec![mirror];
        }
        if ingress.draft.access.forward.is_some() {
            let plan = ingress.auth.as_ref()?;
            let backend = auth_backend(self.table, ingress)?;
            let mut forward = ForwardAuth::new((self.index)(backend), (*plan.path).into());
            forward.forward_host = plan.forward_host.clone();
            forward.headers = question_headers(ingress.draft.access.redirect.as_ref());
            forward.response_headers = ingress.draft.access.forward_headers.clone();
            Arc::make_mut(&mut settings).access.get_or_insert_default().forward = Some(forward);
        }
        Some(settings)
    }

    fn push(&mut self, name: &str, matches: RouteMatch, action: RouteAction, settings: Arc<RouteSettings>) {
        let mut parts = RouteParts::new(name, Arc::new(matches), action);
        parts.settings = settings;
        let known = self.known.get(&(self.has_tls, parts.name.clone())).filter(|known| ****known == parts);
        self.routes.push(match known {
            Some(known) => Arc::clone(known),
            None => checked_route(parts, &mut self.faults),
        });
    }
}

/// The headers of questions, as ingress-nginx has them beside those that each listener adds.
fn question_headers(redirect: Option<&HeaderTemplate>) -> Vec<(HeaderName, HeaderTemplate)> {
    const HEADERS: [(&str, &str); 5] = [
        ("x-original-url", "{scheme}://{authority}{path}{query}"),
        ("x-original-uri", "{path}{query}"),
        ("x-original-method", "{method}"),
        ("x-real-ip", "{client_address}"),
        ("x-auth-request-redirect", "{path}{query}"),
    ];
    let header = |(name, value): (&str, &str)| {
        let value: HeaderTemplate = value.parse().expect("it is a template");
        let own = redirect.filter(|_| name == "x-auth-request-redirect").cloned();
        (name.parse().expect("it is a name"), own.unwrap_or(value))
    };
    HEADERS.into_iter().map(header).collect()
}

/// The server that decides about the requests of an Ingress. One that another namespace protects is not asked in a way around that.
pub(super) fn auth_backend<'a>(
    table: &HostTable<'a>,
    ingress: &'a CompiledIngress,
) -> Option<&'a Arc<Backend>> {
    let plan = ingress.auth.as_ref()?;
    let find = |host: &str| {
        let entry = table.find(host, &plan.path)?;
        let other = entry.ingress;
        let is_open = other.auth.is_none() && other.settings.access.is_none() && other.lists.is_empty();
        let may_ask = is_open || other.key.namespace == ingress.key.namespace;
        let is_plain = !other.is_refused && other.draft.paths.rewrite_target.is_none();
        entry.path.backend.as_ref().filter(|_| may_ask && is_plain)
    };
    match &plan.target {
        UrlTarget::Service(backend) => Some(backend),
        UrlTarget::Host(host) => find(host),
        UrlTarget::SameHost => {
            let hosts = ingress.hosts();
            let mut found = hosts.iter().map(|host| find(host));
            let first = found.next()??;
            // Where several hosts have several servers, none is right for all.
            found.all(|other| other.is_some_and(|other| other.name == first.name)).then_some(first)
        }
    }
}

/// The settings of routes without an Ingress: of hosts without a certificate, and of those with one.
fn bare(hsts: &Hsts) -> [Arc<RouteSettings>; 2] {
    let plain = Arc::default();
    [Arc::clone(&plain), hsts.applied_to(&plain)]
}

fn main_action(upstream: Option<UpstreamIndex>) -> RouteAction {
    upstream.map_or_else(|| respond(503, ""), RouteAction::Upstream)
}

fn target(upstream: Option<UpstreamIndex>, weight: u32) -> SplitTarget {
    let to = upstream.map_or(SplitAction::Respond(503), SplitAction::Upstream);
    SplitTarget::new(to, weight)
}

fn redirect_of(ingress: &CompiledIngress) -> Option<RouteAction> {
    let paths = &ingress.draft.paths;
    let (to, status) = match (&paths.temporal, &paths.permanent) {
        (Some(to), _) => (to, paths.temporal_code),
        (None, Some(to)) => (to, paths.permanent_code),
        (None, None) => return None,
    };
    Some(RouteAction::Redirect(Redirect::new(to.clone(), status)))
}

fn with_rewrite(mut settings: Arc<RouteSettings>, rewrite: Option<Rewrite>) -> Arc<RouteSettings> {
    if rewrite.is_some() {
        Arc::make_mut(&mut settings).rewrite = rewrite;
    }
    settings
}

fn to_https(status: u16) -> RouteAction {
    redirect("https://{host}{path}{query}", status)
}

fn redirect(to: &str, status: u16) -> RouteAction {
    let to = to.parse().expect("hosts of Ingresses are hosts");
    RouteAction::Redirect(Redirect::new(to, status))
}

fn respond(status: u16, body: &str) -> RouteAction {
    RouteAction::Respond(Box::new(FixedResponse::with_body(status, body)))
}

/// The hosts of a match: none where it is for every host.
fn patterns(host: &str) -> Option<Vec<HostPattern>> {
    if host.is_empty() { Some(Vec::new()) } else { HostPattern::parse(host).ok().map(|host| vec![host]) }
}
