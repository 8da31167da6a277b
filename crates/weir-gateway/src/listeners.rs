//! From Gateways to listeners: which of them can be opened, with which certificates, for which routes.

use std::cmp::Reverse;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use weir_config::{
    Authorities, CertificateFiles, ClientCertificateHeaders, ClientCertificates, ClientVerification,
    ListenAddress, Listener, ListenerProtocol, ListenerTls, LoadedCertificate, PriorKnowledge,
};

use weir_traffic::route::HostPattern;

use crate::api::{FrontendValidation, GROUP, Gateway, GatewayListener, NamespaceRule, SecretReference};
use crate::compile::RouteKind;
use crate::hosts::{covers, hostname};
use crate::parameters::GatewayParameters;
use crate::policies::{age, load_authorities};
use crate::refusal::Refusal;
use crate::settings::GatewaySettings;
use crate::store::{ObjectKey, ObjectStore};

/// What a listener of a Gateway is to Weir. Those of one port have to be the same.
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
}

/// A Gateway of ours.
#[derive(Debug)]
pub(crate) struct GatewayPlan {
    pub(crate) key: ObjectKey,
    pub(crate) gateway: Arc<Gateway>,
    /// Whether it can be served at all.
    pub(crate) accepted: Result<(), Refusal>,
    pub(crate) listeners: Vec<GatewayListenerPlan>,
}

/// A listener of a Gateway.
#[derive(Debug)]
pub(crate) struct GatewayListenerPlan {
    pub(crate) name: Box<str>,
    pub(crate) port: u16,
    /// Empty for every host.
    pub(crate) hostname: Box<str>,
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
}

/// The Gateways of the classes of this controller, oldest first.
pub(crate) fn plan(store: &ObjectStore, settings: &GatewaySettings) -> Vec<GatewayPlan> {
    let is_ours = |gateway: &Gateway| {
        let class = store.gateway_classes.get(&ObjectKey::new("", &gateway.spec.gateway_class_name));
        let is_class = class.is_some_and(|class| class.spec.controller_name == settings.controller_name);
        is_class && settings.served.as_ref().is_none_or(|served| *served == ObjectKey::of(&gateway.metadata))
    };
    let mut gateways: Vec<_> = store.gateways.values().filter(|gateway| is_ours(gateway)).collect();
    gateways.sort_by(|one, other| age(&one.metadata).cmp(&age(&other.metadata)));
    let mut plans: Vec<GatewayPlan> = Vec::new();
    for gateway in gateways {
        let mut plan = plan_gateway(gateway, store, settings);
        // Gateways that one process serves share its ports.
        for listener in &mut plan.listeners {
            let has_it = |other: &&GatewayPlan| {
                other.listeners.iter().any(|known| known.is_open() && known.port == listener.port)
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
    plans
}

fn plan_gateway(gateway: &Arc<Gateway>, store: &ObjectStore, settings: &GatewaySettings) -> GatewayPlan {
    let mut listeners: Vec<_> =
        gateway.spec.listeners.iter().map(|listener| plan_listener(gateway, listener, store)).collect();
    mark_conflicts(&mut listeners);
    mark_overlaps(&mut listeners);
    GatewayPlan {
        key: ObjectKey::of(&gateway.metadata),
        gateway: Arc::clone(gateway),
        accepted: check_gateway(gateway, store, settings),
        listeners,
    }
}

/// What a Gateway wants as a whole and Weir cannot do.
fn check_gateway(gateway: &Gateway, store: &ObjectStore, settings: &GatewaySettings) -> Result<(), Refusal> {
    check_parameters(gateway, store, settings)
        .map_err(|message| Refusal::new("InvalidParameters", message))?;
    let backend = gateway.spec.tls.as_deref().and_then(|tls| tls.backend.as_deref());
    if backend.is_some_and(|backend| backend.client_certificate_ref.is_some()) {
        let message = "tls.backend.clientCertificateRef: certificates for servers are not supported yet";
        return Err(Refusal::new("Invalid", message));
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
    GatewayParameters::of(gateway, find).map(drop)
}

fn plan_listener(gateway: &Gateway, written: &GatewayListener, store: &ObjectStore) -> GatewayListenerPlan {
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
        load_certificates(&mut plan, gateway, written, store);
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

fn load_certificates(
    plan: &mut GatewayListenerPlan,
    gateway: &Gateway,
    written: &GatewayListener,
    store: &ObjectStore,
) {
    let tls = written.tls.as_deref();
    if tls.is_some_and(|tls| !tls.options.is_empty()) {
        plan.accepted = Err(Refusal::unsupported("tls.options: Weir has none"));
    }
    let references = tls.map_or(&[][..], |tls| &tls.certificate_refs);
    for reference in references {
        match load_certificate(reference, &gateway.metadata.namespace, store) {
            Ok(certificate) => plan.certificates.push(certificate),
            Err(refusal) if plan.resolved.is_ok() => plan.resolved = Err(refusal),
            Err(_) => {}
        }
    }
    if references.is_empty() && plan.resolved.is_ok() {
        plan.resolved = Err(Refusal::new("InvalidCertificateRef", "tls.certificateRefs: there is none"));
    }
}

fn load_certificate(
    reference: &SecretReference,
    namespace: &str,
    store: &ObjectStore,
) -> Result<Arc<LoadedCertificate>, Refusal> {
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    let key = ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
    if !group.is_empty() || kind != "Secret" {
        let message = format!("tls.certificateRefs: a certificate is in a Secret, not in a {kind}");
        return Err(Refusal::new("InvalidCertificateRef", message));
    }
    if !store.is_granted((GROUP, "Gateway", namespace), ("", "Secret", &key)) {
        let message =
            format!("tls.certificateRefs: no ReferenceGrant in `{}` permits the Secret {key}", key.namespace);
        return Err(Refusal::new("RefNotPermitted", message));
    }
    let refused = |why: &str| {
        Refusal::new("InvalidCertificateRef", format!("tls.certificateRefs: Secret {key}: {why}"))
    };
    let secret = store.secrets.get(&key).ok_or_else(|| refused("it does not exist"))?;
    if *secret.r#type != *"kubernetes.io/tls" {
        return Err(refused("its type is not kubernetes.io/tls"));
    }
    let value = |name: &str| -> Result<Vec<u8>, Refusal> {
        let text = secret.data.get(name).ok_or_else(|| refused(&format!("it has no `{name}`")))?;
        BASE64.decode(text.as_bytes()).map_err(|_| refused(&format!("`{name}` is not base64")))
    };
    let files = CertificateFiles {
        certificate: PathBuf::from(format!("Secret {key} tls.crt")),
        key: PathBuf::from(format!("Secret {key} tls.key")),
    };
    let loaded = files.load_texts(&value("tls.crt")?, &value("tls.key")?);
    loaded.map_err(|error| refused(&error.message))
}

/// Certificates of clients, which a Gateway asks for by port.
fn require_clients(plan: &mut GatewayListenerPlan, gateway: &Gateway, store: &ObjectStore) {
    let Some(frontend) = gateway.spec.tls.as_deref().and_then(|tls| tls.frontend.as_deref()) else { return };
    let of_port = frontend.per_port.iter().find(|one| u16::try_from(one.port) == Ok(plan.port));
    let wanted = of_port.map_or(&frontend.default, |one| &one.tls);
    let Some(validation) = wanted.validation.as_deref() else { return };
    match client_authorities(validation, gateway, store, &mut plan.resolved) {
        Ok(authorities) => {
            plan.clients = Some(ClientCertificates {
                verify: ClientVerification::Required,
                authorities: Some(authorities),
                revocations: None,
                headers: ClientCertificateHeaders::default(),
            });
        }
        // Without authorities nothing is served: a listener that lets everyone in is not what was asked for.
        Err(refusal) => plan.accepted = Err(refusal),
    }
}

fn client_authorities(
    validation: &FrontendValidation,
    gateway: &Gateway,
    store: &ObjectStore,
    resolved: &mut Result<(), Refusal>,
) -> Result<Arc<Authorities>, Refusal> {
    if !matches!(validation.mode.as_deref(), None | Some("AllowValidOnly")) {
        return Err(Refusal::unsupported("tls.frontend: the mode AllowInsecureFallback is not supported"));
    }
    let namespace = &gateway.metadata.namespace;
    let mut certificates = Vec::new();
    for reference in &validation.ca_certificate_refs {
        let key = ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
        let loaded = if store.is_granted((GROUP, "Gateway", namespace), ("", "ConfigMap", &key)) {
            load_authorities(&reference.group, &reference.kind, &key, store).map_err(|refusal| {
                let reason =
                    if refusal.reason == "InvalidKind" { "InvalidCACertificateKind" } else { refusal.reason };
                Refusal { reason, ..refusal }
            })
        } else {
            let message =
                format!("tls.frontend: no ReferenceGrant in `{}` permits the ConfigMap {key}", key.namespace);
            Err(Refusal::new("RefNotPermitted", message))
        };
        match loaded {
            Ok(authorities) => certificates.extend(authorities.certificates.iter().cloned()),
            Err(refusal) if resolved.is_ok() => *resolved = Err(refusal),
            Err(_) => {}
        }
    }
    if certificates.is_empty() {
        return Err(Refusal::new("NoValidCACertificate", "tls.frontend: no CA certificate can be used"));
    }
    Ok(Arc::new(Authorities { file: None, certificates }))
}

/// Listeners of one port are told apart by host only, so all that is equal in it, or of another protocol, is refused.
fn mark_conflicts(listeners: &mut [GatewayListenerPlan]) {
    let facts: Vec<_> = (listeners.iter())
        .map(|one| (one.port, one.role.filter(|_| one.accepted.is_ok()), one.hostname.clone()))
        .collect();
    for (index, listener) in listeners.iter_mut().enumerate() {
        let (port, Some(role), hostname) = &facts[index] else { continue };
        let others = facts.iter().enumerate().filter(|(other, fact)| *other != index && fact.0 == *port);
        for (_, (_, other_role, other_host)) in others {
            let refusal = match other_role {
                None => continue,
                Some(other) if other != role => Refusal::new(
                    "ProtocolConflict",
                    format!("port {port} has listeners of different protocols"),
                ),
                Some(_) if other_host == hostname || *role == ListenerRole::Tcp => Refusal::new(
                    "HostnameConflict",
                    format!("port {port} has another listener for the same hosts"),
                ),
                Some(_) => continue,
            };
            if role.is_tls() && other_role.is_some_and(|other| other != *role && other.is_tls()) {
                // TLS that ends here and TLS that passes cannot share a port: neither listener supports any kind of route.
                listener.kinds.clear();
            }
            listener.conflict = Some(refusal);
            break;
        }
    }
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
    names.sort_by_key(|name| (name.is_empty(), name.starts_with('*'), Reverse(name.len()), *name));
    let pattern = |name: &str| match name {
        "" => Some(HostPattern::ANY),
        name => HostPattern::parse(name).ok(),
    };
    names.into_iter().filter_map(pattern).collect()
}

/// The listener of Weir for some of a Gateway, all of one port; without routes yet.
pub(crate) fn listener(
    gateway: &ObjectKey,
    plans: &[&GatewayListenerPlan],
    settings: &GatewaySettings,
) -> Listener {
    let first = plans[0];
    let role = first.role.expect("an open listener has a role");
    let address = match settings.bind {
        None => ListenAddress::AllTcp { port: first.port },
        Some(ip) => ListenAddress::Tcp(SocketAddr::new(ip, first.port)),
    };
    let name = format!("{}.{}.{}", gateway.namespace, gateway.name, first.port);
    let mut listener = Listener::new(&name, vec![address], Vec::new());
    if !role.is_http() {
        listener.protocol = ListenerProtocol::Tcp;
    }
    if role == ListenerRole::Http {
        // Clients of gRPC begin with HTTP/2 where there is no TLS to agree on it.
        listener.http2.prior_knowledge = PriorKnowledge::Allowed;
    }
    if role.has_certificates() {
        let mut certificates: Vec<Arc<LoadedCertificate>> = Vec::new();
        for certificate in plans.iter().flat_map(|plan| &plan.certificates) {
            if !certificates.contains(certificate) {
                certificates.push(Arc::clone(certificate));
            }
        }
        let mut tls = ListenerTls::with_certificates(certificates);
        tls.client_certificates = plans.iter().find_map(|plan| plan.clients.clone());
        listener.tls = Some(tls);
        if role == ListenerRole::Https && plans.len() > 1 {
            listener.isolated_names = isolated_names(plans);
        }
    }
    listener
}
