//! Watches of the API server: one for each kind and namespace, whose events go to one channel.
//!
//! A watch that breaks begins again where it was; one that is too old for that (410) lists anew, and what the list does not name is gone.
//! While the API server does not answer, nothing is forgotten.

use std::collections::HashSet;
use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::api::ListParams;
use kube::runtime::watcher::{self, Error as WatchError, Event};
use kube::{Api, Client, Error as ClientError};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use weir_gateway::{KubernetesObject, ObjectKey, ObjectKind};
use weir_tasks::OwnedTask;

use crate::backoff::WatchBackoff;
use crate::watched::{KindVisitor, Watched, WatchedKind, WatchedVersion, for_each_kind, versions_of};

/// Objects of one page of a list.
const PAGE_SIZE: u32 = 500;

/// Seconds after which a watch is renewed: a connection that died in silence is noticed 5 s later.
const WATCH_SECONDS: u32 = 60;

/// Events that wait for their translation; beyond that, watches wait.
const EVENTS_MAX: usize = 4096;

/// Why a watch says nothing after a panic.
const WATCH_PANICKED: &str =
    "the task that watches them has ended by a defect of Weir and is begun anew after a pause: see the log";

/// Between two looks for a kind that the API server does not know.
const ABSENT_PAUSE: Duration = Duration::from_secs(5);

/// Between two looks whether the API server answers again, and how long one may take.
const PROBE_PAUSE: Duration = Duration::from_secs(1);
const PROBE_TIME: Duration = Duration::from_secs(5);

/// The number of a watch.
pub(crate) type WatchIndex = usize;

/// What a watch watches.
#[derive(Debug, Clone)]
pub(crate) struct WatchScope {
    /// The kind.
    pub(crate) kind: ObjectKind,
    /// The namespace; `None`: the whole cluster.
    pub(crate) namespace: Option<Box<str>>,
}

/// What a watch reports.
#[derive(Debug)]
pub(crate) enum ObjectMessage {
    /// The latest form of an object.
    Upsert(KubernetesObject),
    /// An object is gone.
    Delete(ObjectKind, ObjectKey),
    /// A list is complete: all other objects of the scope are gone.
    Listed(WatchIndex, HashSet<ObjectKey>),
    /// The API server does not know the kind.
    Absent(WatchIndex),
    /// The API server does not answer as it should, for this reason.
    Failed(WatchIndex, String),
    /// It answers again.
    Alive(WatchIndex),
}

/// Which kinds are watched, beside those that all need.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchedApis {
    /// Those of the Gateway API.
    pub(crate) gateways: bool,
    /// Ingresses, their classes and the Secrets that only they use.
    pub(crate) ingresses: bool,
}

impl WatchedApis {
    fn has(self, kind: ObjectKind) -> bool {
        match kind {
            ObjectKind::Ingress | ObjectKind::IngressClass | ObjectKind::OpaqueSecret => self.ingresses,
            ObjectKind::GatewayClass
            | ObjectKind::Gateway
            | ObjectKind::ListenerSet
            | ObjectKind::HttpRoute
            | ObjectKind::GrpcRoute
            | ObjectKind::TlsRoute
            | ObjectKind::TcpRoute
            | ObjectKind::BackendTlsPolicy
            | ObjectKind::Namespace => self.gateways,
            ObjectKind::ReferenceGrant
            | ObjectKind::Service
            | ObjectKind::EndpointSlice
            | ObjectKind::Secret
            | ObjectKind::ConfigMap => true,
        }
    }
}

/// What is watched, and where. Secrets may be read in fewer namespaces than other objects; an empty list stands for all.
pub(crate) struct WatchSettings {
    pub(crate) client: Client,
    pub(crate) apis: WatchedApis,
    pub(crate) namespaces: Vec<Box<str>>,
    pub(crate) secrets_namespaces: Vec<Box<str>>,
}

impl WatchSettings {
    /// Starts all watches on the event loop of this thread.
    pub(crate) fn start(&self) -> ObjectWatches {
        let (messages, events) = channel(EVENTS_MAX);
        let mut starter =
            WatchStarter { settings: self, messages: &messages, scopes: Vec::new(), tasks: Vec::new() };
        for_each_kind(&mut starter);
        ObjectWatches { scopes: starter.scopes, events, _tasks: starter.tasks }
    }
}

/// The watches that run; they end when this is dropped.
pub(crate) struct ObjectWatches {
    /// What they watch, by their numbers.
    pub(crate) scopes: Vec<WatchScope>,
    pub(crate) events: Receiver<ObjectMessage>,
    _tasks: Vec<OwnedTask>,
}

struct WatchStarter<'a> {
    settings: &'a WatchSettings,
    messages: &'a Sender<ObjectMessage>,
    scopes: Vec<WatchScope>,
    tasks: Vec<OwnedTask>,
}

impl KindVisitor for WatchStarter<'_> {
    fn visit<T: WatchedKind>(&mut self) {
        let WatchSettings { apis, namespaces, secrets_namespaces, .. } = self.settings;
        if !apis.has(T::KIND) {
            return;
        }
        let is_secret = matches!(T::KIND, ObjectKind::Secret | ObjectKind::OpaqueSecret);
        let namespaces =
            if is_secret && !secrets_namespaces.is_empty() { secrets_namespaces } else { namespaces };
        if !T::IS_NAMESPACED || namespaces.is_empty() {
            self.begin::<T>(None);
            return;
        }
        for namespace in namespaces {
            self.begin::<T>(Some(namespace.clone()));
        }
    }
}

impl WatchStarter<'_> {
    fn begin<T: WatchedKind>(&mut self, namespace: Option<Box<str>>) {
        let client = self.settings.client.clone();
        let (index, messages) = (self.scopes.len(), self.messages.clone());
        self.scopes.push(WatchScope { kind: T::KIND, namespace: namespace.clone() });
        let api = move |version: WatchedVersion| -> Api<Watched<T>> {
            match &namespace {
                None => Api::all_with(client.clone(), &version),
                Some(namespace) => Api::namespaced_with(client.clone(), namespace, &version),
            }
        };
        let reports = messages.clone();
        // With a full channel there is news enough.
        let tell = move || {
            drop(reports.try_send(ObjectMessage::Failed(index, WATCH_PANICKED.to_owned())));
        };
        let mut is_anew = false;
        let make = move || watch(api.clone(), index, messages.clone(), std::mem::replace(&mut is_anew, true));
        let kept = weir_tasks::keep_telling("a watch of the API server", make, tell);
        self.tasks.push(tokio::spawn(kept).into());
    }
}

/// Watches until there is no receiver any more, in the newest version that the API server knows. Begun anew after a panic it lists anew, and
/// was failing until then.
async fn watch<T: WatchedKind>(
    api: impl Fn(WatchedVersion) -> Api<Watched<T>>,
    index: WatchIndex,
    messages: Sender<ObjectMessage>,
    is_failing: bool,
) {
    let mut state = WatchingState { index, messages, is_failing, backoff: WatchBackoff::default() };
    loop {
        for version in versions_of(T::KIND) {
            let Some(UnknownVersion) = state.follow::<T>(api(WatchedVersion(version))).await else { return };
        }
        state.is_failing = true;
        if state.messages.send(ObjectMessage::Absent(index)).await.is_err() {
            return;
        }
        tokio::time::sleep(ABSENT_PAUSE).await;
    }
}

/// The API server does not know a kind in a version.
struct UnknownVersion;

/// A watch, whatever version it is in.
struct WatchingState {
    index: WatchIndex,
    messages: Sender<ObjectMessage>,
    is_failing: bool,
    backoff: WatchBackoff,
}

impl WatchingState {
    /// Watches in one version; `None`: there is no receiver any more.
    async fn follow<T: WatchedKind>(&mut self, api: Api<Watched<T>>) -> Option<UnknownVersion> {
        let mut config = watcher::Config::default().page_size(PAGE_SIZE).timeout(WATCH_SECONDS);
        if let Some(fields) = T::FIELDS {
            config = config.fields(fields);
        }
        let mut events = pin!(watcher::watcher(api.clone(), config));
        let mut listed = HashSet::new();
        loop {
            let event = tokio::select! {
                event = events.next() => event?,
                // A watch that begins again says nothing as long as nothing changes.
                () = answers(&api), if self.is_failing => {
                    self.tell_alive().await?;
                    continue;
                }
            };
            let message = match event {
                Ok(Event::Init) => {
                    listed.clear();
                    // The beginning of a list says nothing yet.
                    continue;
                }
                Ok(Event::InitApply(watched)) => {
                    let object = watched.object.into();
                    listed.insert(object.key());
                    ObjectMessage::Upsert(object)
                }
                Ok(Event::InitDone) => ObjectMessage::Listed(self.index, std::mem::take(&mut listed)),
                Ok(Event::Apply(watched)) => ObjectMessage::Upsert(watched.object.into()),
                Ok(Event::Delete(watched)) => {
                    ObjectMessage::Delete(T::KIND, ObjectKey::from_object_meta(watched.object.metadata()))
                }
                Err(error) if is_absent(&error) => return Some(UnknownVersion),
                Err(error) if is_outdated(&error) => continue,
                Err(error) => {
                    self.is_failing = true;
                    self.messages.send(ObjectMessage::Failed(self.index, why(&error))).await.ok()?;
                    tokio::time::sleep(self.backoff.next()).await;
                    continue;
                }
            };
            if self.is_failing {
                self.tell_alive().await?;
            }
            self.messages.send(message).await.ok()?;
        }
    }

    async fn tell_alive(&mut self) -> Option<()> {
        (self.is_failing, self.backoff) = (false, WatchBackoff::default());
        self.messages.send(ObjectMessage::Alive(self.index)).await.ok()
    }
}

/// Waits until the API server answers.
async fn answers<T: WatchedKind>(api: &Api<Watched<T>>) {
    let one = ListParams::default().limit(1);
    loop {
        tokio::time::sleep(PROBE_PAUSE).await;
        if let Ok(Ok(_)) = tokio::time::timeout(PROBE_TIME, api.list(&one)).await {
            return;
        }
    }
}

fn is_absent(error: &WatchError) -> bool {
    matches!(error, WatchError::InitialListFailed(ClientError::Api(status)) if status.code == 404)
}

/// Whether the watch was behind by more than the API server remembers: the list that follows is the answer to that.
fn is_outdated(error: &WatchError) -> bool {
    matches!(error, WatchError::WatchError(status) if status.code == 410)
}

/// The error with its causes.
fn why(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text.push_str(": ");
            text.push_str(&next);
        }
        cause = error.source();
    }
    text
}
