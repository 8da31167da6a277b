//! Which Ingresses are Weir's.

use crate::api::{CLASS_ANNOTATION, Ingress};
use crate::options::settings::IngressSettings;
use crate::store::{ObjectKey, ObjectStore};

/// Whether an Ingress belongs to a class of this controller: by `ingressClassName`, by the annotation from before there were classes, or
/// as one without a class where a class of this controller is the default.
pub(super) fn is_ours(ingress: &Ingress, store: &ObjectStore, settings: &IngressSettings) -> bool {
    let is_class = |name: &str| {
        let class = store.ingress_classes.get(&ObjectKey::new("", name));
        class.is_some_and(|class| class.spec.controller == settings.controller_name)
    };
    let by_annotation = ingress.annotations.get(CLASS_ANNOTATION);
    match (by_annotation, ingress.spec.ingress_class_name.as_deref()) {
        // The annotation precedes, as in ingress-nginx; the API server refuses both in a new object.
        (Some(name), _) if !name.is_empty() => is_class(name),
        (_, Some(name)) if !name.is_empty() => is_class(name),
        _ => {
            let mut classes = store.ingress_classes.values();
            classes.any(|class| class.is_default && class.spec.controller == settings.controller_name)
        }
    }
}
