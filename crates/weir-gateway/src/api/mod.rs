//! The objects that are read: those of the Gateway API, generated from its definitions, Ingresses, and what is needed of those of Kubernetes.
//!
//! Small in memory: no field takes more than its text, and parts that few objects have are behind a pointer. Unknown fields are passed over.

mod backend_tls_policy;
mod gateway;
mod gateway_class;
mod grpc_route;
mod http_route;
mod listener_set;
mod reference_grant;
mod tcp_route;
mod tls_route;
mod shared_value;
mod shared;
mod ingress;
mod kubernetes;
mod memo;
mod meta;
mod reading;
mod shared_text;

pub use backend_tls_policy::*;
pub use gateway::*;
pub use gateway_class::*;
pub use grpc_route::*;
pub use http_route::*;
pub use ingress::*;
pub use kubernetes::{
    ConfigMap, EndpointConditions, EndpointHints, EndpointPort, EndpointSlice, LoadBalancerPoint,
    LoadBalancerStatus, Namespace, SecretObject, Service, ServicePort, ServiceSpec, ServiceStatus,
    SliceEndpoint, ZoneHint,
};
pub use listener_set::*;
pub use meta::{ObjectMeta, ResourceVersion, StatusOwners};
pub use reading::read_parts;
pub use reference_grant::*;
pub use shared::*;
pub use shared_text::SharedText;
pub use shared_value::SharedValue;
pub use tcp_route::*;
pub use tls_route::*;

/// The group of the Gateway API.
pub const GROUP: &str = "gateway.networking.k8s.io";
