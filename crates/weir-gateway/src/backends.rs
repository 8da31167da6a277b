//! From a reference to a backend to an upstream, or to the reason why there is none.

use std::sync::Arc;
use std::time::Duration;

use weir_config::{
    ConfigFault, LoadedCertificate, ServerProtocol, Upstream, UpstreamParts, UpstreamSettings, UpstreamTls,
};

use super::options::settings::GatewaySettings;
use crate::api::{BackendReference, GROUP, SharedText};
use crate::policies::{self, policy_for};
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

/// The upstream of references that lead nowhere: it never has a server, so its share of the requests is answered 503.
pub(crate) const UNRESOLVED: &str = "unresolved";

/// From the first packet to an open connection, within the network of a cluster: one packet may be lost. Nothing answers at the address of a
/// pod that is gone, and a request that waits there is to have time left for other pods.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// What the requests of a route are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    Http,
    Grpc,
    Stream,
}

/// An upstream that routes refer to.
#[derive(Debug, PartialEq)]
pub(crate) struct Backend {
    /// The name of the upstream; equal names are equal upstreams of one service.
    pub(crate) name: Box<str>,
    /// The service; `None` only for [`UNRESOLVED`].
    pub(crate) service: Option<ObjectKey>,
    /// The name of the port, by which endpoints know it.
    pub(crate) port_name: SharedText,
    /// The policy that its TLS comes from.
    pub(crate) policy: Option<ObjectKey>,
    protocol: ServerProtocol,
    tls: Option<UpstreamTls>,
    /// Settings in place of the defaults.
    settings: Option<Box<UpstreamSettings>>,
}

impl Backend {
    /// The one without servers.
    pub(crate) fn unresolved() -> Arc<Self> {
        Arc::new(Self {
            name: UNRESOLVED.into(),
            service: None,
            port_name: SharedText::default(),
            policy: None,
            protocol: ServerProtocol::Http1,
            tls: None,
            settings: None,
        })
    }

    /// The same for requests of a Gateway that shows servers its certificate, where they speak TLS.
    pub(crate) fn shown(
        self: &Arc<Self>,
        gateway: &ObjectKey,
        certificate: &Arc<LoadedCertificate>,
    ) -> Arc<Self> {
        let Some(mut tls) = self.tls.clone() else { return Arc::clone(self) };
        tls.certificate = Some(Arc::clone(certificate));
        Arc::new(Self {
            name: format!("{}-for-{}.{}", self.name, gateway.namespace, gateway.name).into(),
            service: self.service.clone(),
            port_name: self.port_name.clone(),
            policy: self.policy.clone(),
            protocol: self.protocol,
            tls: Some(tls),
            settings: self.settings.clone(),
        })
    }

    /// The same servers for TLS that passes through: the policy of the service is for TLS that begins here.
    pub(crate) fn passed(self: &Arc<Self>) -> Arc<Self> {
        if self.tls.is_none() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            name: format!("{}-passed", self.name).into(),
            service: self.service.clone(),
            port_name: self.port_name.clone(),
            policy: None,
            protocol: self.protocol,
            tls: None,
            settings: self.settings.clone(),
        })
    }

    /// The same servers as an upstream of another name with settings of its own.
    #[must_use]
    pub(crate) fn with_settings(&self, name: &str, settings: UpstreamSettings) -> Self {
        Self {
            name: name.into(),
            service: self.service.clone(),
            port_name: self.port_name.clone(),
            policy: self.policy.clone(),
            protocol: self.protocol,
            tls: self.tls.clone(),
            settings: Some(Box::new(settings)),
        }
    }

    /// An upstream of a port of a service whose protocol and TLS no policy decides.
    pub(crate) fn of_port(
        name: &str,
        (service, port_name): (&ObjectKey, &str),
        settings: UpstreamSettings,
        tls: Option<UpstreamTls>,
    ) -> Self {
        Self {
            name: name.into(),
            service: Some(service.clone()),
            port_name: port_name.into(),
            policy: None,
            protocol: settings.protocol,
            tls,
            settings: Some(Box::new(settings)),
        }
    }

    /// The upstream, without its servers: they come from a [`UpstreamServers`](crate::UpstreamServers).
    ///
    /// # Errors
    /// Why there can be no such upstream.
    pub(crate) fn upstream(&self) -> Result<Upstream, Vec<ConfigFault>> {
        let mut upstream = UpstreamParts::new(&self.name, Vec::new());
        let mut settings = self.settings.as_deref().cloned().unwrap_or_else(|| {
            let mut settings = UpstreamSettings::default();
            settings.timeouts.connect = CONNECT_TIME;
            settings
        });
        settings.protocol = self.protocol;
        if settings != *upstream.settings {
            upstream.settings = Arc::new(settings);
        }
        upstream.tls = self.tls.clone().map(Box::new);
        Upstream::from_parts(upstream)
    }
}

/// Who refers to a backend, and for what.
pub(crate) struct BackendScope<'a> {
    pub(crate) store: &'a ObjectStore,
    pub(crate) settings: &'a GatewaySettings,
    pub(crate) kind: &'static str,
    pub(crate) namespace: &'a str,
    pub(crate) payload: Payload,
}

impl BackendScope<'_> {
    /// The service that a reference names, whether or not it may.
    pub(crate) fn service_key(&self, reference: &BackendReference) -> ObjectKey {
        ObjectKey::new(reference.namespace.as_deref().unwrap_or(self.namespace), &reference.name)
    }

    /// The upstream that a reference leads to.
    pub(crate) fn resolve(&self, reference: &BackendReference) -> Result<Arc<Backend>, Refusal> {
        let group = reference.group.as_deref().unwrap_or_default();
        let kind = reference.kind.as_deref().unwrap_or("Service");
        if !group.is_empty() || kind != "Service" {
            let message =
                format!("backendRefs: {kind} of the group `{group}` is not a backend; a Service is");
            return Err(Refusal::new("InvalidKind", message));
        }
        let key = self.service_key(reference);
        if !self.store.is_granted((GROUP, self.kind, self.namespace), ("", "Service", &key)) {
            let message =
                format!("backendRefs: no ReferenceGrant in `{}` permits the Service {key}", key.namespace);
            return Err(Refusal::new("RefNotPermitted", message));
        }
        let not_found = |message: String| Refusal::new("BackendNotFound", message);
        let service = self.store.services.get(&key);
        let service =
            service.ok_or_else(|| not_found(format!("backendRefs: the Service {key} does not exist")))?;
        if service.spec.r#type.as_deref() == Some("ExternalName") {
            let message =
                format!("backendRefs: the Service {key} is an ExternalName, which could lead anywhere");
            return Err(Refusal::unsupported(message));
        }
        let Some(number) = reference.port else {
            return Err(Refusal::unsupported(format!(
                "backendRefs: the reference to the Service {key} has no port"
            )));
        };
        let is_tcp = |protocol: Option<&str>| protocol.is_none_or(|protocol| protocol == "TCP");
        let ports = service.spec.ports.iter();
        let port = { ports }.find(|port| port.port == number && is_tcp(port.protocol.as_deref()));
        let port = port
            .ok_or_else(|| not_found(format!("backendRefs: the Service {key} has no TCP port {number}")))?;
        let port_name = port.name.as_deref().unwrap_or_default();
        let policy = policy_for(self.store, &key, port_name);
        let tls = match policy {
            Some(policy) => {
                let name = ObjectKey::from_object_meta(&policy.metadata);
                let tls = policies::read(policy, self.store, self.settings).tls;
                Some(tls.map_err(|error| {
                    Refusal::new("BackendNotFound", format!("BackendTLSPolicy {name}: {}", error.message))
                })?)
            }
            None => None,
        };
        let protocol = self.protocol(port.app_protocol.as_deref(), tls.is_some(), &key)?;
        let mut name = format!("{}.{}.{number}", key.namespace, key.name);
        match protocol {
            ServerProtocol::H2c => name.push_str("-h2c"),
            ServerProtocol::H2 => name.push_str("-h2"),
            ServerProtocol::Http1 | ServerProtocol::Auto | ServerProtocol::Fastcgi => {}
        }
        Ok(Arc::new(Backend {
            name: name.into(),
            service: Some(key),
            port_name: port_name.into(),
            policy: policy.map(|policy| ObjectKey::from_object_meta(&policy.metadata)),
            protocol,
            tls,
            settings: None,
        }))
    }

    /// What the servers of a port speak.
    fn protocol(
        &self,
        app_protocol: Option<&str>,
        has_tls: bool,
        key: &ObjectKey,
    ) -> Result<ServerProtocol, Refusal> {
        if self.payload == Payload::Stream {
            return Ok(ServerProtocol::Http1);
        }
        let of_http = match self.payload {
            Payload::Grpc if has_tls => ServerProtocol::H2,
            Payload::Grpc => ServerProtocol::H2c,
            _ => ServerProtocol::Http1,
        };
        match app_protocol.map(str::to_ascii_lowercase).as_deref() {
            None | Some("http" | "tcp") => Ok(of_http),
            Some("kubernetes.io/h2c" | "h2c" | "grpc" | "http2") if !has_tls => Ok(ServerProtocol::H2c),
            Some("kubernetes.io/h2c" | "h2c" | "grpc" | "http2") => Ok(ServerProtocol::H2),
            Some("kubernetes.io/ws" | "ws") if self.payload == Payload::Http => Ok(ServerProtocol::Http1),
            Some("https" | "kubernetes.io/wss" | "wss") if has_tls => Ok(of_http),
            Some("https" | "kubernetes.io/wss" | "wss") => Err(Refusal::new(
                "UnsupportedProtocol",
                format!(
                    "backendRefs: the Service {key} speaks TLS and has no BackendTLSPolicy to verify it by"
                ),
            )),
            Some(other) => Err(Refusal::new(
                "UnsupportedProtocol",
                format!("backendRefs: the Service {key} speaks `{other}`, which Weir does not"),
            )),
        }
    }
}
