//! What is taken back from Gateways and ListenerSets that are of no class of this controller any more: addresses, listeners and conditions.
//!
//! The fields of a status that this controller alone has written are its own, by the managed fields of the object, also after a restart.
//! What another one has written stays as it is.

use super::options::settings::GatewaySettings;
use crate::api::{Condition, Gateway, GatewayStatus, ListenerSet, ListenerSetStatus, StatusOwners};
use crate::listeners::{gateway_of_set, has_our_class};
use crate::status::{ObjectStatus, StatusUpdate};
use crate::store::{ObjectKey, ObjectKind, ObjectStore};

/// The statuses of such objects, as far as they still have something of this controller. Only the process of a Gateway knows of it.
pub(crate) fn of_objects(store: &ObjectStore, settings: &GatewaySettings) -> Vec<StatusUpdate> {
    let manager = settings.field_manager(ObjectKind::Gateway);
    let has_left = |key: &ObjectKey| {
        let gateway = store.gateways.get(key);
        gateway.is_some_and(|gateway| !has_our_class(gateway, store, settings))
    };
    let is_served = |key: &ObjectKey| settings.served.as_ref().is_none_or(|served| *served == *key);
    let gateways = store.gateways.iter().filter(|(key, _)| is_served(key) && has_left(key));
    let gateways = gateways.filter_map(|(key, gateway)| {
        let status = ObjectStatus::Gateway(of_gateway(gateway, &manager)?);
        Some(StatusUpdate::new(ObjectKind::Gateway, key, status))
    });
    let sets = store.listener_sets.iter();
    let sets = sets.filter(|(_, set)| gateway_of_set(set).is_some_and(|gateway| has_left(&gateway)));
    let sets = sets.filter_map(|(key, set)| {
        let status = ObjectStatus::ListenerSet(of_set(set, &manager)?);
        Some(StatusUpdate::new(ObjectKind::ListenerSet, key, status))
    });
    gateways.chain(sets).collect()
}

/// `None`: it has nothing of this controller.
fn of_gateway(gateway: &Gateway, manager: &str) -> Option<GatewayStatus> {
    let present = gateway.status.as_deref()?;
    let owners = &gateway.metadata.status_owners;
    let mut status = present.clone();
    if owners.is_only(manager, "addresses") {
        status.addresses = Box::default();
    }
    if owners.is_only(manager, "attachedListenerSets") {
        status.attached_listener_sets = None;
    }
    if owners.is_only(manager, "listeners") {
        status.listeners = Box::default();
    }
    withdraw(&mut status.conditions, owners, manager);
    (status != *present).then_some(status)
}

/// `None`: it has nothing of this controller.
fn of_set(set: &ListenerSet, manager: &str) -> Option<ListenerSetStatus> {
    let present = set.status.as_deref()?;
    let owners = &set.metadata.status_owners;
    let mut status = present.clone();
    if owners.is_only(manager, "listeners") {
        status.listeners = Box::default();
    }
    withdraw(&mut status.conditions, owners, manager);
    (status != *present).then_some(status)
}

/// In the place of conditions that are removed, the API server says that the object waits for a controller.
fn withdraw(conditions: &mut Box<[Condition]>, owners: &StatusOwners, manager: &str) {
    let is_waiting = |one: &Condition| *one.status == *"Unknown" && *one.reason == *"Pending";
    if owners.is_only(manager, "conditions") && !conditions.iter().all(is_waiting) {
        *conditions = Box::default();
    }
}
