//! What the controller knows of the cluster, and which Gateways an event concerns. Pure.
//!
//! Of the objects that it has made it keeps a fingerprint only: a change of it, by another hand, is mended by applying the object again. What
//! it has applied itself comes back as an event too; the API server does not change an object that is applied as it is, so that it ends there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::core::ObjectMeta;
use weir_gateway::api::{Gateway, GatewayClass, ListenerSet, SharedText};
use weir_gateway::{ObjectKey, gateway_of_set};

use super::names;
use super::objects::OwnedKind;
use super::request::{CONTROLLER_ANNOTATION, GatewayPods};

/// A Gateway as the API server has it.
#[derive(Debug, Clone)]
pub(crate) struct KnownGateway {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) uid: String,
    /// It is being deleted.
    pub(crate) is_ending: bool,
}

/// What has happened.
#[derive(Debug)]
pub(crate) enum ClusterEvent {
    Class(Arc<GatewayClass>),
    ClassGone(ObjectKey),
    Gateway(ObjectKey, KnownGateway),
    GatewayGone(ObjectKey),
    ListenerSet(Arc<ListenerSet>),
    ListenerSetGone(ObjectKey),
    /// A ConfigMap that may hold parameters has changed, or is gone.
    Parameters(ObjectKey),
    Owned(OwnedKind, ObjectKey, OwnedMark),
    OwnedGone(OwnedKind, ObjectKey),
    /// The binding of accounts has changed, by whatever hand, or is gone.
    Binding,
    /// All that a watch lists at its beginning has come.
    Listed(WatchedList),
}

/// What is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WatchedList {
    Classes,
    Gateways,
    ListenerSets,
    Parameters,
    Binding,
    Owned(OwnedKind),
}

impl WatchedList {
    /// How many lists there are beside those of owned objects.
    const OTHERS: usize = 5;
}

/// What is kept of an object that the controller has made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OwnedMark {
    /// The name of the Gateway that owns it.
    pub(crate) gateway: Option<Box<str>>,
    /// The uid of its owner.
    pub(crate) owner: Option<Box<str>>,
    /// The `controllerName` of the controller that has made it; `None`: a version of Weir without this annotation.
    controller: Option<Box<str>>,
    fingerprint: String,
}

impl OwnedMark {
    /// Of an object with this metadata. A Deployment counts its generations, which its status does not change; others have versions only.
    pub(crate) fn new(meta: &ObjectMeta) -> Self {
        let owner = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
        let owner = owner.filter(|owner| owner.kind == Gateway::KIND);
        let version = match meta.generation {
            Some(generation) => format!("generation {generation}"),
            None => format!("version {}", meta.resource_version.as_deref().unwrap_or_default()),
        };
        // Annotations by others are theirs; the ones that are applied are mended with the next change.
        let fingerprint = format!("{version} {:?} {:?}", meta.labels, meta.deletion_timestamp.is_some());
        Self {
            gateway: owner.map(|owner| owner.name.as_str().into()),
            owner: owner.map(|owner| owner.uid.as_str().into()),
            controller: meta
                .annotations
                .as_ref()
                .and_then(|texts| texts.get(CONTROLLER_ANNOTATION))
                .map(|name| name.as_str().into()),
            fingerprint,
        }
    }
}

/// What the controller knows, and what it has to do.
#[derive(Debug, Default)]
pub(crate) struct KnownCluster {
    controller_name: SharedText,
    pub(crate) classes: BTreeMap<ObjectKey, Arc<GatewayClass>>,
    pub(crate) gateways: BTreeMap<ObjectKey, KnownGateway>,
    sets: BTreeMap<ObjectKey, Arc<ListenerSet>>,
    owned: BTreeMap<(OwnedKind, ObjectKey), OwnedMark>,
    listed: BTreeSet<WatchedList>,
    /// How many lists there are.
    lists: usize,
    /// Gateways whose objects have to be compared.
    pub(crate) due_gateways: BTreeSet<ObjectKey>,
    /// Classes whose statuses have to be compared.
    pub(crate) due_classes: BTreeSet<ObjectKey>,
    /// The accounts of all Gateways may be others than before.
    pub(crate) are_accounts_due: bool,
}

impl KnownCluster {
    pub(crate) fn new(pods: &GatewayPods) -> Self {
        let controller_name = pods.controller_name.clone();
        let lists = OwnedKind::made(pods).count() + WatchedList::OTHERS;
        Self { controller_name, lists, are_accounts_due: true, ..Self::default() }
    }

    /// Whether everything that is watched has been listed: before that, nothing may be judged.
    pub(crate) fn is_listed(&self) -> bool {
        self.listed.len() == self.lists
    }

    /// Whether a class is that of this controller.
    fn is_ours(&self, class: &str) -> bool {
        let class = self.classes.get(&ObjectKey::new("", class));
        class.is_some_and(|class| class.spec.controller_name == self.controller_name)
    }

    /// A Gateway that is to have objects.
    pub(crate) fn served(&self, key: &ObjectKey) -> Option<&KnownGateway> {
        let known = self.gateways.get(key)?;
        (!known.is_ending && self.is_ours(&known.gateway.spec.gateway_class_name)).then_some(known)
    }

    /// All Gateways that are to have objects.
    pub(crate) fn all_served(&self) -> impl Iterator<Item = &KnownGateway> {
        self.gateways.keys().filter_map(|key| self.served(key))
    }

    /// What is known of an object that the controller has made.
    pub(crate) fn mark(&self, kind: OwnedKind, key: &ObjectKey) -> Option<&OwnedMark> {
        self.owned.get(&(kind, key.clone()))
    }

    /// What this controller has made for a Gateway that is not to have it any more: its class is that of another controller, or it names
    /// another class than before. In the order in which it is to be removed.
    ///
    /// Objects of a Gateway whose class is absent are not left: a class can come back, as when the chart is installed anew.
    pub(crate) fn left(&self, gateway: &ObjectKey) -> Vec<(OwnedKind, ObjectKey)> {
        let Some(known) = self.gateways.get(gateway).filter(|known| !known.is_ending) else {
            return Vec::new();
        };
        let class = &known.gateway.spec.gateway_class_name;
        let wanted = names::of_objects(&gateway.name, class);
        let class = self.classes.get(&ObjectKey::new("", class));
        let has_left = class.is_some_and(|class| class.spec.controller_name != self.controller_name);
        let is_left = |key: &ObjectKey, mark: &OwnedMark| {
            mark.owner.as_deref() == Some(&*known.uid)
                && mark.controller.as_deref() == Some(&*self.controller_name)
                && (has_left || *key.name != *wanted)
        };
        let start = ObjectKey::new(&gateway.namespace, "");
        let of_kind = |kind| {
            self.owned
                .range((kind, start.clone())..)
                .take_while(move |((other, key), _)| *other == kind && key.namespace == gateway.namespace)
        };
        let left = OwnedKind::ALL.into_iter().rev().flat_map(of_kind);
        left.filter(|((_, key), mark)| is_left(key, mark)).map(|(object, _)| object.clone()).collect()
    }

    /// Takes an event, and notes what it concerns.
    pub(crate) fn take(&mut self, event: ClusterEvent) {
        match event {
            ClusterEvent::Class(class) => {
                let key = ObjectKey::from_object_meta(&class.metadata);
                let before = self.classes.insert(key.clone(), Arc::clone(&class));
                if before.is_none_or(|before| before.spec != class.spec) {
                    self.note_users_of_class(&key);
                }
                if class.spec.controller_name == self.controller_name {
                    self.due_classes.insert(key);
                }
            }
            ClusterEvent::ClassGone(key) => {
                self.classes.remove(&key);
                self.note_users_of_class(&key);
            }
            ClusterEvent::Gateway(key, known) => {
                let before = self.gateways.insert(key.clone(), known.clone());
                let is_same = before.is_some_and(|before| {
                    before.uid == known.uid
                        && before.gateway.spec == known.gateway.spec
                        && before.is_ending == known.is_ending
                });
                if !is_same {
                    self.are_accounts_due = true;
                    self.due_gateways.insert(key);
                }
            }
            ClusterEvent::GatewayGone(key) => {
                self.gateways.remove(&key);
                self.are_accounts_due = true;
            }
            ClusterEvent::ListenerSet(set) => {
                let key = ObjectKey::from_object_meta(&set.metadata);
                let before = self.sets.insert(key, Arc::clone(&set));
                self.note_gateway_of(before.as_deref(), Some(&*set));
            }
            ClusterEvent::ListenerSetGone(key) => {
                let before = self.sets.remove(&key);
                self.note_gateway_of(before.as_deref(), None);
            }
            ClusterEvent::Parameters(key) => {
                let refers = |known: &KnownGateway| {
                    let wanted = known.gateway.spec.infrastructure.as_deref();
                    wanted
                        .and_then(|wanted| wanted.parameters_ref.as_deref())
                        .is_some_and(|parameters| parameters.name == key.name)
                };
                let users = self
                    .gateways
                    .iter()
                    .filter(|(gateway, known)| gateway.namespace == key.namespace && refers(known));
                self.due_gateways.extend(users.map(|(gateway, _)| gateway.clone()));
            }
            ClusterEvent::Owned(kind, key, mark) => {
                let gateway = mark.gateway.clone();
                let before = self.owned.insert((kind, key.clone()), mark.clone());
                if before.is_none_or(|before| before != mark) {
                    self.due_gateways.extend(gateway.map(|gateway| ObjectKey::new(&key.namespace, &gateway)));
                }
            }
            ClusterEvent::OwnedGone(kind, key) => {
                let gateway = self.owned.remove(&(kind, key.clone())).and_then(|mark| mark.gateway);
                self.due_gateways.extend(gateway.map(|gateway| ObjectKey::new(&key.namespace, &gateway)));
            }
            ClusterEvent::Binding => self.are_accounts_due = true,
            ClusterEvent::Listed(list) => drop(self.listed.insert(list)),
        }
    }

    /// Has everything compared anew.
    pub(crate) fn note_all(&mut self) {
        self.are_accounts_due = true;
        self.due_gateways.extend(self.gateways.keys().cloned());
        let ours =
            self.classes.iter().filter(|(_, class)| class.spec.controller_name == self.controller_name);
        self.due_classes.extend(ours.map(|(key, _)| key.clone()));
    }

    /// Notes the Gateways whose sets have other ports than before.
    fn note_gateway_of(&mut self, before: Option<&ListenerSet>, after: Option<&ListenerSet>) {
        let ports =
            |set: Option<&ListenerSet>| set.and_then(|set| Some((gateway_of_set(set)?, ports_of(set))));
        let (before, after) = (ports(before), ports(after));
        if before != after {
            self.due_gateways.extend(before.into_iter().chain(after).map(|(gateway, _)| gateway));
        }
    }

    /// The ports of the sets of a Gateway that its pods have accepted: they know whether the Gateway allows a set.
    pub(crate) fn ports_of_sets(&self, gateway: &ObjectKey) -> BTreeMap<u16, SharedText> {
        let sets = self.sets.values().filter(|set| gateway_of_set(set).as_ref() == Some(gateway));
        sets.flat_map(|set| ports_of(set)).collect()
    }

    fn note_users_of_class(&mut self, class: &ObjectKey) {
        self.are_accounts_due = true;
        let users =
            self.gateways.iter().filter(|(_, known)| known.gateway.spec.gateway_class_name == class.name);
        self.due_gateways.extend(users.map(|(gateway, _)| gateway.clone()));
    }
}

/// The ports of a set, with their protocols; none before it was accepted.
fn ports_of(set: &ListenerSet) -> Vec<(u16, SharedText)> {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    let is_accepted =
        { conditions }.any(|condition| *condition.r#type == *"Accepted" && *condition.status == *"True");
    let listeners = set.spec.listeners.iter().filter(|_| is_accepted);
    let port = |number: i32| u16::try_from(number).ok().filter(|number| *number > 0);
    listeners.filter_map(|listener| Some((port(listener.port)?, listener.protocol.clone()))).collect()
}

#[cfg(test)]
#[path = "known_tests.rs"]
mod tests;
