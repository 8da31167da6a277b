//! `envoy/config/cluster/v3/cluster.proto`: what says where the endpoints of a cluster are.

use prost::Message;

use super::base::EmptyMessage;
use super::endpoint::LoadAssignment;

/// `Cluster`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Cluster {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// `DiscoveryType`: 0 STATIC, 1 STRICT_DNS, 2 LOGICAL_DNS, 3 EDS, 4 ORIGINAL_DST.
    #[prost(int32, tag = "2")]
    pub(crate) discovery_type: i32,
    #[prost(message, optional, tag = "3")]
    pub(crate) eds_cluster_config: Option<EdsClusterConfig>,
    /// `LbPolicy`.
    #[prost(int32, tag = "6")]
    pub(crate) lb_policy: i32,
    #[prost(message, optional, tag = "33")]
    pub(crate) load_assignment: Option<LoadAssignment>,
    #[prost(message, optional, tag = "38")]
    pub(crate) cluster_type: Option<CustomClusterType>,
}

/// `Cluster.EdsClusterConfig`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EdsClusterConfig {
    #[prost(message, optional, tag = "1")]
    pub(crate) eds_config: Option<EdsConfigSource>,
    #[prost(string, tag = "2")]
    pub(crate) service_name: String,
}

/// `Cluster.CustomClusterType`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct CustomClusterType {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
}

/// `envoy.config.core.v3.ConfigSource`: where a resource is asked for. Only the presence of each kind counts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EdsConfigSource {
    #[prost(string, optional, tag = "1")]
    pub(crate) path: Option<String>,
    #[prost(message, optional, tag = "2")]
    pub(crate) api_config_source: Option<EmptyMessage>,
    #[prost(message, optional, tag = "8")]
    pub(crate) path_config_source: Option<EmptyMessage>,
}

/// Names of the fields of `Cluster` by their numbers, but for those that Weir follows.
pub(crate) const OTHER_FIELDS: &[(u32, &str)] = &[
    (4, "connect_timeout"),
    (5, "per_connection_buffer_limit_bytes"),
    (8, "health_checks"),
    (9, "max_requests_per_connection"),
    (10, "circuit_breakers"),
    (13, "http_protocol_options"),
    (14, "http2_protocol_options"),
    (16, "dns_refresh_rate"),
    (17, "dns_lookup_family"),
    (18, "dns_resolvers"),
    (19, "outlier_detection"),
    (20, "cleanup_interval"),
    (21, "upstream_bind_config"),
    (22, "lb_subset_config"),
    (23, "ring_hash_lb_config"),
    (24, "transport_socket"),
    (25, "metadata"),
    (26, "protocol_selection"),
    (27, "common_lb_config"),
    (28, "alt_stat_name"),
    (29, "common_http_protocol_options"),
    (30, "upstream_connection_options"),
    (31, "close_connections_on_host_health_failure"),
    (32, "ignore_health_on_host_removal"),
    (34, "original_dst_lb_config"),
    (36, "typed_extension_protocol_options"),
    (37, "least_request_lb_config"),
    (39, "respect_dns_ttl"),
    (40, "filters"),
    (41, "load_balancing_policy"),
    (42, "lrs_server"),
    (43, "transport_socket_matches"),
    (44, "dns_failure_refresh_rate"),
    (45, "use_tcp_for_dns_lookups"),
    (46, "upstream_http_protocol_options"),
    (47, "track_timeout_budgets"),
    (48, "upstream_config"),
    (49, "track_cluster_stats"),
    (50, "preconnect_policy"),
    (51, "connection_pool_per_downstream_connection"),
    (52, "maglev_lb_config"),
    (53, "dns_resolution_config"),
    (54, "wait_for_warm_on_init"),
    (55, "typed_dns_resolver_config"),
    (56, "round_robin_lb_config"),
    (57, "lrs_report_endpoint_metrics"),
    (58, "dns_jitter"),
];

/// Fields of `Cluster` that Weir follows.
pub(crate) const USED_FIELDS: &[u32] = &[1, 2, 3, 6, 33, 38];

/// Names of `LbPolicy` by number.
pub(crate) const LB_POLICIES: &[&str] = &[
    "ROUND_ROBIN",
    "LEAST_REQUEST",
    "RING_HASH",
    "RANDOM",
    "ORIGINAL_DST_LB",
    "MAGLEV",
    "CLUSTER_PROVIDED",
    "LOAD_BALANCING_POLICY_CONFIG",
];
