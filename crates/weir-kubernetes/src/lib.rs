//! A client of the API server of Kubernetes: watches objects, feeds `weir-gateway` with them, has the result carried out, writes statuses,
//! takes part in the election of the process that writes them.
//!
//! Knows no proxy: changes go to an [`UpdateSender`].

#![forbid(unsafe_code)]

pub mod controller;

mod source;
mod cluster_loop;
mod application;
mod completed_upstreams;
mod update;
mod election;
mod status_writer;
mod status_fights;
mod ingress_events;
mod cluster_state;
mod unreadable;
mod watching;
mod watched;
mod backoff;

pub use cluster_state::{ClusterReport, ClusterState};
pub use election::ElectionSettings;
pub use source::{KubernetesSource, SourceSettings};
pub use update::{ChangeRefusal, KubernetesChange, KubernetesUpdate, UpdateSender};
pub use weir_gateway::{GatewaySettings, IngressSettings, ObjectKey};
