//! Objects of which a part cannot be read: the log says so once for each form of them.

use std::collections::BTreeMap;

use weir_gateway::{KubernetesObject, ObjectKey, ObjectKind};

use crate::watched::names_of;

/// Those that are known, and why.
#[derive(Debug, Default)]
pub(crate) struct UnreadableObjects(BTreeMap<(ObjectKind, ObjectKey), Box<str>>);

impl UnreadableObjects {
    /// Takes the latest form of an object.
    pub(crate) fn note(&mut self, object: &KubernetesObject) {
        let unreadable = object.metadata().unreadable.as_deref();
        if self.0.is_empty() && unreadable.is_none() {
            return;
        }
        let (kind, key) = (object.kind(), object.key());
        let Some(why) = unreadable else { return self.forget(kind, &key) };
        let known = self.0.entry((kind, key)).or_default();
        if **known != *why {
            *known = why.into();
            // What is in a Secret is not for the log.
            let is_secret = matches!(kind, ObjectKind::Secret | ObjectKind::OpaqueSecret);
            let why = why.split(':').next().filter(|_| is_secret).unwrap_or(why);
            let (kind, object) = (names_of(kind)[2], object.key());
            tracing::error!(kind, %object, why, "an object of Kubernetes cannot be read: it alone is refused, or stays as it was known last");
        }
    }

    /// An object is gone.
    pub(crate) fn forget(&mut self, kind: ObjectKind, key: &ObjectKey) {
        if !self.0.is_empty() {
            self.0.remove(&(kind, key.clone()));
        }
    }
}
