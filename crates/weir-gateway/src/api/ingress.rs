//! `Ingress` and `IngressClass` of `networking.k8s.io/v1`, and Secrets that Ingresses refer to beside those with certificates.
//!
//! Of annotations, only those that say something about routes are kept: what `kubectl apply` stores in one is as large as the object.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::kubernetes::{LoadBalancerPoint, none_if_null};
use super::meta::{ObjectMeta, ResourceVersion, StatusOwners};
use super::shared_text::SharedText;

/// The prefix of the annotations of ingress-nginx.
pub const NGINX_PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The prefix of Weir's own annotations.
pub const WEIR_PREFIX: &str = "weir.dev/";

/// The annotation that named the class before `ingressClassName` did.
pub const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

/// The annotation of the IngressClass whose Ingresses are those without a class.
pub const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";

/// Annotations by their full names.
pub type Annotations = BTreeMap<SharedText, SharedText>;

/// An `Ingress`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, from = "WrittenIngress")]
pub struct Ingress {
    /// Name and place.
    pub metadata: ObjectMeta,
    /// What the API server knows it by.
    pub uid: SharedText,
    /// Those that say something about routes.
    pub annotations: Annotations,
    /// What is wanted.
    pub spec: IngressSpec,
    /// What was told about it.
    pub status: Option<Box<IngressStatus>>,
}

/// An `IngressClass`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, from = "WrittenClass")]
pub struct IngressClass {
    /// Its name.
    pub metadata: ObjectMeta,
    /// Whether it is the class of Ingresses without one.
    pub is_default: bool,
    /// What is wanted.
    pub spec: IngressClassSpec,
}

/// What an `IngressClass` wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressClassSpec {
    /// Who serves the Ingresses of the class.
    pub controller: SharedText,
}

/// What an `Ingress` wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressSpec {
    /// The class.
    pub ingress_class_name: Option<SharedText>,
    /// Where requests go that no rule is for.
    pub default_backend: Option<Box<IngressBackend>>,
    /// Certificates.
    pub tls: Box<[IngressTls]>,
    /// The rules.
    pub rules: Box<[IngressRule]>,
}

/// A certificate, and the hosts that it is for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressTls {
    /// The hosts; none: those of the rules.
    pub hosts: Box<[SharedText]>,
    /// The Secret; none: the default certificate.
    pub secret_name: Option<SharedText>,
}

/// The paths of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressRule {
    /// The host; none: every host.
    pub host: Option<SharedText>,
    /// The paths.
    pub http: Option<Box<IngressPaths>>,
}

/// The paths of a rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressPaths {
    /// Each of them.
    #[serde(deserialize_with = "none_if_null")]
    pub paths: Box<[IngressPath]>,
}

/// A path and where its requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressPath {
    /// The path; none: every path.
    pub path: Option<SharedText>,
    /// `Exact`, `Prefix` or `ImplementationSpecific`.
    pub path_type: Option<SharedText>,
    /// Where its requests go.
    pub backend: IngressBackend,
}

/// Where requests go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressBackend {
    /// A Service of the same namespace.
    pub service: Option<Box<IngressService>>,
    /// An object of another kind.
    pub resource: Option<Box<IngressResource>>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressService {
    /// The Service.
    pub name: SharedText,
    /// The port.
    pub port: IngressPort,
}

/// A port by its name or its number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressPort {
    /// The name.
    pub name: Option<SharedText>,
    /// The number.
    pub number: Option<i32>,
}

/// An object of another kind than Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct IngressResource {
    /// Its kind.
    pub kind: SharedText,
    /// Its name.
    pub name: SharedText,
}

/// What was told about an `Ingress`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IngressStatus {
    /// Where it is served.
    pub load_balancer: IngressAddresses,
}

/// Where an `Ingress` is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct IngressAddresses {
    /// The addresses.
    pub ingress: Box<[LoadBalancerPoint]>,
}

/// A `Secret` of the type `Opaque`, of which only values are kept that Ingresses use. Debug output does not show what it holds.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, from = "WrittenSecret")]
pub struct OpaqueSecret {
    /// Name and place.
    pub metadata: ObjectMeta,
    /// The values of [`OPAQUE_KEYS`], in base64, not among the texts that are remembered.
    pub data: BTreeMap<SharedText, Box<str>>,
}

/// The keys of Secrets that Ingresses use: a file of users, an authority, a certificate with its key.
pub const OPAQUE_KEYS: [&str; 4] = ["auth", "ca.crt", "tls.crt", "tls.key"];

impl std::fmt::Debug for OpaqueSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpaqueSecret").field("metadata", &self.metadata).finish_non_exhaustive()
    }
}

/// Metadata with annotations, as it is written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WrittenMeta {
    namespace: SharedText,
    name: SharedText,
    uid: SharedText,
    generation: Option<i64>,
    creation_timestamp: Option<SharedText>,
    labels: BTreeMap<SharedText, SharedText>,
    resource_version: ResourceVersion,
    annotations: Option<Annotations>,
    #[serde(rename = "managedFields")]
    status_owners: StatusOwners,
}

impl WrittenMeta {
    fn split(self) -> (ObjectMeta, Annotations) {
        let Self {
            namespace,
            name,
            generation,
            creation_timestamp,
            labels,
            resource_version,
            annotations,
            status_owners,
            ..
        } = self;
        let meta = ObjectMeta {
            namespace,
            name,
            generation,
            creation_timestamp,
            labels,
            resource_version,
            status_owners,
            unreadable: None,
        };
        (meta, annotations.unwrap_or_default())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenIngress {
    metadata: WrittenMeta,
    spec: IngressSpec,
    status: Option<Box<IngressStatus>>,
}

impl From<WrittenIngress> for Ingress {
    fn from(written: WrittenIngress) -> Self {
        let uid = written.metadata.uid.clone();
        let (metadata, mut annotations) = written.metadata.split();
        annotations.retain(|name, _| {
            name.starts_with(NGINX_PREFIX) || name.starts_with(WEIR_PREFIX) || **name == *CLASS_ANNOTATION
        });
        Self { metadata, uid, annotations, spec: written.spec, status: written.status }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenClass {
    metadata: WrittenMeta,
    spec: IngressClassSpec,
}

impl From<WrittenClass> for IngressClass {
    fn from(written: WrittenClass) -> Self {
        let (metadata, annotations) = written.metadata.split();
        let is_default = annotations.get(DEFAULT_CLASS_ANNOTATION).is_some_and(|value| &**value == "true");
        Self { metadata, is_default, spec: written.spec }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WrittenSecret {
    metadata: ObjectMeta,
    data: Option<BTreeMap<SharedText, Box<str>>>,
}

impl From<WrittenSecret> for OpaqueSecret {
    fn from(written: WrittenSecret) -> Self {
        let mut data = written.data.unwrap_or_default();
        data.retain(|name, _| OPAQUE_KEYS.contains(&&**name));
        Self { metadata: written.metadata, data }
    }
}
