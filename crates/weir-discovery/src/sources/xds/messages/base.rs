//! `envoy/config/core/v3/{base,address}.proto` and the types of `google.protobuf` and `google.rpc` that they use.

use std::collections::BTreeMap;

use prost::{Message, Oneof};

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Any {
    #[prost(string, tag = "1")]
    pub(crate) type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) value: Vec<u8>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoDuration {
    #[prost(int64, tag = "1")]
    pub(crate) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(crate) nanos: i32,
}

/// `google.protobuf.UInt32Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WrappedNumber {
    #[prost(uint32, tag = "1")]
    pub(crate) value: u32,
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RpcStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

/// `google.protobuf.Struct`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoStruct {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) fields: BTreeMap<String, ProtoValue>,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoValue {
    #[prost(oneof = "ProtoValueKind", tags = "1, 2, 3, 4, 5, 6")]
    pub(crate) kind: Option<ProtoValueKind>,
}

/// The kinds of a `google.protobuf.Value`.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ProtoValueKind {
    #[prost(int32, tag = "1")]
    Null(i32),
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Bool(bool),
    #[prost(message, tag = "5")]
    Struct(ProtoStruct),
    #[prost(message, tag = "6")]
    List(ProtoList),
}

/// `google.protobuf.ListValue`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProtoList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) values: Vec<ProtoValue>,
}

/// `Locality`.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct ResourceLocality {
    #[prost(string, tag = "1")]
    pub(crate) region: String,
    #[prost(string, tag = "2")]
    pub(crate) zone: String,
    #[prost(string, tag = "3")]
    pub(crate) sub_zone: String,
}

/// `Metadata`, the part of plain values.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(btree_map = "string, message", tag = "1")]
    pub(crate) filter_metadata: BTreeMap<String, ProtoStruct>,
}

/// `Address`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Address {
    #[prost(oneof = "AddressKind", tags = "1, 2, 3")]
    pub(crate) kind: Option<AddressKind>,
}

/// The kinds of an `Address`.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AddressKind {
    #[prost(message, tag = "1")]
    Socket(SocketAddress),
    #[prost(message, tag = "2")]
    Pipe(EmptyMessage),
    #[prost(message, tag = "3")]
    Internal(EmptyMessage),
}

/// A message of which only the presence counts.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct EmptyMessage {}

/// `SocketAddress`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SocketAddress {
    /// 0: TCP, 1: UDP.
    #[prost(int32, tag = "1")]
    pub(crate) protocol: i32,
    #[prost(string, tag = "2")]
    pub(crate) address: String,
    #[prost(uint32, tag = "3")]
    pub(crate) port_value: u32,
    #[prost(string, tag = "4")]
    pub(crate) named_port: String,
    #[prost(string, tag = "5")]
    pub(crate) resolver_name: String,
    #[prost(string, tag = "7")]
    pub(crate) network_namespace_filepath: String,
}
