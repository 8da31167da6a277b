//! Reports attempts to outlier detection: their begin, if the server is watched, and their outcome.
//!
//! The rules are in `weir_traffic::ejection`. The table of an upstream is behind a lock that is taken when a server is watched or
//! has failed too often, never for a request without trouble. What was decided is logged, and timed, by the control
//! thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_config::{Server, Upstream};
use weir_traffic::balance::Balancer;
use weir_traffic::ejection::{EjectionRules, OutlierMember, OutlierTable};
use weir_traffic::{ServerId, ServerState};

use super::UpstreamPlan;
use crate::net::clock::{self, Instant};
use crate::net::failure::Fault;
use crate::state::servers::due_upstreams::DueUpstreams;

/// The outlier table of an upstream and the settings that the data path needs.
#[derive(Debug)]
pub struct OutlierDetector {
    shared: Arc<SharedOutlierTable>,
    /// Whether servers are ejected at all.
    is_on: bool,
    /// Status codes that are failures; sorted.
    on_status: Box<[u16]>,
    /// Consecutive failures from which on the table is updated at once.
    reported_from: u32,
}

/// What goes on from one config of an upstream to the next.
#[derive(Debug)]
struct SharedOutlierTable {
    ejections: Mutex<OutlierTable<Fault>>,
    /// Its number, unique in the process.
    number: u64,
    /// Whether the control thread is to look at it.
    is_due: AtomicBool,
    due: Arc<DueUpstreams>,
}

/// How an attempt ended, as far as the server is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AttemptOutcome {
    /// The server is well.
    Success,
    /// The server is at fault.
    Failure(Fault),
    /// Neither: the client or Weir was at fault.
    Unknown,
}

/// What the config says of ejection.
struct EjectionSettings {
    rules: Option<EjectionRules>,
    panic_percent: Option<u32>,
    starts_slowly: bool,
}

impl EjectionSettings {
    fn new(config: &Upstream) -> Self {
        Self {
            rules: config.ejection.as_ref().map(|ejection| ejection.rules),
            panic_percent: config.panic_threshold.map(weir_config::Percent::percent),
            starts_slowly: config.slow_start.is_some(),
        }
    }
}

fn members(config: &Upstream, leaves_at: &[Option<Instant>], balancer: &Balancer) -> Vec<OutlierMember> {
    let states = balancer.states().iter().zip(&config.servers).zip(leaves_at);
    let member =
        |((state, server), leaves_at): ((&Arc<ServerState>, &Server), &Option<Instant>)| OutlierMember {
            state: Arc::clone(state),
            tier: server.tier,
            exempt: !server.ejection,
            leaving: leaves_at.is_some(),
        };
    states.map(member).collect()
}

impl OutlierDetector {
    /// An empty table for the servers of `balancer`, of which some may leave.
    pub(crate) fn new(
        config: &Upstream,
        leaves_at: &[Option<Instant>],
        balancer: &Balancer,
        due: &Arc<DueUpstreams>,
    ) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let EjectionSettings { rules, panic_percent, starts_slowly } = EjectionSettings::new(config);
        let members = members(config, leaves_at, balancer);
        let table = OutlierTable::new(rules, panic_percent, starts_slowly, members);
        let table = SharedOutlierTable {
            ejections: Mutex::new(table),
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            is_due: AtomicBool::new(false),
            due: Arc::clone(due),
        };
        Self::with(config, Arc::new(table))
    }

    /// The same table under the rules of the next config, which hold once it is [changed](Self::change).
    pub(crate) fn succeeded_by(&self, config: &Upstream) -> Self {
        Self::with(config, Arc::clone(&self.shared))
    }

    fn with(config: &Upstream, shared: Arc<SharedOutlierTable>) -> Self {
        let rules = config.ejection.as_ref().map(|ejection| ejection.rules);
        Self {
            is_on: config.ejection.is_some() && config.servers.len() > 1,
            on_status: config
                .ejection
                .as_ref()
                .map(|ejection| ejection.on_status.clone().into())
                .unwrap_or_default(),
            reported_from: rules.as_ref().and_then(EjectionRules::failures_to_report).unwrap_or(u32::MAX),
            shared,
        }
    }

    /// Makes the table go by the rules of `plan`, and gives its servers their places.
    pub(crate) fn change(&self, plan: &UpstreamPlan) {
        let EjectionSettings { rules, panic_percent, starts_slowly } = EjectionSettings::new(&plan.config);
        let members = members(&plan.config, &plan.leaves_at, plan.balancer());
        let now_ms = plan.millis(clock::now());
        self.lock().change(rules, panic_percent, starts_slowly, members, now_ms);
        self.request_review();
    }

    /// The number of the table, the same in every config of the upstream.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// The control thread is about to review the table: later updates request another review.
    pub fn begin_review(&self) {
        self.shared.is_due.store(false, Ordering::SeqCst);
    }

    /// Has the control thread look at the table.
    fn request_review(&self) {
        if !self.shared.is_due.swap(true, Ordering::SeqCst) {
            self.shared.due.add(self.shared.number);
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, OutlierTable<Fault>> {
        // A panic inside leaves a table that is whole: it does not call out while it changes.
        self.shared.ejections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an answer with this status says of the server.
    #[inline]
    pub(crate) fn classify_status(&self, status: u16) -> AttemptOutcome {
        if status < 400 || !self.on_status.contains(&status) {
            return AttemptOutcome::Success;
        }
        AttemptOutcome::Failure(Fault::unexpected_status(status))
    }
}

impl UpstreamPlan {
    /// An attempt begins on `server`.
    #[inline]
    pub(crate) fn begin(&self, server: ServerId) {
        if self.is_watched(server) {
            self.begin_watched(server);
        }
    }

    #[cold]
    fn begin_watched(&self, server: ServerId) {
        self.outlier_detector.lock().begin(server, self.millis(clock::now()));
        if self.balancer().state(server).is_ejected() {
            // A trial has begun, and has its time.
            self.outlier_detector.request_review();
        }
    }

    #[inline]
    fn is_watched(&self, server: ServerId) -> bool {
        self.balancer().state(server).consecutive_failures().is_watched()
    }

    /// Records the outcome of an attempt on `server` that began at `began`.
    #[inline]
    pub(crate) fn record_outcome(&self, server: ServerId, outcome: AttemptOutcome, began: Instant) {
        match outcome {
            AttemptOutcome::Success => {
                if self.balancer().state(server).consecutive_failures().end_failures() {
                    self.update_table(
                        |table, began_ms, now_ms| table.succeed(server, began_ms, now_ms),
                        began,
                    );
                }
            }
            AttemptOutcome::Failure(fault) => self.record_failure(server, fault, began),
            AttemptOutcome::Unknown => {
                if self.is_watched(server) {
                    self.update_table(
                        |table, began_ms, now_ms| table.withdraw(server, began_ms, now_ms),
                        began,
                    );
                }
            }
        }
    }

    #[cold]
    fn record_failure(&self, server: ServerId, fault: Fault, began: Instant) {
        if !self.outlier_detector.is_on {
            return;
        }
        let consecutive = self.balancer().state(server).consecutive_failures();
        let failures = consecutive.count_failure();
        if failures >= self.outlier_detector.reported_from || consecutive.is_watched() {
            let fail = |table: &mut OutlierTable<Fault>, began_ms, now_ms| {
                table.remember(server, fault, now_ms);
                table.fail(server, began_ms, now_ms);
            };
            self.update_table(fail, began);
        } else if let Ok(mut table) = self.outlier_detector.shared.ejections.try_lock() {
            // For the history only, which may be incomplete.
            table.remember(server, fault, self.millis(clock::now()));
        }
    }

    /// Enters something into the table, and has the control thread look at what came of it.
    #[cold]
    fn update_table(&self, update: impl FnOnce(&mut OutlierTable<Fault>, u64, u64), began: Instant) {
        let now_ms = self.millis(clock::now());
        let mut table = self.outlier_detector.lock();
        update(&mut table, self.millis(began), now_ms);
        if table.has_events() {
            self.outlier_detector.request_review();
        }
    }

    /// Updates the table after the health checks have found a server up again.
    pub fn recover(&self, server: ServerId) {
        self.outlier_detector.lock().recover(server, self.millis(clock::now()));
    }

    /// Updates the table after a change by health checks or the operator, before the change is reported.
    pub fn settle_ejections(&self) {
        self.outlier_detector.lock().advance(self.millis(clock::now()));
        self.outlier_detector.request_review();
    }
}
