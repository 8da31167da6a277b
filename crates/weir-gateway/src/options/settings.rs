//! What a translation depends on beside the objects.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Authorities, Config};

use super::isolation::Refusals;
use crate::api::{GatewayStatusAddress, SharedText};
use crate::store::{ObjectKey, ObjectKind};

/// The controller name of Weir's GatewayClasses.
pub const CONTROLLER_NAME: &str = "weir.dev/gateway";

/// What a translation depends on beside the objects.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// GatewayClasses with this `controllerName` are Weir's.
    pub controller_name: SharedText,
    /// The one Gateway that this process serves; `None`: all of its classes, whose ports must then be different.
    pub served: Option<ObjectKey>,
    /// Where listeners accept connections; `None`: on every address of the machine.
    pub bind: Option<IpAddr>,
    /// The Service in front of this process, whose addresses are those of the Gateways.
    pub published_service: Option<ObjectKey>,
    /// The addresses by which clients reach the Gateways, beside those of the Service; without any, none is known yet.
    pub addresses: Vec<GatewayStatusAddress>,
    /// The authorities of the system, for `wellKnownCACertificates: System`; `None`: it has none.
    pub system_authorities: Option<Arc<Authorities>>,
    /// The kinds of the Gateway API that the cluster does not have: its definitions are older than those that Weir is made for.
    pub missing_kinds: BTreeSet<&'static str>,
    /// What of the last configuration the process could not apply.
    pub refusals: Refusals,
    /// Whether each Gateway has pods and a Service of its own, which can have the labels and annotations that it asks for.
    pub has_own_pods: bool,
    /// Which Ingresses are served, and how; `None`: none are.
    pub ingress: Option<IngressSettings>,
    /// What the configuration has beside listeners and upstreams: process, log, admin listener.
    pub base: Config,
}

/// The longest name of a writer that the API server takes.
const FIELD_MANAGER_LETTERS_MAX: usize = 128;

impl GatewaySettings {
    /// The name by which the API server knows the writer of statuses of a kind: that of the controller, so that another one of Weir's is
    /// another writer.
    pub fn field_manager(&self, kind: ObjectKind) -> SharedText {
        let of_ingresses = self.ingress.as_ref().filter(|_| kind == ObjectKind::Ingress);
        let name = of_ingresses.map_or(&self.controller_name, |ingress| &ingress.controller_name);
        name.chars().take(FIELD_MANAGER_LETTERS_MAX).collect::<String>().into()
    }
}

/// The controller name of Weir's IngressClasses.
pub const INGRESS_CONTROLLER_NAME: &str = "weir.dev/ingress";

/// How Ingresses are served.
#[derive(Debug, Clone)]
pub struct IngressSettings {
    /// IngressClasses with this `controller` are Weir's.
    pub controller_name: SharedText,
    /// The port without TLS.
    pub http_port: u16,
    /// The port with TLS; it is open when there is a certificate.
    pub https_port: u16,
    /// The Secret with the certificate for hosts that have none of their own.
    pub default_certificate: Option<ObjectKey>,
    /// The ConfigMap with settings for all Ingresses, in the words of that of ingress-nginx.
    pub config_map: Option<ObjectKey>,
}

impl Default for IngressSettings {
    fn default() -> Self {
        Self {
            controller_name: INGRESS_CONTROLLER_NAME.into(),
            http_port: 80,
            https_port: 443,
            default_certificate: None,
            config_map: None,
        }
    }
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            controller_name: CONTROLLER_NAME.into(),
            served: None,
            bind: None,
            published_service: None,
            addresses: Vec::new(),
            system_authorities: None,
            missing_kinds: BTreeSet::new(),
            refusals: Refusals::default(),
            has_own_pods: true,
            ingress: None,
            base: Config::default(),
        }
    }
}
