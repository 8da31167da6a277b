//! Writes statuses, if this process is the leader.
//!
//! A write names the version of the object with which its status was compared. If the object has changed since, the API server refuses the write
//! (409), and the next translation compares anew: no entry of another controller can be lost. Of several statuses of one object the last is
//! written, writes have a highest rate, and nothing waits for them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, Error as ClientError};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinSet;
use tokio::time::Instant;
use weir_gateway::{ObjectKey, ObjectKind, StatusUpdate};
use weir_tasks::RestartPauses;

use crate::backoff::WatchBackoff;
use crate::ingress_events::IngressEvent;
use crate::status_fights::StatusFights;
use crate::watched::names_of;

/// Writes that are under way at once.
const WRITES_MAX: usize = 8;

/// Between the beginnings of two writes on the average: 1 000 per second.
const WRITE_PAUSE: Duration = Duration::from_millis(1);

/// What writes that came late may make up for.
const WRITE_DELAY_MAX: Duration = Duration::from_millis(10);

/// Between two attempts to write statuses that were refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(30);

/// The name of one write as a task.
const WRITE_TASK: &str = "the write of a status";

/// The name of the writer in the managed fields of Events.
const FIELD_MANAGER: &str = "weir";

/// What the writer is told.
#[derive(Debug)]
pub(crate) enum StatusMessage {
    /// Statuses to write.
    Write(Vec<StatusUpdate>),
    /// Events to write.
    Tell(Vec<IngressEvent>),
    /// Another process writes from now on.
    Forget,
}

/// Events that wait at most; further ones are dropped, and told again later.
const EVENTS_MAX: usize = 10_000;

type StatusQueue = BTreeMap<(ObjectKind, ObjectKey), StatusUpdate>;

/// How a write went.
enum WriteOutcome {
    /// The object has it.
    Written(StatusUpdate),
    /// The object has changed or is gone: a watch says so.
    Moot(StatusUpdate),
    /// An Event, written or not.
    Told,
    /// The API server did not answer, or is busy.
    Later(StatusUpdate, String),
    /// The API server does not permit or take it.
    Refused(StatusUpdate, String),
    /// By a defect of Weir it was not written.
    Panicked(StatusUpdate),
}

/// Statuses that the API server does not take: tried again, since a role may be changed, and said once for each kind of object.
#[derive(Debug)]
struct RefusedStatuses {
    statuses: StatusQueue,
    /// All that were refused when they were tried last, also those that are tried just now.
    places: BTreeSet<(ObjectKind, ObjectKey)>,
    retry_at: Instant,
}

impl Default for RefusedStatuses {
    fn default() -> Self {
        Self { statuses: StatusQueue::new(), places: BTreeSet::new(), retry_at: Instant::now() }
    }
}

impl RefusedStatuses {
    fn take(&mut self, update: StatusUpdate, why: &str) {
        let [_, _, kind, plural] = names_of(update.kind);
        let is_told = self.places.iter().any(|(kind, _)| *kind == update.kind);
        self.places.insert((update.kind, update.key.clone()));
        if !is_told {
            tracing::error!(
                kind,
                object = %update.key,
                why,
                "the API server refuses statuses of this kind, which are tried again: does the role of Weir permit `patch` of `{plural}/status`?"
            );
        }
        self.put_off(update, REFUSED_PAUSE);
    }

    /// It is tried again after the pause, or with those that are tried again already.
    fn put_off(&mut self, update: StatusUpdate, pause: Duration) {
        if self.statuses.is_empty() {
            self.retry_at = Instant::now() + pause;
        }
        self.statuses.insert((update.kind, update.key.clone()), update);
    }
}

/// Writes what it is told to. All of it outlives a panic, but for an Event in hand, which is told again later.
pub(crate) struct StatusWriter {
    client: Client,
    messages: UnboundedReceiver<StatusMessage>,
    queue: StatusQueue,
    events: VecDeque<IngressEvent>,
    writes: JoinSet<WriteOutcome>,
    backoff: WatchBackoff,
    refused: RefusedStatuses,
    fights: StatusFights,
    /// Statuses that wait since others change them again and again, and until when.
    paused: BTreeMap<(ObjectKind, ObjectKey), (Instant, StatusUpdate)>,
    next_write: Instant,
    pauses: RestartPauses,
}

impl StatusWriter {
    pub(crate) fn new(client: Client, messages: UnboundedReceiver<StatusMessage>) -> Self {
        Self {
            client,
            messages,
            queue: StatusQueue::new(),
            events: VecDeque::new(),
            writes: JoinSet::new(),
            backoff: WatchBackoff::default(),
            refused: RefusedStatuses::default(),
            fights: StatusFights::default(),
            paused: BTreeMap::new(),
            next_write: Instant::now(),
            pauses: RestartPauses::default(),
        }
    }

    /// Writes until there is no sender any more.
    pub(crate) async fn keep(self) {
        let writer = Mutex::new(self);
        weir_tasks::keep("the writer of statuses", || async { writer.lock().await.run().await }).await;
    }

    async fn run(&mut self) {
        loop {
            let paused_until = self.paused.values().map(|(until, _)| *until).min();
            let has_work = !(self.queue.is_empty() && self.events.is_empty());
            tokio::select! {
                biased;
                message = self.messages.recv() => match message {
                    Some(message) => self.take(message),
                    None => return,
                },
                Some(outcome) = self.writes.join_next() => match outcome {
                    Ok(outcome) => self.note(outcome).await,
                    Err(error) => tracing::error!(%error, "the write of an Event ended early"),
                },
                () = tokio::time::sleep_until(self.next_write), if has_work && self.writes.len() < WRITES_MAX => {
                    self.next_write = self.next_write.max(Instant::now() - WRITE_DELAY_MAX) + WRITE_PAUSE;
                    if let Some((place, update)) = self.queue.pop_first() {
                        self.refused.statuses.remove(&place);
                        match self.fights.pause(&update, Instant::now()) {
                            Some(until) => drop(self.paused.insert(place, (until, update))),
                            None => drop(self.writes.spawn(write(self.client.clone(), update))),
                        }
                    } else if let Some(event) = self.events.pop_front() {
                        self.writes.spawn(tell(self.client.clone(), event));
                    }
                }
                () = tokio::time::sleep_until(paused_until.unwrap_or(self.next_write)), if paused_until.is_some() => {
                    let now = Instant::now();
                    for (place, (until, update)) in std::mem::take(&mut self.paused) {
                        if until > now {
                            self.paused.insert(place, (until, update));
                        } else {
                            self.queue.entry(place).or_insert(update);
                        }
                    }
                }
                () = tokio::time::sleep_until(self.refused.retry_at), if !self.refused.statuses.is_empty() => {
                    for (place, update) in std::mem::take(&mut self.refused.statuses) {
                        self.queue.entry(place).or_insert(update);
                    }
                }
            }
        }
    }

    fn take(&mut self, message: StatusMessage) {
        match message {
            StatusMessage::Write(updates) => {
                updates
                    .iter()
                    .for_each(|update| drop(self.paused.remove(&(update.kind, update.key.clone()))));
                self.queue
                    .extend(updates.into_iter().map(|update| ((update.kind, update.key.clone()), update)));
            }
            StatusMessage::Tell(more) => {
                let room = EVENTS_MAX.saturating_sub(self.events.len());
                self.events.extend(more.into_iter().take(room));
            }
            StatusMessage::Forget => {
                self.queue.clear();
                self.refused.statuses.clear();
                self.refused.places.clear();
                self.paused.clear();
                self.events.clear();
            }
        }
    }

    async fn note(&mut self, outcome: WriteOutcome) {
        match outcome {
            WriteOutcome::Later(update, why) => {
                tracing::warn!(kind = names_of(update.kind)[2], object = %update.key, why, "a status could not be written yet");
                self.queue.entry((update.kind, update.key.clone())).or_insert(update);
                tokio::time::sleep(self.backoff.next()).await;
            }
            WriteOutcome::Refused(update, why) => self.refused.take(update, &why),
            WriteOutcome::Panicked(update) => {
                let pause = weir_tasks::note_restart(WRITE_TASK, &mut self.pauses);
                self.refused.put_off(update, pause);
            }
            WriteOutcome::Written(update) => {
                self.backoff = WatchBackoff::default();
                self.fights.note(&update, Instant::now());
                self.refused.places.remove(&(update.kind, update.key));
            }
            WriteOutcome::Moot(update) => {
                self.backoff = WatchBackoff::default();
                self.refused.places.remove(&(update.kind, update.key));
            }
            WriteOutcome::Told => self.backoff = WatchBackoff::default(),
        }
    }
}

/// Writes an Event. One that cannot be written is told again later.
async fn tell(client: Client, event: IngressEvent) -> WriteOutcome {
    let resource = ApiResource {
        group: String::new(),
        version: "v1".to_owned(),
        api_version: "v1".to_owned(),
        kind: "Event".to_owned(),
        plural: "events".to_owned(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client, &event.key.namespace, &resource);
    let parameters = PatchParams::apply(FIELD_MANAGER).force();
    if let Err(error) = api.patch(&event.key.name, &parameters, &Patch::Apply(&event.body)).await {
        tracing::warn!(event = %event.key, why = %error, "an Event about an Ingress could not be written: does the role of Weir permit `create` and `patch` of `events`?");
    }
    WriteOutcome::Told
}

async fn write(client: Client, update: StatusUpdate) -> WriteOutcome {
    let attempt = AssertUnwindSafe(attempt(client, &update)).catch_unwind().await;
    match attempt {
        Ok(Ok(_)) => WriteOutcome::Written(update),
        Ok(Err(ClientError::Api(status))) if matches!(status.code, 404 | 409) => WriteOutcome::Moot(update),
        Ok(Err(ClientError::Api(status))) if matches!(status.code, 400..=428 | 430..=499) => {
            WriteOutcome::Refused(update, status.message)
        }
        Ok(Err(error)) => WriteOutcome::Later(update, error.to_string()),
        Err(_panic) => WriteOutcome::Panicked(update),
    }
}

async fn attempt(client: Client, update: &StatusUpdate) -> Result<DynamicObject, ClientError> {
    weir_tasks::strike(WRITE_TASK);
    let [group, version, kind, plural] = names_of(update.kind);
    let api_version = format!("{group}/{version}");
    let resource = ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: api_version.clone(),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    };
    let api: Api<DynamicObject> = match &*update.key.namespace {
        "" => Api::all_with(client, &resource),
        namespace => Api::namespaced_with(client, namespace, &resource),
    };
    let body = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "resourceVersion": update.version.as_str() },
        "status": update.status.patch(),
    });
    let parameters =
        PatchParams { field_manager: Some(update.manager.to_string()), ..PatchParams::default() };
    api.patch_status(&update.key.name, &parameters, &Patch::Merge(&body)).await
}
