//! Clusters and endpoints of a control plane by xDS, version 3: one stream of `DeltaAggregatedResources` for all upstreams that name it
//! (decision 141). Without the feature `xds` there is only `left_out`.
//!
//! `client` has the stream, `resources` says what is asked for and what each upstream is told, without I/O.

#[cfg(feature = "xds")]
mod client;
#[cfg(feature = "xds")]
mod grpc;
#[cfg(feature = "xds")]
mod resources;
#[cfg(feature = "xds")]
mod resource_table;
#[cfg(feature = "xds")]
mod cluster;
#[cfg(feature = "xds")]
mod assignment;
#[cfg(all(test, feature = "xds"))]
mod test_messages;
#[cfg(feature = "xds")]
mod messages;
#[cfg(not(feature = "xds"))]
mod left_out;
mod followed_resource;

#[cfg(feature = "xds")]
pub(crate) use client::XdsClient;
pub(crate) use followed_resource::FollowedResource;
#[cfg(not(feature = "xds"))]
pub(crate) use left_out::XdsClient;
