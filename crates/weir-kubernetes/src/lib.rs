//! A client of the API server of Kubernetes: watches objects, feeds `weir-gateway` with them, has the result carried out, writes statuses,
//! takes part in the election of the process that writes them.
//!
//! Knows no proxy: changes go to an [`UpdateSender`].

#![forbid(unsafe_code)]

mod source;
mod event_loop;
mod election;
mod status_writer;
mod source_state;
mod watching;
mod watched;
mod server_table;
mod update;
mod backoff;

pub use election::ElectionSettings;
pub use source::{KubernetesSource, SourceSettings};
pub use source_state::{SourceReport, SourceState};
pub use update::{KubernetesChange, KubernetesUpdate, UpdateSender};
pub use weir_gateway::{GatewaySettings, ObjectKey};
