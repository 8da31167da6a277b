//! From objects of the Kubernetes Gateway API, and from Ingresses, to a configuration of Weir, to servers of its upstreams, and to the statuses of the objects.
//!
//! Pure: a client of the API server feeds a [`Translator`] with objects and carries out what comes back. Opens no socket, reads no file and
//! no clock, starts no thread, and knows no client of Kubernetes.

#![forbid(unsafe_code)]

// What comes in and what goes out.
mod translator;
mod withdrawal;
mod status;
mod host_conflicts;
mod assembly;
mod upstream_table;
mod attachment;
mod listeners;
mod ingress;
mod compile;
mod backends;
mod policies;
mod servers;
mod names;
mod addresses;
mod options;
mod refusal;
mod store;
pub mod api;

// What objects are told.

// Listeners, routes and upstreams of a configuration.

// Ingresses.

// One route at a time.

// What cannot be applied.

// The objects.

pub use crate::options::isolation::{ListenerOwner, Refusals, changed_owners, has_same_listeners, hold_back};
pub use crate::options::parameters::{GatewayParameters, STOP_MAX, admin_port};
pub use crate::options::settings::{
    CONTROLLER_NAME, GatewaySettings, INGRESS_CONTROLLER_NAME, IngressSettings,
};
pub use ingress::{
    AnnotationHandling, AnnotationLevel, IngressAnnotation, IngressFinding, IngressProblem, IngressReport,
    ManifestError, ManifestFindings, WITHOUT_ANNOTATION, annotations_markdown, check_manifests,
    ingress_annotations,
};
pub use listeners::gateway_of_set;
pub use servers::{UpstreamServers, ZonedServer};
pub use status::{ObjectStatus, SUPPORTED_FEATURES, StatusUpdate, is_own_condition};
pub use store::{KubernetesObject, ObjectKey, ObjectKind};
pub use translator::{Translation, Translator};
