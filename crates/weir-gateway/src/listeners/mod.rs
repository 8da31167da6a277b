//! From Gateways to listeners: which of them can be opened, with which certificates, for which routes.

mod certificates_by_host;
mod tls;
mod sets;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_config::{
    ClientCertificates, ListenAddress, ListenerParts, ListenerProtocol, ListenerTls, LoadedCertificate,
    PriorKnowledge,
};
use weir_sort::CompactSort as _;

use weir_traffic::route::HostPattern;

use super::names::hosts::{covers, hostname};
use super::options::parameters::GatewayParameters;
use super::options::settings::GatewaySettings;
use crate::api::{GROUP, Gateway, GatewayListener, ListenerSet, NamespaceRule, SharedText};
use crate::compile::RouteKind;
use crate::policies::age;
use crate::refusal::{Refusal, excerpt};
use crate::store::{ObjectKey, ObjectStore};

use self::certificates_by_host::certificates_by_host;
use self::tls::{load_certificates, require_clients};

pub(crate) use self::sets::ListenerSetPlan;
pub use self::sets::gateway_of_set;
pub(crate) use self::tls::{ListenerCertificates, has_insecure_fallback};

/// What a listener of a Gateway is to Weir. Those of one port have to be the same, or both of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ListenerRole {
    Http,
    Https,
    /// TLS ends at the servers.
    TlsPassthrough,
    /// TLS ends here; what is inside is forwarded as it is.
    TlsTerminate,
    Tcp,
}

impl ListenerRole {
    /// The kinds of routes that it can have.
    fn kinds(self) -> &'static [RouteKind] {
        match self {
            Self::Http | Self::Https => &[RouteKind::Http, RouteKind::Grpc],
            Self::TlsPassthrough | Self::TlsTerminate => &[RouteKind::Tls],
            Self::Tcp => &[RouteKind::Tcp],
        }
    }

    fn has_certificates(self) -> bool {
        matches!(self, Self::Https | Self::TlsTerminate)
    }

    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }

    /// Whether it forwards what is inside of TLS, or TLS itself.
    fn is_tls(self) -> bool {
        matches!(self, Self::TlsPassthrough | Self::TlsTerminate)
    }

    /// Whether one port can have both.
    fn shares_port_with(self, other: Self) -> bool {
        self == other || self.is_tls() && other.is_tls()
    }
}

/// A Gateway of ours.
#[derive(Debug)]
pub(crate) struct GatewayPlan {
    pub(crate) key: ObjectKey,
    pub(crate) gateway: Arc<Gateway>,
    /// Whether it can be served at all.
    pub(crate) accepted: Result<(), Refusal>,
    /// Its own, in their order, then those of its sets.
    pub(crate) listeners: Vec<GatewayListenerPlan>,
    /// The sets that refer to it, in the order of their precedence.
    pub(crate) sets: Vec<ListenerSetPlan>,
    /// The certificate that servers are shown, if it has one.
    pub(crate) certificate: Option<Result<Arc<LoadedCertificate>, Refusal>>,
}

impl GatewayPlan {
    /// Its listeners that come from a set, or from itself, by their places.
    pub(crate) fn listeners_of(
        &self,
        set: Option<usize>,
    ) -> impl Iterator<Item = (usize, &GatewayListenerPlan)> {
        self.listeners.iter().enumerate().filter(move |(_, listener)| listener.set == set)
    }
}

/// The object that holds a listener.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ListenerHolder<'a> {
    pub(crate) kind: &'static str,
    pub(crate) namespace: &'a str,
    /// The set by its place; `None`: the Gateway itself.
    pub(crate) set: Option<usize>,
}

impl<'a> ListenerHolder<'a> {
    pub(crate) fn gateway(gateway: &'a Gateway) -> Self {
        Self { kind: Gateway::KIND, namespace: &gateway.metadata.namespace, set: None }
    }

    fn set(place: usize, set: &'a ListenerSet) -> Self {
        Self { kind: ListenerSet::KIND, namespace: &set.metadata.namespace, set: Some(place) }
    }
}

/// A listener of a Gateway.
#[derive(Debug)]
pub(crate) struct GatewayListenerPlan {
    pub(crate) name: SharedText,
    /// The set that it comes from, by its place; `None`: the Gateway itself has it.
    pub(crate) set: Option<usize>,
    /// That of the object that has it.
    pub(crate) namespace: SharedText,
    pub(crate) port: u16,
    /// Empty for every host.
    pub(crate) hostname: SharedText,
    pub(crate) role: Option<ListenerRole>,
    pub(crate) kinds: Vec<RouteKind>,
    pub(crate) namespaces: Option<NamespaceRule>,
    pub(crate) certificates: Vec<Arc<LoadedCertificate>>,
    pub(crate) clients: Option<ClientCertificates>,
    pub(crate) accepted: Result<(), Refusal>,
    pub(crate) resolved: Result<(), Refusal>,
    pub(crate) conflict: Option<Refusal>,
    /// Another listener with TLS has the same hosts or certificates.
    pub(crate) overlap: Option<Refusal>,
}

impl GatewayListenerPlan {
    /// Whether it is opened.
    pub(crate) fn is_open(&self) -> bool {
        let has_certificates = !self.certificates.is_empty();
        self.accepted.is_ok()
            && self.conflict.is_none()
            && self.role.is_some_and(|role| has_certificates || !role.has_certificates())
    }

    /// Whether hosts are its own: also while it is closed for want of a certificate, so that no other listener of the port gets their requests.
    pub(crate) fn holds_hosts(&self) -> bool {
        self.accepted.is_ok() && self.conflict.is_none() && self.role.is_some()
    }

    /// Says why a reference leads to nothing, if none has done so before.
    fn refuse(&mut self, refusal: Refusal) {
        if self.resolved.is_ok() {
            self.resolved = Err(refusal);
        }
    }
}

/// Whether a Gateway is of a class of this controller.
pub(crate) fn has_our_class(gateway: &Gateway, store: &ObjectStore, settings: &GatewaySettings) -> bool {
    let class = store.gateway_classes.get(&ObjectKey::new("", &gateway.spec.gateway_class_name));
    class.is_some_and(|class| class.spec.controller_name == settings.controller_name)
}

/// The Gateways of the classes of this controller, oldest first. `kept` are the certificates that their listeners had last.
pub(crate) fn plan(
    store: &ObjectStore,
    settings: &GatewaySettings,
    kept: &mut ListenerCertificates,
) -> Vec<GatewayPlan> {
    let is_ours = |gateway: &Gateway| {
        let is_class = has_our_class(gateway, store, settings);
        is_class
            && settings
                .served
                .as_ref()
                .is_none_or(|served| *served == ObjectKey::from_object_meta(&gateway.metadata))
    };
    let mut gateways: Vec<_> = store.gateways.values().filter(|gateway| is_ours(gateway)).collect();
    gateways.sort_compact_by(|one, other| age(&one.metadata).cmp(&age(&other.metadata)));
    let mut plans: Vec<GatewayPlan> = Vec::new();
    for gateway in gateways {
        let mut plan = plan_gateway(gateway, (store, kept), settings);
        // Gateways that one process serves share its ports.
        for listener in &mut plan.listeners {
            // One that is not accepted opens none.
            let has_it = |other: &&GatewayPlan| {
                other.accepted.is_ok()
                    && other.listeners.iter().any(|known| known.is_open() && known.port == listener.port)
            };
            if let Some(other) = plans.iter().find(has_it) {
                let message = format!(
                    "port {} belongs to the Gateway {} of the same process",
                    listener.port, other.key
                );
                listener.accepted = std::mem::replace(&mut listener.accepted, Ok(()))
                    .and(Err(Refusal::new("PortUnavailable", message)));
            }
        }
        plans.push(plan);
    }
    kept.turn();
    plans
}

fn plan_gateway(
    gateway: &Arc<Gateway>,
    (store, kept): (&ObjectStore, &mut ListenerCertificates),
    settings: &GatewaySettings,
) -> GatewayPlan {
    let sets = sets::of_gateway(gateway, store);
    let mut plan =
        |owner, listener: &GatewayListener| plan_listener(gateway, owner, listener, (store, &mut *kept));
    let own = ListenerHolder::gateway(gateway);
    let mut listeners: Vec<_> = gateway.spec.listeners.iter().map(|listener| plan(own, listener)).collect();
    for (place, of_set) in sets.iter().enumerate().filter(|(_, set)| set.allowed.is_ok()) {
        let owner = ListenerHolder::set(place, &of_set.set);
        listeners.extend(of_set.set.spec.listeners.iter().map(|listener| plan(owner, listener)));
    }
    for listener in &mut listeners {
        let of_others = reserved(listener.port, store, settings);
        listener.accepted = std::mem::replace(&mut listener.accepted, Ok(())).and(of_others);
    }
    mark_conflicts(&mut listeners);
    mark_overlaps(&mut listeners);
    GatewayPlan {
        key: ObjectKey::from_object_meta(&gateway.metadata),
        gateway: Arc::clone(gateway),
        accepted: check_gateway(gateway, store, settings),
        listeners,
        sets,
        certificate: tls::certificate_for_servers(gateway, store),
    }
}

/// Whether a port is left to Gateways. Those of Ingresses are not as long as there is an IngressClass of this process: an author of a Gateway
/// could otherwise cut off all Ingresses, and age would not help, since a Gateway that is older can be given the port later.
fn reserved(port: u16, store: &ObjectStore, settings: &GatewaySettings) -> Result<(), Refusal> {
    let unavailable = |message| Err(Refusal::new("PortUnavailable", message));
    if settings.base.admin.address.is_some_and(|address| address.port() == port) {
        return unavailable(format!("port {port} is that of the admin listener"));
    }
    let ingress = settings.ingress.as_ref();
    let Some(ours) = ingress.filter(|ours| [ours.http_port, ours.https_port].contains(&port)) else {
        return Ok(());
    };
    match store.ingress_classes.values().find(|class| class.spec.controller == ours.controller_name) {
        None => Ok(()),
        Some(class) => unavailable(format!(
            "port {port} is that of the Ingresses of the same process, of the IngressClass `{}`",
            excerpt(&class.metadata.name)
        )),
    }
}

/// What a Gateway wants as a whole and Weir cannot do.
fn check_gateway(gateway: &Gateway, store: &ObjectStore, settings: &GatewaySettings) -> Result<(), Refusal> {
    Refusal::unreadable(&gateway.metadata, "Invalid")?;
    check_parameters(gateway, store, settings)
        .map_err(|message| Refusal::new("InvalidParameters", message))?;
    if !matches!(gateway.spec.default_scope.as_deref(), None | Some("None")) {
        return Err(Refusal::new("Invalid", "defaultScope: default Gateways are not supported"));
    }
    let is_address = |kind: Option<&str>| matches!(kind, None | Some("IPAddress"));
    match gateway.spec.addresses.iter().find(|address| !is_address(address.r#type.as_deref())) {
        Some(_) => Err(Refusal::new("UnsupportedAddress", "addresses: only the type IPAddress is supported")),
        None => Ok(()),
    }
}

/// Parameters are for the Deployment that is made for one Gateway; a process that serves all of them has none of its own.
fn check_parameters(
    gateway: &Gateway,
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> Result<(), String> {
    let has_parameters =
        gateway.spec.infrastructure.as_deref().is_some_and(|wanted| wanted.parameters_ref.is_some());
    if has_parameters && settings.served.is_none() {
        return Err(
            "infrastructure.parametersRef: this process serves all Gateways; parameters need a Deployment for each of them, see `weir kubernetes controller`"
                .to_owned(),
        );
    }
    let namespace = &gateway.metadata.namespace;
    let find = |name: &str| store.config_maps.get(&ObjectKey::new(namespace, name)).map(|found| &**found);
    GatewayParameters::new(gateway, find).map(drop)
}

fn plan_listener(
    gateway: &Gateway,
    owner: ListenerHolder<'_>,
    written: &GatewayListener,
    (store, kept): (&ObjectStore, &mut ListenerCertificates),
) -> GatewayListenerPlan {
    let mode = written.tls.as_deref().map(|tls| tls.mode.as_deref().unwrap_or("Terminate"));
    let role = match (&*written.protocol, mode) {
        ("HTTP", None) => Ok(ListenerRole::Http),
        ("HTTPS", Some("Terminate")) => Ok(ListenerRole::Https),
        ("TLS", Some("Passthrough")) => Ok(ListenerRole::TlsPassthrough),
        ("TLS", Some("Terminate")) => Ok(ListenerRole::TlsTerminate),
        ("TCP", None) => Ok(ListenerRole::Tcp),
        ("HTTP" | "TCP", Some(_)) => Err(Refusal::unsupported("tls: this protocol has none")),
        ("HTTPS" | "TLS", _) => {
            Err(Refusal::unsupported("tls: this protocol needs it, HTTPS with the mode Terminate"))
        }
        (other, _) => {
            Err(Refusal::new("UnsupportedProtocol", format!("protocol: `{other}` is not supported")))
        }
    };
    let port = u16::try_from(written.port).ok().filter(|port| *port != 0);
    let accepted = match (&role, port) {
        (Err(refusal), _) => Err(refusal.clone()),
        (Ok(_), None) => Err(Refusal::unsupported("port: not a port")),
        (Ok(_), Some(_)) => check_hostname(written.hostname.as_deref()),
    };
    let mut plan = GatewayListenerPlan {
        name: written.name.clone(),
        set: owner.set,
        namespace: owner.namespace.into(),
        port: port.unwrap_or_default(),
        hostname: hostname(written.hostname.as_deref()),
        role: role.ok(),
        kinds: Vec::new(),
        namespaces: written
            .allowed_routes
            .as_deref()
            .and_then(|allowed| allowed.namespaces.as_deref().cloned()),
        certificates: Vec::new(),
        clients: None,
        accepted,
        resolved: Ok(()),
        conflict: None,
        overlap: None,
    };
    allow_kinds(&mut plan, written);
    if plan.role.is_some_and(ListenerRole::has_certificates) {
        load_certificates(&mut plan, owner, written, (store, kept));
        require_clients(&mut plan, gateway, store);
    }
    plan
}

fn check_hostname(written: Option<&str>) -> Result<(), Refusal> {
    match written.filter(|name| !name.is_empty()).map(HostPattern::parse) {
        Some(Err(error)) => Err(Refusal::unsupported(format!("hostname: {error}"))),
        None | Some(Ok(_)) => Ok(()),
    }
}

fn allow_kinds(plan: &mut GatewayListenerPlan, written: &GatewayListener) {
    let Some(role) = plan.role else { return };
    let named = written.allowed_routes.as_deref().map_or(&[][..], |allowed| &allowed.kinds);
    if named.is_empty() {
        plan.kinds = role.kinds().to_vec();
        return;
    }
    for one in named {
        let is_ours = one.group.as_deref().is_none_or(|group| group == GROUP);
        match role.kinds().iter().find(|kind| is_ours && *kind.name() == *one.kind) {
            Some(kind) if !plan.kinds.contains(kind) => plan.kinds.push(*kind),
            Some(_) => {}
            None => {
                let message = format!("allowedRoutes.kinds: `{}` cannot be routed here", one.kind);
                plan.resolved = Err(Refusal::new("InvalidRouteKinds", message));
            }
        }
    }
}

/// Listeners of one port are told apart by host only, so all that is equal in it, or of another protocol, is refused: of the Gateway's own
/// listeners both, of those of sets the one that comes later.
fn mark_conflicts(listeners: &mut [GatewayListenerPlan]) {
    for index in 0..listeners.len() {
        let listener = &listeners[index];
        let is_own = listener.set.is_none();
        let conflict = (listeners.iter().enumerate())
            .filter(|(other, _)| *other != index)
            .filter(|(other, rival)| match is_own {
                true => rival.set.is_none(),
                // Those of before are judged: one that is refused takes no place.
                false => *other < index && rival.conflict.is_none(),
            })
            .find_map(|(_, rival)| conflict_of(listener, rival));
        listeners[index].conflict = conflict;
    }
}

/// Why two listeners cannot be there both.
fn conflict_of(one: &GatewayListenerPlan, other: &GatewayListenerPlan) -> Option<Refusal> {
    let role = one.role.filter(|_| one.accepted.is_ok())?;
    let other_role = other.role.filter(|_| other.accepted.is_ok() && other.port == one.port)?;
    let port = one.port;
    if !role.shares_port_with(other_role) {
        let message = format!("port {port} has listeners of different protocols");
        return Some(Refusal::new("ProtocolConflict", message));
    }
    (one.hostname == other.hostname || role == ListenerRole::Tcp).then(|| {
        Refusal::new("HostnameConflict", format!("port {port} has another listener for the same hosts"))
    })
}

fn mark_overlaps(listeners: &mut [GatewayListenerPlan]) {
    let facts: Vec<_> = (listeners.iter())
        .map(|one| (one.port, one.role, one.hostname.clone(), one.certificates.clone()))
        .collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        if listener.role != Some(ListenerRole::Https) || listener.conflict.is_some() {
            continue;
        }
        let others = facts.iter().enumerate().filter(|(other, fact)| {
            *other != index && fact.0 == listener.port && fact.1 == Some(ListenerRole::Https)
        });
        for (_, (_, _, host, certificates)) in others {
            if covers(host, &listener.hostname) || covers(&listener.hostname, host) {
                let message = "another listener of the port has some of the same hosts";
                listener.overlap = Some(Refusal::new("OverlappingHostnames", message));
                break;
            }
            let names = || listener.certificates.iter().flat_map(|certificate| &certificate.names);
            let shared = |name: &str| names().any(|own| covers(own, name) || covers(name, own));
            if certificates.iter().flat_map(|certificate| &certificate.names).any(|name| shared(name)) {
                let message = "a certificate of another listener of the port is for some of the same hosts";
                listener.overlap = Some(Refusal::new("OverlappingCertificates", message));
            }
        }
    }
}

/// The hosts of listeners, the most specific first: those without a wildcard, then the longest.
fn isolated_names(plans: &[&GatewayListenerPlan]) -> Vec<HostPattern> {
    let mut names: Vec<&str> = plans.iter().map(|plan| &*plan.hostname).collect();
    names.sort_compact_by_key(|name| (name.is_empty(), name.starts_with('*'), Reverse(name.len()), *name));
    let pattern = |name: &str| match name {
        "" => Some(HostPattern::ANY),
        name => HostPattern::parse(name).ok(),
    };
    names.into_iter().filter_map(pattern).collect()
}

/// Whether TLS for a host passes through although it ends for others of the same port: as the listener says that the host belongs to.
pub(crate) fn passes_tls(plans: &[&GatewayListenerPlan], host: &str) -> bool {
    let is_mixed = plans.iter().any(|plan| plan.role == Some(ListenerRole::TlsTerminate));
    let owner = plans
        .iter()
        .filter(|plan| covers(&plan.hostname, host))
        .max_by_key(|plan| (*plan.hostname == *host, plan.hostname.len()));
    is_mixed && owner.is_some_and(|plan| plan.role == Some(ListenerRole::TlsPassthrough))
}

/// The name of the listener of Weir for a port of a Gateway.
fn listener_name(gateway: &ObjectKey, port: u16) -> String {
    format!("{}.{}.{port}", gateway.namespace, gateway.name)
}

/// The names of the listeners of Weir for ports of which Gateways themselves have none.
pub(crate) fn names_of_sets(plans: &[GatewayPlan]) -> BTreeSet<Box<str>> {
    let mut names = BTreeSet::new();
    for plan in plans {
        let own: BTreeSet<u16> = plan.listeners_of(None).map(|(_, listener)| listener.port).collect();
        let of_sets = plan.listeners.iter().map(|listener| listener.port).filter(|port| !own.contains(port));
        names.extend(of_sets.map(|port| listener_name(&plan.key, port).into()));
    }
    names
}

/// The listener of Weir for some of a Gateway, all of one port; without routes yet.
pub(crate) fn listener(
    gateway: &ObjectKey,
    plans: &[&GatewayListenerPlan],
    settings: &GatewaySettings,
) -> ListenerParts {
    let first = plans[0];
    let role = first.role.expect("an open listener has a role");
    let address = match settings.bind {
        None => ListenAddress::AllTcp { port: first.port },
        Some(ip) => ListenAddress::Tcp(SocketAddr::new(ip, first.port)),
    };
    let name = listener_name(gateway, first.port);
    let mut listener = ListenerParts::new(&name, vec![address], Vec::new());
    if !role.is_http() {
        listener.protocol = ListenerProtocol::Tcp;
    }
    if role == ListenerRole::Http {
        // Clients of gRPC begin with HTTP/2 where there is no TLS to agree on it.
        listener.http2.prior_knowledge = PriorKnowledge::Allowed;
    }
    if plans.iter().filter_map(|plan| plan.role).any(ListenerRole::has_certificates) {
        let mut tls = ListenerTls::with_certificates(certificates_by_host(plans));
        tls.client_certificates = plans.iter().find_map(|plan| plan.clients.clone());
        listener.tls = Some(tls);
        if role == ListenerRole::Https && plans.len() > 1 {
            listener.isolated_names = isolated_names(plans);
        }
    }
    listener
}
