//! Ingresses: the older way to describe routes, with the annotations of ingress-nginx. They come to two listeners beside those of Gateways.
//!
//! One Ingress is compiled when it, or an object that it refers to, changes. The hosts of all are put together anew at each change, since
//! each Ingress may have paths of any host.

mod check;
mod check_together;
mod state;
mod page;

// Listeners and routes of all Ingresses.
mod assembly;
mod hosts;
mod host_certificates;

// One Ingress at a time.
mod compile;
mod canary;
mod regexes;
mod route_settings;
mod lookup;
mod compilation;
mod default_certificate;
mod hsts;
mod servers;
mod networks;
mod classes;
mod annotations;

pub use annotations::{AnnotationHandling, IngressAnnotation, IngressProblem, WITHOUT_ANNOTATION};
pub use check::{AnnotationLevel, IngressFinding, ManifestError, ManifestFindings, check_manifests};
pub use page::annotations_markdown;
pub use state::IngressReport;

pub(crate) use state::{IngressInput, IngressState};

/// The annotations of ingress-nginx that are known, in the order of the documentation.
pub fn ingress_annotations() -> impl Iterator<Item = &'static IngressAnnotation> {
    annotations::table()
}
