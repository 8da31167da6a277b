//! Which listeners a route is attached to, for which hosts, and why not to others.

use crate::api::{GROUP, Gateway, LabelSelector, NamespaceRule, ParentReference};
use crate::compile::CompiledRoute;
use crate::hosts::in_common;
use crate::listeners::{GatewayListenerPlan, GatewayPlan};
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

/// What becomes of one reference of a route to a Gateway of ours.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attachment {
    /// The reference, by its place in the route.
    pub(crate) parent: usize,
    /// The Gateway, by its place among ours.
    pub(crate) gateway: usize,
    pub(crate) verdict: Result<Vec<AttachedListener>, Refusal>,
}

/// A listener that takes a route, and the hosts that both have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttachedListener {
    /// By its place in the Gateway.
    pub(crate) listener: usize,
    pub(crate) hosts: Vec<Box<str>>,
}

/// The Gateway that a reference names.
pub(crate) fn gateway_of(parent: &ParentReference, namespace: &str) -> Option<ObjectKey> {
    let is_gateway = parent.group.as_deref().is_none_or(|group| group == GROUP)
        && parent.kind.as_deref().is_none_or(|kind| kind == Gateway::KIND);
    is_gateway.then(|| ObjectKey::new(parent.namespace.as_deref().unwrap_or(namespace), &parent.name))
}

pub(crate) fn attach(route: &CompiledRoute, plans: &[GatewayPlan], store: &ObjectStore) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    for (parent, reference) in route.parents.iter().enumerate() {
        let Some(key) = gateway_of(reference, &route.key.namespace) else { continue };
        let Some(gateway) = plans.iter().position(|plan| plan.key == key) else { continue };
        let verdict = match &route.accepted {
            Ok(()) => attach_one(route, reference, &plans[gateway], store),
            Err(refusal) => Err(refusal.clone()),
        };
        attachments.push(Attachment { parent, gateway, verdict });
    }
    attachments
}

fn attach_one(
    route: &CompiledRoute,
    reference: &ParentReference,
    plan: &GatewayPlan,
    store: &ObjectStore,
) -> Result<Vec<AttachedListener>, Refusal> {
    let is_named = |listener: &GatewayListenerPlan| {
        reference.section_name.as_deref().is_none_or(|section| section == &*listener.name)
            && reference.port.is_none_or(|port| u16::try_from(port) == Ok(listener.port))
    };
    let named: Vec<_> =
        plan.listeners.iter().enumerate().filter(|(_, listener)| is_named(listener)).collect();
    if named.is_empty() {
        return Err(Refusal::new("NoMatchingParent", "the Gateway has no listener with this name and port"));
    }
    let allowed: Vec<_> = (named.iter())
        .filter(|(_, listener)| {
            listener.kinds.contains(&route.kind)
                && is_allowed(listener.namespaces.as_ref(), route, plan, store)
        })
        .collect();
    if allowed.is_empty() {
        let message =
            format!("no listener allows a {} of the namespace `{}`", route.kind.name(), route.key.namespace);
        return Err(Refusal::new("NotAllowedByListeners", message));
    }
    let attached: Vec<AttachedListener> = (allowed.iter())
        .filter_map(|(index, listener)| {
            let same_port =
                plan.listeners.iter().filter(|other| other.port == listener.port && other.is_open());
            let others: Vec<&str> = same_port.map(|other| &*other.hostname).collect();
            let hosts = in_common(&listener.hostname, &route.hostnames, &others);
            (!hosts.is_empty()).then_some(AttachedListener { listener: *index, hosts })
        })
        .collect();
    if attached.is_empty() {
        let message = "no listener that allows the route is for one of its hostnames";
        return Err(Refusal::new("NoMatchingListenerHostname", message));
    }
    Ok(attached)
}

fn is_allowed(
    rule: Option<&NamespaceRule>,
    route: &CompiledRoute,
    plan: &GatewayPlan,
    store: &ObjectStore,
) -> bool {
    match rule.and_then(|rule| rule.from.as_deref()) {
        Some("All") => true,
        Some("Selector") => {
            let namespace = store.namespaces.get(&ObjectKey::new("", &route.key.namespace));
            let selector = rule.and_then(|rule| rule.selector.as_deref());
            // Without a selector, none is selected.
            namespace
                .zip(selector)
                .is_some_and(|(namespace, selector)| selects(selector, &namespace.metadata.labels))
        }
        None | Some("Same") => route.key.namespace == plan.key.namespace,
        Some(_) => false,
    }
}

fn selects(selector: &LabelSelector, labels: &std::collections::BTreeMap<Box<str>, Box<str>>) -> bool {
    let by_label = selector.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value));
    by_label
        && selector.match_expressions.iter().all(|one| {
            let value = labels.get(&one.key);
            match &*one.operator {
                "In" => value.is_some_and(|value| one.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !one.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_those_of_kubernetes() {
        let labels = [("team".into(), "a".into())].into();
        for (selector, is_selected) in [
            (r#"{}"#, true),
            (r#"{"matchLabels":{"team":"a"}}"#, true),
            (r#"{"matchLabels":{"team":"b"}}"#, false),
            (r#"{"matchExpressions":[{"key":"team","operator":"In","values":["a","b"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"team","operator":"NotIn","values":["a"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"other","operator":"NotIn","values":["a"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"other","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"other","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"team","operator":"Like","values":["a"]}]}"#, false),
        ] {
            let read: LabelSelector = serde_json::from_str(selector).unwrap();
            assert_eq!(selects(&read, &labels), is_selected, "{selector}");
        }
    }
}
