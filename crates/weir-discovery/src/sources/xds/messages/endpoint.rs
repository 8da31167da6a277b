//! `envoy/config/endpoint/v3/{endpoint,endpoint_components}.proto`: the endpoints of a cluster.

use prost::Message;

use super::base::{Address, EmptyMessage, Metadata, ResourceLocality, WrappedNumber};

/// `ClusterLoadAssignment`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LoadAssignment {
    #[prost(string, tag = "1")]
    pub(crate) cluster_name: String,
    #[prost(message, repeated, tag = "2")]
    pub(crate) endpoints: Vec<LocalityEndpoints>,
    #[prost(message, optional, tag = "4")]
    pub(crate) policy: Option<AssignmentPolicy>,
}

/// `ClusterLoadAssignment.Policy`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AssignmentPolicy {
    #[prost(message, repeated, tag = "2")]
    pub(crate) drop_overloads: Vec<DropOverload>,
    #[prost(message, optional, tag = "3")]
    pub(crate) overprovisioning_factor: Option<WrappedNumber>,
    #[prost(message, optional, tag = "4")]
    pub(crate) endpoint_stale_after: Option<EmptyMessage>,
    #[prost(bool, tag = "6")]
    pub(crate) weighted_priority_health: bool,
}

/// `ClusterLoadAssignment.AssignmentPolicy.DropOverload`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DropOverload {
    #[prost(string, tag = "1")]
    pub(crate) category: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) drop_percentage: Option<FractionalPercent>,
}

/// `envoy.type.v3.FractionalPercent`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FractionalPercent {
    #[prost(uint32, tag = "1")]
    pub(crate) numerator: u32,
    /// 0: of a hundred, 1: of ten thousand, 2: of a million.
    #[prost(int32, tag = "2")]
    pub(crate) denominator: i32,
}

/// `LocalityLbEndpoints`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LocalityEndpoints {
    #[prost(message, optional, tag = "1")]
    pub(crate) locality: Option<ResourceLocality>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) lb_endpoints: Vec<LbEndpoint>,
    #[prost(message, optional, tag = "3")]
    pub(crate) load_balancing_weight: Option<WrappedNumber>,
    #[prost(uint32, tag = "5")]
    pub(crate) priority: u32,
    #[prost(message, optional, tag = "6")]
    pub(crate) proximity: Option<WrappedNumber>,
    /// A list of endpoints in a message of its own.
    #[prost(message, optional, tag = "7")]
    pub(crate) load_balancer_endpoints: Option<EndpointList>,
    /// The endpoints are in resources of their own (LEDS).
    #[prost(message, optional, tag = "8")]
    pub(crate) leds_cluster_locality_config: Option<EmptyMessage>,
}

/// `LocalityLbEndpoints.LbEndpointList`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EndpointList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) lb_endpoints: Vec<LbEndpoint>,
}

/// `LbEndpoint`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct LbEndpoint {
    #[prost(message, optional, tag = "1")]
    pub(crate) endpoint: Option<EndpointDescription>,
    /// `HealthStatus`: 0 UNKNOWN, 1 HEALTHY, 2 UNHEALTHY, 3 DRAINING, 4 TIMEOUT, 5 DEGRADED.
    #[prost(int32, tag = "2")]
    pub(crate) health_status: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<Metadata>,
    #[prost(message, optional, tag = "4")]
    pub(crate) load_balancing_weight: Option<WrappedNumber>,
    /// One of `named_endpoints`.
    #[prost(string, tag = "5")]
    pub(crate) endpoint_name: String,
}

/// `Endpoint`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EndpointDescription {
    #[prost(message, optional, tag = "1")]
    pub(crate) address: Option<Address>,
    #[prost(message, optional, tag = "2")]
    pub(crate) health_check_config: Option<EmptyMessage>,
    #[prost(string, tag = "3")]
    pub(crate) hostname: String,
    #[prost(message, repeated, tag = "4")]
    pub(crate) additional_addresses: Vec<EmptyMessage>,
}
