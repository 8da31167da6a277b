//! Which listeners a route is attached to, for which hosts, and why not to others.

use super::names::hosts::in_common;
use super::names::selectors::selects;
use crate::api::{GROUP, Gateway, ListenerSet, NamespaceRule, ParentReference, SharedText};
use crate::compile::CompiledRoute;
use crate::listeners::{GatewayListenerPlan, GatewayPlan};
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

/// What becomes of one reference of a route to a Gateway of ours or to a set of its listeners.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Attachment {
    /// The reference, by its place in the route.
    pub(crate) parent: usize,
    /// The Gateway, by its place among ours.
    pub(crate) gateway: usize,
    pub(crate) verdict: Result<Vec<AttachedListener>, Refusal>,
    /// Why a route of another kind is preferred to it.
    pub(crate) rival: Option<Refusal>,
}

impl Attachment {
    /// The listeners that take the route; none if it is refused.
    pub(crate) fn listeners(&self) -> &[AttachedListener] {
        let listeners = self.verdict.as_deref().unwrap_or_default();
        if self.rival.is_some() { &[] } else { listeners }
    }

    /// Whether the route is accepted.
    pub(crate) fn accepted(&self) -> Result<(), &Refusal> {
        self.verdict.as_ref().map(|_| ())?;
        self.rival.as_ref().map_or(Ok(()), Err)
    }
}

/// A listener that takes a route, and the hosts that both have.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct AttachedListener {
    /// By its place in the Gateway.
    pub(crate) listener: usize,
    pub(crate) hosts: Vec<SharedText>,
}

/// The object that a reference names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteParent {
    Gateway(ObjectKey),
    Set(ObjectKey),
}

impl RouteParent {
    /// `None`: it is of a kind that Weir does not know.
    pub(crate) fn new(parent: &ParentReference, namespace: &str) -> Option<Self> {
        if parent.group.as_deref().is_some_and(|group| group != GROUP) {
            return None;
        }
        let key = ObjectKey::new(parent.namespace.as_deref().unwrap_or(namespace), &parent.name);
        match parent.kind.as_deref() {
            None | Some(Gateway::KIND) => Some(Self::Gateway(key)),
            Some(ListenerSet::KIND) => Some(Self::Set(key)),
            Some(_) => None,
        }
    }

    /// The Gateway by its place among ours, and the set by its place in it.
    fn find(&self, plans: &[GatewayPlan]) -> Option<(usize, Option<usize>)> {
        match self {
            Self::Gateway(key) => plans.iter().position(|plan| plan.key == *key).map(|place| (place, None)),
            Self::Set(key) => plans.iter().enumerate().find_map(|(place, plan)| {
                Some((place, Some(plan.sets.iter().position(|set| set.key == *key)?)))
            }),
        }
    }
}

pub(crate) fn attach(route: &CompiledRoute, plans: &[GatewayPlan], store: &ObjectStore) -> Vec<Attachment> {
    let mut attachments = Vec::new();
    for (parent, reference) in route.parents.iter().enumerate() {
        let Some(named) = RouteParent::new(reference, &route.key.namespace) else { continue };
        let Some((gateway, set)) = named.find(plans) else { continue };
        let verdict = match &route.accepted {
            Ok(()) => attach_one(route, reference, (&plans[gateway], set), store),
            Err(refusal) => Err(refusal.clone()),
        };
        attachments.push(Attachment { parent, gateway, verdict, rival: None });
    }
    // Kept for each route.
    attachments.shrink_to_fit();
    attachments
}

fn attach_one(
    route: &CompiledRoute,
    reference: &ParentReference,
    (plan, set): (&GatewayPlan, Option<usize>),
    store: &ObjectStore,
) -> Result<Vec<AttachedListener>, Refusal> {
    let is_named = |listener: &GatewayListenerPlan| {
        reference.section_name.as_deref().is_none_or(|section| section == &*listener.name)
            && reference.port.is_none_or(|port| u16::try_from(port) == Ok(listener.port))
    };
    let named: Vec<_> = plan.listeners_of(set).filter(|(_, listener)| is_named(listener)).collect();
    if named.is_empty() {
        let owner = if set.is_some() { "ListenerSet" } else { "Gateway" };
        let message = format!("the {owner} has no listener with this name and port");
        return Err(Refusal::new("NoMatchingParent", message));
    }
    let allowed: Vec<_> = (named.iter())
        .filter(|(_, listener)| listener.kinds.contains(&route.kind) && is_allowed(listener, route, store))
        .collect();
    if allowed.is_empty() {
        let message =
            format!("no listener allows a {} of the namespace `{}`", route.kind.name(), route.key.namespace);
        return Err(Refusal::new("NotAllowedByListeners", message));
    }
    let mut attached: Vec<AttachedListener> = (allowed.iter())
        .filter_map(|(index, listener)| {
            let same_port =
                plan.listeners.iter().filter(|other| other.port == listener.port && other.holds_hosts());
            let others: Vec<&str> = same_port.map(|other| &*other.hostname).collect();
            let hosts = in_common(&listener.hostname, &route.hostnames, &others);
            (!hosts.is_empty()).then_some(AttachedListener { listener: *index, hosts })
        })
        .collect();
    if attached.is_empty() {
        let message = "no listener that allows the route is for one of its hostnames";
        return Err(Refusal::new("NoMatchingListenerHostname", message));
    }
    attached.shrink_to_fit();
    Ok(attached)
}

fn is_allowed(listener: &GatewayListenerPlan, route: &CompiledRoute, store: &ObjectStore) -> bool {
    let rule: Option<&NamespaceRule> = listener.namespaces.as_ref();
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
        None | Some("Same") => route.key.namespace == listener.namespace,
        Some(_) => false,
    }
}
