//! The objects by kind, namespace and name, as the last event of each says.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::{
    BackendTlsPolicy, ConfigMap, EndpointSlice, Gateway, GatewayClass, GrpcRoute, HttpRoute, Ingress,
    IngressClass, ListenerSet, Namespace, ObjectMeta, OpaqueSecret, ReferenceGrant, ResourceVersion,
    SecretObject, Service, SharedText, TcpRoute, TlsRoute, read_parts,
};

/// Namespace and name of an object; the namespace is empty for objects of the whole cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace.
    pub namespace: SharedText,
    /// The name.
    pub name: SharedText,
}

impl ObjectKey {
    /// The key of these.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of what the object with this metadata names; without a namespace, one of its own.
    pub(crate) fn named(meta: &ObjectMeta, namespace: Option<&SharedText>, name: &SharedText) -> Self {
        Self { namespace: namespace.unwrap_or(&meta.namespace).clone(), name: name.clone() }
    }

    /// The key of an object with this metadata.
    pub fn from_object_meta(meta: &ObjectMeta) -> Self {
        Self { namespace: meta.namespace.clone(), name: meta.name.clone() }
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The objects of one kind, in the order of their keys.
pub(crate) type ObjectTable<T> = BTreeMap<ObjectKey, Arc<T>>;

macro_rules! kinds {
    ($($kind:ident: $type:ident $table:ident,)+) => {
        /// A kind of object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ObjectKind {
            $(#[doc = concat!("`", stringify!($kind), "`")] $kind,)+
        }

        /// An object.
        #[derive(Debug, Clone)]
        pub enum KubernetesObject {
            $(#[doc = concat!("One of the kind `", stringify!($kind), "`")] $kind(Arc<$type>),)+
        }

        impl KubernetesObject {
            /// Its kind.
            pub fn kind(&self) -> ObjectKind {
                match self { $(Self::$kind(_) => ObjectKind::$kind,)+ }
            }

            /// Its name and place.
            pub fn key(&self) -> ObjectKey {
                match self { $(Self::$kind(object) => ObjectKey::from_object_meta(&object.metadata),)+ }
            }

            /// Its metadata.
            pub fn metadata(&self) -> &ObjectMeta {
                match self { $(Self::$kind(object) => &object.metadata,)+ }
            }

            /// Reads one of this kind, as far as it can be read.
            ///
            /// # Errors
            /// When the text is not an object.
            pub fn from_json(kind: ObjectKind, text: &[u8]) -> Result<Self, serde_json::Error> {
                let value = serde_json::from_slice(text)?;
                Ok(match kind {
                    $(ObjectKind::$kind => {
                        let (mut object, unreadable) = read_parts::<$type>(value)?;
                        object.metadata.unreadable = unreadable;
                        Self::$kind(Arc::new(object))
                    })+
                })
            }
        }

        $(impl From<$type> for KubernetesObject {
            fn from(object: $type) -> Self {
                Self::$kind(Arc::new(object))
            }
        })+

        /// All objects.
        #[derive(Debug, Default)]
        pub(crate) struct ObjectStore {
            $(pub(crate) $table: ObjectTable<$type>,)+
        }

        impl ObjectStore {
            /// Keeps the latest form of an object; returns the one before.
            pub(crate) fn upsert(&mut self, object: &KubernetesObject) -> Option<KubernetesObject> {
                let key = object.key();
                match object {
                    $(KubernetesObject::$kind(object) => self.$table.insert(key, Arc::clone(object)).map(KubernetesObject::$kind),)+
                }
            }

            /// The keys of a kind.
            pub(crate) fn keys(&self, kind: ObjectKind) -> Box<dyn Iterator<Item = &ObjectKey> + '_> {
                match kind { $(ObjectKind::$kind => Box::new(self.$table.keys()),)+ }
            }

            /// The version of an object that is known.
            pub(crate) fn version(&self, kind: ObjectKind, key: &ObjectKey) -> Option<&ResourceVersion> {
                match kind { $(ObjectKind::$kind => Some(&self.$table.get(key)?.metadata.resource_version),)+ }
            }

            /// Forgets an object; returns what it was.
            pub(crate) fn delete(&mut self, kind: ObjectKind, key: &ObjectKey) -> Option<KubernetesObject> {
                match kind { $(ObjectKind::$kind => self.$table.remove(key).map(KubernetesObject::$kind),)+ }
            }
        }
    };
}

kinds! {
    GatewayClass: GatewayClass gateway_classes,
    Gateway: Gateway gateways,
    ListenerSet: ListenerSet listener_sets,
    HttpRoute: HttpRoute http_routes,
    GrpcRoute: GrpcRoute grpc_routes,
    TlsRoute: TlsRoute tls_routes,
    TcpRoute: TcpRoute tcp_routes,
    ReferenceGrant: ReferenceGrant reference_grants,
    BackendTlsPolicy: BackendTlsPolicy backend_tls_policies,
    Service: Service services,
    EndpointSlice: EndpointSlice endpoint_slices,
    Secret: SecretObject secrets,
    ConfigMap: ConfigMap config_maps,
    Namespace: Namespace namespaces,
    Ingress: Ingress ingresses,
    IngressClass: IngressClass ingress_classes,
    OpaqueSecret: OpaqueSecret opaque_secrets,
}

impl ObjectKind {
    /// Whether an object of which a part cannot be read takes effect in a way that harms none: it is refused, or grants less. Of other kinds the
    /// form before stays in use.
    pub(crate) fn is_taken_in_part(self) -> bool {
        match self {
            Self::GatewayClass
            | Self::Gateway
            | Self::ListenerSet
            | Self::HttpRoute
            | Self::GrpcRoute
            | Self::TlsRoute
            | Self::TcpRoute
            | Self::BackendTlsPolicy
            | Self::ReferenceGrant
            | Self::Namespace => true,
            Self::Service
            | Self::EndpointSlice
            | Self::Secret
            | Self::ConfigMap
            | Self::Ingress
            | Self::IngressClass
            | Self::OpaqueSecret => false,
        }
    }
}

/// The objects of a namespace.
pub(crate) fn in_namespace<'a, 'b, T>(
    table: &'a ObjectTable<T>,
    namespace: &'b str,
) -> impl Iterator<Item = (&'a ObjectKey, &'a Arc<T>)> + use<'a, 'b, T> {
    let first = ObjectKey { namespace: namespace.into(), name: SharedText::default() };
    table.range(first..).take_while(move |(key, _)| *key.namespace == *namespace)
}

impl ObjectStore {
    /// Whether an object of kind `from` in a namespace may refer to one of another: by a grant there.
    pub(crate) fn is_granted(&self, from: (&str, &str, &str), to: (&str, &str, &ObjectKey)) -> bool {
        let ((from_group, from_kind, from_namespace), (group, kind, key)) = (from, to);
        if *from_namespace == *key.namespace {
            return true;
        }
        in_namespace(&self.reference_grants, &key.namespace).any(|(_, grant)| {
            let from = grant.spec.from.iter().any(|one| {
                (&*one.group, &*one.kind, &*one.namespace) == (from_group, from_kind, from_namespace)
            });
            from && grant.spec.to.iter().any(|one| {
                let is_named = one.name.as_deref().is_none_or(|name| name.is_empty() || *name == *key.name);
                (&*one.group, &*one.kind) == (group, kind) && is_named
            })
        })
    }
}
