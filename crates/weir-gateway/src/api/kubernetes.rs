//! What Weir needs of objects of Kubernetes itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use weir_config::{Authorities, LoadedCertificate};

use super::memo::Memo;
use super::meta::ObjectMeta;
use super::shared_text::SharedText;

/// Nothing where the API server writes `null`: lists that it does not leave out when they are empty.
pub(super) fn none_if_null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Name and place.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ServiceSpec,
    /// Where its load balancer is.
    pub status: Option<Box<ServiceStatus>>,
}

/// The part of a `Service` that decides where its pods are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    pub r#type: Option<SharedText>,
    /// The ports.
    pub ports: Box<[ServicePort]>,
    /// Its addresses inside of the cluster.
    #[serde(rename = "clusterIPs")]
    pub cluster_ips: Box<[SharedText]>,
}

/// What a cluster has made of a `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceStatus {
    /// Its load balancer.
    pub load_balancer: LoadBalancerStatus,
}

/// The load balancer of a `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// Its addresses; none: it has none yet.
    pub ingress: Box<[LoadBalancerPoint]>,
}

/// One address of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LoadBalancerPoint {
    /// An address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ip: Option<SharedText>,
    /// Or a name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<SharedText>,
}

/// One port of a `Service`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServicePort {
    /// By which endpoints know it; may be absent for the only one.
    pub name: Option<SharedText>,
    /// The number.
    pub port: i32,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Option<SharedText>,
    /// What is spoken on it.
    pub app_protocol: Option<SharedText>,
}

/// An `EndpointSlice`: some of the endpoints of a service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointSlice {
    /// Name and place; a label names the service.
    pub metadata: ObjectMeta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: SharedText,
    /// The endpoints.
    #[serde(deserialize_with = "none_if_null")]
    pub endpoints: Box<[SliceEndpoint]>,
    /// The ports of each of them.
    #[serde(deserialize_with = "none_if_null")]
    pub ports: Box<[EndpointPort]>,
}

/// One endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SliceEndpoint {
    /// Its addresses, which are the same endpoint.
    #[serde(deserialize_with = "none_if_null")]
    pub addresses: Box<[SharedText]>,
    /// Whether it serves.
    pub conditions: EndpointConditions,
    /// Where it is.
    pub zone: Option<SharedText>,
    /// Who should use it.
    pub hints: Option<Box<EndpointHints>>,
}

/// Whether an endpoint serves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointConditions {
    /// Serving and not terminating; unknown counts as yes.
    pub ready: Option<bool>,
    /// Whether its readiness probe passes, terminating or not.
    pub serving: Option<bool>,
    /// Whether it is about to end.
    pub terminating: Option<bool>,
}

/// Who should use an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EndpointHints {
    /// Clients of these zones.
    pub for_zones: Box<[ZoneHint]>,
}

/// A zone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ZoneHint {
    /// Its name.
    pub name: SharedText,
}

/// A port of endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct EndpointPort {
    /// That of the port of the service.
    pub name: Option<SharedText>,
    /// The number; without one, every port.
    pub port: Option<i32>,
}

/// A `Secret`. Debug output does not show what it holds.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretObject {
    /// Name and place.
    pub metadata: ObjectMeta,
    /// `kubernetes.io/tls` for certificates.
    pub r#type: SharedText,
    /// The values, in base64. No copy of a secret outlives it: they are not among the texts that are remembered.
    pub data: BTreeMap<SharedText, Box<str>>,
    /// The certificate in it, or what is wrong with it.
    #[serde(skip)]
    pub(crate) certificate: Memo<Result<Arc<LoadedCertificate>, Box<str>>>,
}

impl std::fmt::Debug for SecretObject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// A `ConfigMap`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ConfigMap {
    /// Name and place.
    pub metadata: ObjectMeta,
    /// The values.
    pub data: BTreeMap<SharedText, SharedText>,
    /// The authorities in it, or what is wrong with them.
    #[serde(skip)]
    pub(crate) authorities: Memo<Result<Arc<Authorities>, Box<str>>>,
}

/// A `Namespace`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: ObjectMeta,
}
