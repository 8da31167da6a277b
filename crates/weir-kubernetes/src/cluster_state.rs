//! How far the source is: what it has listed, when the API server was heard last, and what is wrong with it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use weir_gateway::Refusals;

use crate::watching::WatchIndex;

/// How exactly reports say when the API server was heard.
const HEARD_STEP_MS: i64 = 1_000;

/// What is wrong after a panic, until all is known anew.
const TASK_PANICKED: &str = "the task that follows the API server has ended by a defect of Weir and is begun anew after a pause, with all that is listed: see the log";

/// What is known about the source, for reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterReport {
    /// Whether every kind was listed.
    pub is_synchronised: bool,
    /// When the API server was heard last, in milliseconds since 1970.
    pub heard_at_ms: Option<i64>,
    /// What is wrong with the API server.
    pub problem: Option<Box<str>>,
    /// Since when, in milliseconds since 1970.
    pub lost_at_ms: Option<i64>,
    /// Kinds that it does not know.
    pub absent: Box<[Box<str>]>,
    /// Why the last configuration could not be applied.
    pub refusal: Option<Box<str>>,
    /// The Gateways, and the Ingresses, that are held back since theirs could not be, and why.
    pub held_back: Box<[(Box<str>, Box<str>)]>,
    /// How many configurations were applied.
    pub applied: u64,
}

/// The report, shared between threads.
#[derive(Debug, Clone, Default)]
pub struct ClusterState(Arc<Mutex<ClusterReport>>);

impl ClusterState {
    /// As it is now.
    pub fn report(&self) -> ClusterReport {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn edit(&self, edit: impl FnOnce(&mut ClusterReport)) {
        edit(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// What a watch has said last.
#[derive(Debug, Clone, PartialEq, Eq)]
enum WatchState {
    Awaited,
    Listed,
    Absent,
}

/// Keeps account of the watches.
#[derive(Debug)]
pub(crate) struct SourceProgress {
    state: ClusterState,
    watches: Vec<WatchState>,
    failing: BTreeMap<WatchIndex, String>,
    absent: BTreeMap<WatchIndex, String>,
    /// Whether all is to be listed anew, after a panic.
    is_anew: bool,
    /// The report that was told last.
    told: ClusterReport,
}

impl SourceProgress {
    pub(crate) fn new(state: ClusterState, watches: usize) -> Self {
        Self {
            state,
            watches: vec![WatchState::Awaited; watches],
            failing: BTreeMap::new(),
            absent: BTreeMap::new(),
            is_anew: false,
            told: ClusterReport::default(),
        }
    }

    /// All is to be listed anew by so many watches, since the task has panicked. What is in use stays.
    pub(crate) fn begin_anew(&mut self, watches: usize) {
        self.watches = vec![WatchState::Awaited; watches];
        self.failing.clear();
        self.absent.clear();
        self.is_anew = true;
        self.publish();
    }

    /// The report, if it says something new: when the API server was heard last counts as such once a second.
    pub(crate) fn news(&mut self) -> Option<ClusterReport> {
        let report = self.state.report();
        let heard = |report: &ClusterReport| report.heard_at_ms.unwrap_or(0);
        let is_recent = heard(&report) < heard(&self.told) + HEARD_STEP_MS;
        let unheard = ClusterReport { heard_at_ms: self.told.heard_at_ms, ..report.clone() };
        if is_recent && unheard == self.told {
            return None;
        }
        self.told.clone_from(&report);
        Some(report)
    }

    /// Whether all is known that there is.
    pub(crate) fn is_synchronised(&self) -> bool {
        self.watches.iter().all(|watch| *watch != WatchState::Awaited)
    }

    pub(crate) fn heard(&self) {
        let now = Timestamp::now().as_millisecond();
        self.state.edit(|report| report.heard_at_ms = Some(now));
    }

    pub(crate) fn listed(&mut self, watch: WatchIndex) {
        if self.absent.remove(&watch).is_some() {
            tracing::info!("the API server knows a kind that was absent");
        }
        self.watches[watch] = WatchState::Listed;
        self.alive(watch);
        self.heard();
        self.publish();
    }

    /// A kind that the API server does not know is not waited for; what is known of it stays.
    pub(crate) fn absent(&mut self, watch: WatchIndex, why: &str) {
        if self.absent.insert(watch, why.to_owned()).is_none() {
            tracing::warn!("{why}");
        }
        if self.watches[watch] == WatchState::Awaited {
            self.watches[watch] = WatchState::Absent;
        }
        self.publish();
    }

    /// The watches of kinds that the API server does not know.
    pub(crate) fn absent_watches(&self) -> impl Iterator<Item = WatchIndex> {
        self.absent.keys().copied()
    }

    pub(crate) fn failed(&mut self, watch: WatchIndex, why: &str) {
        if self.failing.is_empty() {
            tracing::warn!(why, "the API server does not answer as it should: what is known stays in use");
        } else if !self.failing.contains_key(&watch) {
            tracing::debug!(why, "the API server does not answer as it should");
        }
        self.failing.insert(watch, why.to_owned());
        self.publish();
    }

    pub(crate) fn alive(&mut self, watch: WatchIndex) {
        if self.failing.remove(&watch).is_some() {
            if self.failing.is_empty() {
                tracing::info!("the API server answers again");
            }
            self.heard();
            self.publish();
        }
    }

    pub(crate) fn refused(&self, why: &str) {
        self.state.edit(|report| report.refusal = Some(why.into()));
    }

    /// A configuration was applied, but for what was refused.
    pub(crate) fn applied(&self, refusals: &Refusals) {
        let held = refusals.held_back.iter();
        let held_back = held.map(|(owner, why)| (owner.to_string().into(), why.clone())).collect();
        self.state.edit(|report| {
            report.applied += u64::from(refusals.whole.is_none());
            report.refusal.clone_from(&refusals.whole);
            report.held_back = held_back;
        });
    }

    fn publish(&mut self) {
        let is_synchronised = self.is_synchronised();
        self.is_anew &= !is_synchronised;
        let problem = self.is_anew.then_some(TASK_PANICKED);
        let problem = problem.or(self.failing.values().next().map(String::as_str));
        self.state.edit(|report| {
            if is_synchronised && !report.is_synchronised {
                tracing::info!("all objects were listed");
            }
            report.is_synchronised |= is_synchronised;
            report.problem = problem.map(Into::into);
            report.lost_at_ms = report
                .problem
                .as_ref()
                .map(|_| report.lost_at_ms.unwrap_or(Timestamp::now().as_millisecond()));
            report.absent = self.absent.values().map(|why| why.as_str().into()).collect();
        });
    }
}
