//! Changes of objects become changes of the proxy, in the order: watch, gather, translate, apply, write statuses.
//!
//! Nothing is translated before every kind was listed, so that a restart does not close what only is not known yet. A change after a pause is
//! translated at once, changes that come in close succession together. A status is written when the workers have what it says.

use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::sync::watch;
use tokio::time::Instant;
use weir_config::Config;
use weir_gateway::{GatewaySettings, ObjectKind, Translation, Translator};

use crate::application::ConfigApplication;
use crate::cluster_state::{ClusterState, SourceProgress};
use crate::completed_upstreams::CompletedUpstreams;
use crate::ingress_events::{IngressLog, events};
use crate::status_writer::StatusMessage;
use crate::unreadable::UnreadableObjects;
use crate::update::{KubernetesChange, UpdateSender};
use crate::watched::{names_of, versions_of};
use crate::watching::{ObjectMessage, ObjectWatches, WatchSettings};

/// How long changes are gathered after one that took effect: so many times as long as that took, within these bounds.
const GATHER_FACTOR: u32 = 4;
const GATHER_TIME_MIN: Duration = Duration::from_millis(2);
const GATHER_TIME_MAX: Duration = Duration::from_millis(10);

/// When Events about Ingresses are written again: the API server forgets one after an hour.
const EVENTS_PAUSE: Duration = Duration::from_secs(45 * 60);

/// What is done with events.
///
/// What it knows of objects is asked for anew after a panic, since nothing says how far it came with the last ones; what is in use outlives it.
pub(crate) struct ClusterLoop {
    watched: WatchSettings,
    gateway: GatewaySettings,
    watches: ObjectWatches,
    translator: Translator,
    servers: CompletedUpstreams,
    is_begun: bool,
    progress: SourceProgress,
    updates: UpdateSender,
    statuses: UnboundedSender<StatusMessage>,
    leads: watch::Receiver<bool>,
    ingress_log: IngressLog,
    unreadable: UnreadableObjects,
    /// Until when changes are gathered, since one has just taken effect.
    gather_until: Option<Instant>,
    /// When Events are written again.
    events_at: Instant,
    bases: UnboundedReceiver<Config>,
    applying: ConfigApplication,
}

impl ClusterLoop {
    pub(crate) fn new(
        watched: WatchSettings,
        gateway: GatewaySettings,
        updates: UpdateSender,
        statuses: UnboundedSender<StatusMessage>,
        leads: watch::Receiver<bool>,
        bases: UnboundedReceiver<Config>,
        state: ClusterState,
    ) -> Self {
        let watches = watched.start();
        let progress = SourceProgress::new(state, watches.scopes.len());
        Self {
            translator: Translator::new(gateway.clone()),
            servers: CompletedUpstreams::default(),
            watched,
            gateway,
            watches,
            is_begun: false,
            progress,
            updates,
            statuses,
            leads,
            ingress_log: IngressLog::default(),
            unreadable: UnreadableObjects::default(),
            gather_until: None,
            events_at: Instant::now() + EVENTS_PAUSE,
            bases,
            applying: ConfigApplication::default(),
        }
    }

    /// Runs until the watches end or there is no owner of the proxy any more.
    pub(crate) async fn run(&mut self) {
        if std::mem::replace(&mut self.is_begun, true) {
            self.begin_anew();
        }
        loop {
            let retry_at = self.applying.retry_at().unwrap_or_else(far_away);
            tokio::select! {
                message = self.watches.events.recv() => {
                    let Some(message) = message else { return };
                    self.take(message);
                    self.gather().await;
                }
                changed = self.leads.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.follow_leadership();
                }
                base = self.bases.recv() => {
                    let Some(base) = base else { return };
                    self.gateway.base.clone_from(&base);
                    self.translator.set_base(base);
                    self.applying.forget();
                }
                () = tokio::time::sleep_until(retry_at) => {}
                () = tokio::time::sleep_until(self.events_at) => {
                    self.events_at = Instant::now() + EVENTS_PAUSE;
                    self.translator.renew_reports();
                }
            }
            if self.progress.is_synchronised() && self.turn().await.is_none() {
                return;
            }
            self.tell_news();
        }
    }

    /// Has everything listed anew: the configuration in use stays until all of it is there, and is applied anew with it.
    fn begin_anew(&mut self) {
        self.translator.begin_anew(self.gateway.clone());
        self.servers = CompletedUpstreams::default();
        self.applying.forget();
        self.gather_until = None;
        self.watches = self.watched.start();
    }

    /// It has panicked, and is begun anew after a pause.
    pub(crate) fn note_panic(&mut self) {
        self.progress.begin_anew(self.watches.scopes.len());
        self.tell_news();
    }

    fn tell_news(&mut self) {
        if let Some(report) = self.progress.news() {
            self.updates.tell(KubernetesChange::Report(Box::new(report)));
        }
    }

    /// Takes what is there already, and what comes within a short time if something has just taken effect.
    async fn gather(&mut self) {
        while let Ok(message) = self.watches.events.try_recv() {
            self.take(message);
        }
        let Some(end) = self.gather_until.take() else { return };
        while let Ok(Some(message)) = tokio::time::timeout_at(end, self.watches.events.recv()).await {
            self.take(message);
        }
    }

    /// Something has taken effect, after it was begun at that time.
    fn has_taken_effect(&mut self, began: Instant) {
        let pause = (began.elapsed() * GATHER_FACTOR).clamp(GATHER_TIME_MIN, GATHER_TIME_MAX);
        self.gather_until = Some(Instant::now() + pause);
    }

    fn take(&mut self, message: ObjectMessage) {
        match message {
            ObjectMessage::Upsert(object) => {
                self.progress.heard();
                self.unreadable.note(&object);
                self.translator.upsert(&object);
            }
            ObjectMessage::Delete(kind, key) => {
                self.progress.heard();
                self.unreadable.forget(kind, &key);
                self.translator.delete(kind, &key);
            }
            ObjectMessage::Listed(watch, listed) => {
                let scope = &self.watches.scopes[watch];
                self.translator.retain_listed(scope.kind, scope.namespace.as_deref(), &listed);
                self.progress.listed(watch);
            }
            ObjectMessage::Absent(watch) => {
                let kind = self.watches.scopes[watch].kind;
                let of_ingresses = match kind {
                    ObjectKind::ReferenceGrant => "; Ingresses need them for ReferenceGrants only",
                    _ => "",
                };
                let (versions, [group, _, kind, _]) = (versions_of(kind).join(" or "), names_of(kind));
                let why = format!(
                    "the API server does not know the kind `{kind}` of {group}/{versions}: install the resource \
                     definitions of the Gateway API (standard channel){of_ingresses}"
                );
                self.progress.absent(watch, &why);
            }
            ObjectMessage::Failed(watch, why) => {
                let kind = names_of(self.watches.scopes[watch].kind)[3];
                self.progress.failed(watch, &format!("{kind}: {why}"));
            }
            ObjectMessage::Alive(watch) => self.progress.alive(watch),
        }
    }

    /// Another process may have left statuses unwritten.
    fn follow_leadership(&mut self) {
        if *self.leads.borrow_and_update() {
            self.translator.renew_statuses();
        } else {
            let _ended = self.statuses.send(StatusMessage::Forget);
        }
    }

    /// Translates what has changed, applies it and has statuses written; `None`: there is no owner of the proxy any more.
    async fn turn(&mut self) -> Option<()> {
        let began = Instant::now();
        let absent = self.progress.absent_watches().map(|watch| self.watches.scopes[watch].kind);
        self.translator.set_missing_kinds(absent.map(|kind| names_of(kind)[2]).collect());
        let Translation {
            config,
            servers,
            statuses,
            ingress_reports,
            default_certificate_problem,
            ingress_config_map_problem,
            faults,
            ..
        } = self.translator.translate(&now());
        weir_tasks::strike("a translation of objects");
        self.ingress_log.take(&ingress_reports);
        self.ingress_log.take_default_certificate(default_certificate_problem);
        self.ingress_log.take_config_map(ingress_config_map_problem);
        for fault in faults {
            tracing::error!(%fault, "objects of Kubernetes ask for what cannot be: requests for it are refused");
        }
        let changed = self.servers.take(servers);
        let mut are_outdated = false;
        match self.applying.next(config) {
            Some(config) => {
                let declared = (config, self.translator.listeners_of_sets());
                let refusals = self.applying.apply(declared, &mut self.servers, &self.updates).await?;
                self.has_taken_effect(began);
                self.progress.applied(&refusals);
                are_outdated = self.translator.set_refusals(refusals);
            }
            None if changed.is_empty() => {}
            None => {
                // One that was refused is completed with them when it is tried again.
                if let Err(refusal) = self.updates.carry_out(KubernetesChange::Servers(changed)).await? {
                    let why = &*refusal.why;
                    tracing::error!(why, "servers could not be changed");
                    self.progress.refused(why);
                }
                self.has_taken_effect(began);
            }
        }
        if *self.leads.borrow() {
            let statuses = if are_outdated { self.translator.translate(&now()).statuses } else { statuses };
            if !statuses.is_empty() {
                let _ended = self.statuses.send(StatusMessage::Write(statuses));
            }
            let now = now();
            let events: Vec<_> = ingress_reports.iter().flat_map(|report| events(report, &now)).collect();
            if !events.is_empty() {
                let _ended = self.statuses.send(StatusMessage::Tell(events));
            }
        }
        Some(())
    }
}

fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(24 * 3600)
}

/// The time of conditions.
fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
