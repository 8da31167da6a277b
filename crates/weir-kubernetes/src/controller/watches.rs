//! The watches of the controller, as one stream of events.
//!
//! Of ConfigMaps and of the objects that it makes only the metadata are read. A watch that starts anew lists everything; what its list does
//! not name any more is reported as gone.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::stream::{BoxStream, select_all};
use futures_util::{Stream, StreamExt as _};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, PartialObjectMeta};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt as _, watcher as watch};
use kube::{Api, Client, Resource};
use weir_gateway::ObjectKey;
use weir_gateway::api::{GROUP, Gateway, GatewayClass, ListenerSet};

use super::ControllerSettings;
use super::known::{ClusterEvent, KnownGateway, OwnedMark, WatchedList};
use super::objects::OwnedKind;
use super::request::{MANAGER, MANAGER_LABEL};

/// What a stream yields: an event, or why a watch does not work at the moment.
pub(crate) type WatchedEvent = Result<ClusterEvent, String>;

/// The names of a kind for a client that does not know its type.
pub(crate) fn resource([group, version, kind, plural]: [&str; 4]) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

pub(crate) fn gateway_resource() -> ApiResource {
    resource([GROUP, Gateway::VERSION, Gateway::KIND, Gateway::PLURAL])
}

pub(crate) fn class_resource() -> ApiResource {
    resource([GROUP, GatewayClass::VERSION, GatewayClass::KIND, GatewayClass::PLURAL])
}

fn set_resource() -> ApiResource {
    resource([GROUP, ListenerSet::VERSION, ListenerSet::KIND, ListenerSet::PLURAL])
}

pub(crate) fn binding_resource() -> ApiResource {
    resource(["rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings"])
}

/// All of them.
pub(crate) fn all(
    client: &Client,
    settings: &ControllerSettings,
) -> impl Stream<Item = WatchedEvent> + use<> {
    let api = |resource: &ApiResource| Api::<DynamicObject>::all_with(client.clone(), resource);
    let metadata =
        |resource: &ApiResource| Api::<PartialObjectMeta<DynamicObject>>::all_with(client.clone(), resource);
    let config = watcher::Config::default;
    let mut streams = vec![
        events(watch(api(&class_resource()), config()), WatchedList::Classes, class, ClusterEvent::ClassGone),
        events(
            watch(api(&gateway_resource()), config()),
            WatchedList::Gateways,
            gateway,
            ClusterEvent::GatewayGone,
        ),
        events(
            watch(api(&set_resource()), config()),
            WatchedList::ListenerSets,
            |object| Ok(ClusterEvent::ListenerSet(Arc::new(typed(object)?))),
            ClusterEvent::ListenerSetGone,
        ),
        events(
            watch(metadata(&resource(OwnedKind::ConfigMap.names())), config()),
            WatchedList::Parameters,
            |object| Ok(ClusterEvent::Parameters(key_of(&object.metadata))),
            ClusterEvent::Parameters,
        ),
        events(
            watch(
                metadata(&binding_resource()),
                config().fields(&format!("metadata.name={}", settings.accounts_binding)),
            ),
            WatchedList::Binding,
            |_| Ok(ClusterEvent::Binding),
            |_| ClusterEvent::Binding,
        ),
    ];
    for kind in OwnedKind::made(&settings.pods) {
        let selected = config().labels(&format!("{MANAGER_LABEL}={MANAGER}"));
        streams.push(events(
            watch(metadata(&resource(kind.names())), selected),
            WatchedList::Owned(kind),
            move |object| {
                Ok(ClusterEvent::Owned(kind, key_of(&object.metadata), OwnedMark::new(&object.metadata)))
            },
            move |key| ClusterEvent::OwnedGone(kind, key),
        ));
    }
    select_all(streams)
}

/// The events of one watch: `present` reads an object that is there, `gone` names one that is not any more.
fn events<K: Resource + Send + 'static>(
    source: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    list: WatchedList,
    present: impl Fn(&K) -> WatchedEvent + Send + 'static,
    gone: impl Fn(ObjectKey) -> ClusterEvent + Send + 'static,
) -> BoxStream<'static, WatchedEvent> {
    let mut known: HashSet<ObjectKey> = HashSet::new();
    let mut listed: HashSet<ObjectKey> = HashSet::new();
    // What was said last of a watch that does not work: it is tried again and again.
    let mut told: Option<String> = None;
    let translated = source.default_backoff().map(move |event| match event {
        Ok(Event::Init) => {
            listed.clear();
            Vec::new()
        }
        Ok(Event::InitApply(object)) => {
            listed.insert(key_of(object.meta()));
            vec![present(&object)]
        }
        Ok(Event::InitDone) => {
            told = None;
            let before = std::mem::replace(&mut known, std::mem::take(&mut listed));
            let absent = before.into_iter().filter(|key| !known.contains(key)).map(|key| Ok(gone(key)));
            absent.chain([Ok(ClusterEvent::Listed(list))]).collect()
        }
        Ok(Event::Apply(object)) => {
            known.insert(key_of(object.meta()));
            vec![present(&object)]
        }
        Ok(Event::Delete(object)) => {
            let key = key_of(object.meta());
            known.remove(&key);
            vec![Ok(gone(key))]
        }
        Err(error) => {
            let why = format!("the watch of {list:?} does not work: {error}");
            let failed = (told.as_ref() != Some(&why)).then(|| Err(why.clone()));
            told = Some(why);
            // Clusters with older definitions have no sets, and an older role does not permit to read the binding: Gateways do not wait for them.
            let is_optional = matches!(list, WatchedList::ListenerSets | WatchedList::Binding);
            failed.into_iter().chain(is_optional.then_some(Ok(ClusterEvent::Listed(list)))).collect()
        }
    });
    translated.flat_map(futures_util::stream::iter).boxed()
}

pub(crate) fn key_of(meta: &ObjectMeta) -> ObjectKey {
    let text = |part: &Option<String>| part.as_deref().unwrap_or_default().to_owned();
    ObjectKey::new(&text(&meta.namespace), &text(&meta.name))
}

fn class(object: &DynamicObject) -> WatchedEvent {
    Ok(ClusterEvent::Class(Arc::new(typed(object)?)))
}

fn gateway(object: &DynamicObject) -> WatchedEvent {
    let known = KnownGateway {
        gateway: Arc::new(typed(object)?),
        uid: object.metadata.uid.clone().unwrap_or_default(),
        is_ending: object.metadata.deletion_timestamp.is_some(),
    };
    Ok(ClusterEvent::Gateway(key_of(&object.metadata), known))
}

fn typed<T: serde::de::DeserializeOwned>(object: &DynamicObject) -> Result<T, String> {
    let value = serde_json::to_value(object).map_err(|error| error.to_string())?;
    serde_json::from_value(value).map_err(|error| format!("{}: {error}", key_of(&object.metadata)))
}
