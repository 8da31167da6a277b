//! `envoy/service/discovery/v3/discovery.proto`: requests and responses of the incremental protocol.

use std::collections::HashMap;

use prost::Message;

use super::base::{Any, ProtoDuration, ProtoStruct, ResourceLocality, RpcStatus};

/// `DeltaDiscoveryRequest`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaRequest {
    #[prost(message, optional, tag = "1")]
    pub(crate) node: Option<NodeMessage>,
    #[prost(string, tag = "2")]
    pub(crate) type_url: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) resource_names_subscribe: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    pub(crate) resource_names_unsubscribe: Vec<String>,
    #[prost(map = "string, string", tag = "5")]
    pub(crate) initial_resource_versions: HashMap<String, String>,
    #[prost(string, tag = "6")]
    pub(crate) response_nonce: String,
    #[prost(message, optional, tag = "7")]
    pub(crate) error_detail: Option<RpcStatus>,
}

/// `DeltaDiscoveryResponse`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeltaResponse {
    #[prost(message, repeated, tag = "2")]
    pub(crate) resources: Vec<Resource>,
    #[prost(string, tag = "4")]
    pub(crate) type_url: String,
    #[prost(string, tag = "5")]
    pub(crate) nonce: String,
    #[prost(string, repeated, tag = "6")]
    pub(crate) removed_resources: Vec<String>,
}

/// `Resource`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Resource {
    #[prost(string, tag = "1")]
    pub(crate) version: String,
    /// `None`: the one of before lives on (a heartbeat).
    #[prost(message, optional, tag = "2")]
    pub(crate) resource: Option<Any>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "6")]
    pub(crate) ttl: Option<ProtoDuration>,
}

/// `envoy.config.core.v3.Node`: who asks.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeMessage {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) cluster: String,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ProtoStruct>,
    #[prost(message, optional, tag = "4")]
    pub(crate) locality: Option<ResourceLocality>,
    #[prost(string, tag = "6")]
    pub(crate) user_agent_name: String,
    #[prost(string, tag = "7")]
    pub(crate) user_agent_version: String,
    #[prost(string, repeated, tag = "10")]
    pub(crate) client_features: Vec<String>,
}
