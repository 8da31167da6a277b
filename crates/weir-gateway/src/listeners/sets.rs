//! ListenerSets: which of them a Gateway allows, and in which order they precede each other.

use std::sync::Arc;

use weir_sort::CompactSort as _;

use crate::api::{GROUP, Gateway, ListenerSet};
use crate::names::selectors::selects;
use crate::policies::age;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

/// A set that refers to a Gateway.
#[derive(Debug)]
pub(crate) struct ListenerSetPlan {
    pub(crate) key: ObjectKey,
    pub(crate) set: Arc<ListenerSet>,
    /// Whether the Gateway takes it; the listeners of one that is not allowed are not looked at.
    pub(crate) allowed: Result<(), Refusal>,
}

/// The Gateway that a set refers to.
pub fn gateway_of_set(set: &ListenerSet) -> Option<ObjectKey> {
    let parent = &set.spec.parent_ref;
    let is_gateway = parent.group.as_deref().is_none_or(|group| group == GROUP)
        && parent.kind.as_deref().is_none_or(|kind| kind == Gateway::KIND);
    let namespace = parent.namespace.as_deref().unwrap_or(&set.metadata.namespace);
    is_gateway.then(|| ObjectKey::new(namespace, &parent.name))
}

/// The sets of a Gateway, oldest first, then by name.
pub(crate) fn of_gateway(gateway: &Gateway, store: &ObjectStore) -> Vec<ListenerSetPlan> {
    let key = ObjectKey::from_object_meta(&gateway.metadata);
    let is_its = |set: &&Arc<ListenerSet>| gateway_of_set(set).as_ref() == Some(&key);
    let mut sets: Vec<_> = store.listener_sets.values().filter(is_its).collect();
    sets.sort_compact_by(|one, other| age(&one.metadata).cmp(&age(&other.metadata)));
    let plan = |set: &Arc<ListenerSet>| ListenerSetPlan {
        key: ObjectKey::from_object_meta(&set.metadata),
        set: Arc::clone(set),
        allowed: check(gateway, set, store),
    };
    sets.into_iter().map(plan).collect()
}

fn check(gateway: &Gateway, set: &ListenerSet, store: &ObjectStore) -> Result<(), Refusal> {
    let allowed = gateway.spec.allowed_listeners.as_deref();
    let rule = allowed.and_then(|allowed| allowed.namespaces.as_deref());
    let namespace = &set.metadata.namespace;
    let is_allowed = match rule.and_then(|rule| rule.from.as_deref()) {
        Some("All") => true,
        Some("Same") => *namespace == gateway.metadata.namespace,
        Some("Selector") => {
            let namespace = store.namespaces.get(&ObjectKey::new("", namespace));
            let selector = rule.and_then(|rule| rule.selector.as_deref());
            namespace
                .zip(selector)
                .is_some_and(|(namespace, selector)| selects(selector, &namespace.metadata.labels))
        }
        _ => false,
    };
    match is_allowed {
        true => Refusal::unreadable(&set.metadata, "Invalid"),
        false => Err(Refusal::new(
            "NotAllowed",
            format!("`allowedListeners` of the Gateway does not select the namespace `{namespace}`"),
        )),
    }
}
