//! From objects of the Kubernetes Gateway API, and from Ingresses, to a configuration of Weir, to servers of its upstreams, and to the statuses of the objects.
//!
//! Pure: a client of the API server feeds a [`Translator`] with objects and carries out what comes back. Opens no socket, reads no file and
//! no clock, starts no thread, and knows no client of Kubernetes.

#![forbid(unsafe_code)]

// What comes in and what goes out.
mod translator;

// What objects are told.
mod withdrawal;
mod status;

// Listeners, routes and upstreams of a configuration.
mod host_conflicts;
mod assembly;
mod upstream_table;
mod attachment;
mod listeners;

// Ingresses.
mod ingress;

// One route at a time.
mod compile;
mod backends;
mod policies;
mod servers;
mod hosts;
mod selectors;
mod addresses;
mod parameters;
mod refusal;

mod settings;

// What cannot be applied.
mod isolation;

// The objects.
mod store;
pub mod api;

pub use ingress::{
    AnnotationHandling, AnnotationLevel, IngressAnnotation, IngressFinding, IngressProblem, IngressReport,
    ManifestError, ManifestFindings, WITHOUT_ANNOTATION, annotations_markdown, check_manifests,
    ingress_annotations,
};
pub use isolation::{ListenerOwner, Refusals, changed_owners, has_same_listeners, hold_back};
pub use listeners::gateway_of_set;
pub use parameters::{GatewayParameters, STOP_MAX, admin_port};
pub use servers::{UpstreamServers, ZonedServer};
pub use settings::{CONTROLLER_NAME, GatewaySettings, INGRESS_CONTROLLER_NAME, IngressSettings};
pub use status::{ObjectStatus, SUPPORTED_FEATURES, StatusUpdate, is_own_condition};
pub use store::{KubernetesObject, ObjectKey, ObjectKind};
pub use translator::{Translation, Translator};
