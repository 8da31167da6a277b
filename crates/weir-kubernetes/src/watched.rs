//! The objects of Weir in the form that the client of Kubernetes watches.
//!
//! What is not needed (annotations, most managed fields and labels) is passed over while an object is read, so that it takes no memory.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use kube::Resource;
use kube::core::{DynamicResourceScope, ObjectMeta as ClientMeta};
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};
use weir_gateway::api;
use weir_gateway::{KubernetesObject, ObjectKind};

/// A kind that is watched.
pub(crate) trait WatchedKind:
    Into<KubernetesObject> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
    /// The kind.
    const KIND: ObjectKind;
    /// The group, the version, the kind and its plural as the API server names them.
    const NAMES: [&'static str; 4];
    /// Whether objects belong to namespaces.
    const IS_NAMESPACED: bool;
    /// Older versions with the same fields, for clusters whose definitions do not have that one.
    const OLDER: &'static [&'static str] = &[];
    /// A selector of the objects that are needed.
    const FIELDS: Option<&'static str> = None;

    /// Name and place.
    fn metadata(&self) -> &api::ObjectMeta;

    /// The same, to change it.
    fn metadata_mut(&mut self) -> &mut api::ObjectMeta;
}

/// The version in which a kind is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct WatchedVersion(pub(crate) &'static str);

/// Does something for a kind.
pub(crate) trait KindVisitor {
    /// Does it.
    fn visit<T: WatchedKind>(&mut self);
}

/// An object, and its metadata in the form of the client.
#[derive(Debug, Clone)]
pub(crate) struct Watched<T> {
    meta: ClientMeta,
    pub(crate) object: T,
}

impl<'de, T: WatchedKind> Deserialize<'de> for Watched<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let has_owners =
            matches!(T::KIND, ObjectKind::Gateway | ObjectKind::ListenerSet | ObjectKind::Ingress);
        // By a detour: an error would end the whole list, and the client of Kubernetes would write all of it into the log.
        let parts = deserializer.deserialize_map(PartsVisitor { has_owners })?;
        let (mut object, unreadable) = api::read_parts::<T>(parts).map_err(D::Error::custom)?;
        // Namespaces are selected by labels, and a slice has its service there.
        if !matches!(T::KIND, ObjectKind::Namespace | ObjectKind::EndpointSlice) {
            object.metadata_mut().labels.clear();
        }
        object.metadata_mut().unreadable = unreadable;
        let known = object.metadata();
        let meta = ClientMeta {
            name: Some(known.name.to_string()),
            namespace: (!known.namespace.is_empty()).then(|| known.namespace.to_string()),
            resource_version: Some(known.resource_version.as_str().to_owned()),
            ..ClientMeta::default()
        };
        Ok(Self { meta, object })
    }
}

/// The parts of an object. Managed fields, often half of it, are passed over unless they say who has written its status: objects of other kinds
/// have entries that name their controller.
struct PartsVisitor {
    has_owners: bool,
}

impl<'de> Visitor<'de> for PartsVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut parts = Map::new();
        while let Some(name) = object.next_key::<String>()? {
            let part = match &*name {
                "metadata" if !self.has_owners => object.next_value_seed(UnmanagedMeta)?,
                _ => object.next_value()?,
            };
            parts.insert(name, part);
        }
        Ok(Value::Object(parts))
    }
}

/// Metadata without managed fields.
struct UnmanagedMeta;

impl<'de> DeserializeSeed<'de> for UnmanagedMeta {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for UnmanagedMeta {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut meta: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = meta.next_key::<String>()? {
            match &*name {
                "managedFields" => drop(meta.next_value::<IgnoredAny>()?),
                _ => drop(fields.insert(name, meta.next_value()?)),
            }
        }
        Ok(Value::Object(fields))
    }
}

impl<T: WatchedKind> Resource for Watched<T> {
    type DynamicType = WatchedVersion;
    type Scope = DynamicResourceScope;

    fn group(_: &WatchedVersion) -> Cow<'_, str> {
        T::NAMES[0].into()
    }

    fn version(version: &WatchedVersion) -> Cow<'_, str> {
        version.0.into()
    }

    fn kind(_: &WatchedVersion) -> Cow<'_, str> {
        T::NAMES[2].into()
    }

    fn plural(_: &WatchedVersion) -> Cow<'_, str> {
        T::NAMES[3].into()
    }

    fn meta(&self) -> &ClientMeta {
        &self.meta
    }

    fn meta_mut(&mut self) -> &mut ClientMeta {
        &mut self.meta
    }
}

macro_rules! watched_kinds {
    ($($type:ident = $kind:ident in [$($name:literal),+] $(or $older:literal)? $is_namespaced:literal $($fields:literal)?,)+) => {
        $(impl WatchedKind for api::$type {
            const KIND: ObjectKind = ObjectKind::$kind;
            const NAMES: [&'static str; 4] = [$($name),+];
            $(const OLDER: &'static [&'static str] = &[$older];)?
            const IS_NAMESPACED: bool = $is_namespaced;
            $(const FIELDS: Option<&'static str> = Some($fields);)?

            fn metadata(&self) -> &api::ObjectMeta {
                &self.metadata
            }

            fn metadata_mut(&mut self) -> &mut api::ObjectMeta {
                &mut self.metadata
            }
        })+

        /// Visits each kind.
        pub(crate) fn for_each_kind(visitor: &mut impl KindVisitor) {
            $(visitor.visit::<api::$type>();)+
        }

        /// All kinds that are known.
        pub(crate) const KINDS: &[ObjectKind] = &[$(ObjectKind::$kind,)+];

        /// The versions of a kind, the newest first.
        pub(crate) fn versions_of(kind: ObjectKind) -> Vec<&'static str> {
            match kind {
                $(ObjectKind::$kind => {
                    let older = <api::$type as WatchedKind>::OLDER;
                    [<api::$type as WatchedKind>::NAMES[1]].into_iter().chain(older.iter().copied()).collect()
                })+
            }
        }

        /// What the API server calls a kind: group, version, kind, plural.
        pub(crate) fn names_of(kind: ObjectKind) -> [&'static str; 4] {
            match kind { $(ObjectKind::$kind => <api::$type as WatchedKind>::NAMES,)+ }
        }
    };
}

watched_kinds! {
    Namespace = Namespace in ["", "v1", "Namespace", "namespaces"] false,
    GatewayClass = GatewayClass in ["gateway.networking.k8s.io", "v1", "GatewayClass", "gatewayclasses"] false,
    Gateway = Gateway in ["gateway.networking.k8s.io", "v1", "Gateway", "gateways"] true,
    ListenerSet = ListenerSet in ["gateway.networking.k8s.io", "v1", "ListenerSet", "listenersets"] true,
    HttpRoute = HttpRoute in ["gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes"] true,
    GrpcRoute = GrpcRoute in ["gateway.networking.k8s.io", "v1", "GRPCRoute", "grpcroutes"] true,
    TlsRoute = TlsRoute in ["gateway.networking.k8s.io", "v1", "TLSRoute", "tlsroutes"] true,
    TcpRoute = TcpRoute in ["gateway.networking.k8s.io", "v1", "TCPRoute", "tcproutes"] true,
    ReferenceGrant = ReferenceGrant in ["gateway.networking.k8s.io", "v1", "ReferenceGrant", "referencegrants"] or "v1beta1" true,
    BackendTlsPolicy = BackendTlsPolicy in ["gateway.networking.k8s.io", "v1", "BackendTLSPolicy", "backendtlspolicies"] true,
    Service = Service in ["", "v1", "Service", "services"] true,
    EndpointSlice = EndpointSlice in ["discovery.k8s.io", "v1", "EndpointSlice", "endpointslices"] true,
    SecretObject = Secret in ["", "v1", "Secret", "secrets"] true "type=kubernetes.io/tls",
    ConfigMap = ConfigMap in ["", "v1", "ConfigMap", "configmaps"] true,
    Ingress = Ingress in ["networking.k8s.io", "v1", "Ingress", "ingresses"] true,
    IngressClass = IngressClass in ["networking.k8s.io", "v1", "IngressClass", "ingressclasses"] false,
    OpaqueSecret = OpaqueSecret in ["", "v1", "Secret", "secrets"] true "type=Opaque",
}
