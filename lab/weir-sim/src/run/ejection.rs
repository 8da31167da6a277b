//! Outlier ejection at each balancer, with the table of `weir_traffic::ejection`.
//!
//! Outcomes of attempts reach the table as in the proxy: the counter of failures in a row first, the table only when it says so or
//! the server is watched. What the control thread of the proxy does then (trials, comparisons, slow start) happens here
//! after each change, and every second while something is wrong.

use std::collections::HashMap;

use weir_traffic::ServerId;
use weir_traffic::balance::Balancer;
use weir_traffic::ejection::{
    EjectionReason, OutlierChange, OutlierEvent, OutlierMember, OutlierTable, OutlierWindow,
};
use weir_traffic::{ServerState, ServerTier};

use super::{SimEvent, Simulation};
use crate::model::{EjectionModel, MILLISECOND, SECOND, UpstreamModel};

/// How often the control thread looks while a server is out.
const REVIEW_INTERVAL: u64 = SECOND;

/// How an attempt ended, for the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptEnd {
    Answered,
    Failed,
    /// The client left: it says nothing of the server.
    Unknown,
}

/// The table of one balancer.
#[derive(Debug)]
pub(super) struct SimOutliers {
    table: OutlierTable<()>,
    reported_from: u32,
    requests_min: u64,
    /// Requests and failures since the last comparison, of the servers that had any.
    window: HashMap<u32, OutlierWindow>,
    compared_ms: u64,
    /// The time of the next review, if one is planned.
    review_at: Option<u64>,
}

impl SimOutliers {
    /// A table for the servers of `balancer`, of which `is_leaving` tells those that the source does not name.
    pub(super) fn new(
        model: EjectionModel,
        upstream: &UpstreamModel,
        balancer: &Balancer,
        is_leaving: impl Fn(usize) -> bool,
    ) -> Self {
        let (rules, slow) = (model.rules(), upstream.slow_start.is_some());
        let table =
            OutlierTable::new(Some(rules), upstream.panic_percent, slow, members(balancer, is_leaving));
        Self {
            reported_from: table.failures_to_report().unwrap_or(u32::MAX),
            table,
            requests_min: model.rules.requests_min,
            window: HashMap::new(),
            compared_ms: 0,
            review_at: None,
        }
    }

    /// Goes on with the servers that the source names now.
    pub(super) fn change(
        &mut self,
        upstream: &UpstreamModel,
        balancer: &Balancer,
        is_leaving: impl Fn(usize) -> bool,
        now_ms: u64,
    ) {
        let rules = upstream.ejection.map(EjectionModel::rules);
        let slow = upstream.slow_start.is_some();
        self.table.change(rules, upstream.panic_percent, slow, members(balancer, is_leaving), now_ms);
    }

    /// An attempt begins on a server.
    pub(super) fn begin(&mut self, server: ServerId, state: &ServerState, now_ms: u64) {
        self.window.entry(server.0).or_default().requests += 1;
        if state.consecutive_failures().is_watched() {
            self.table.begin(server, now_ms);
        }
    }

    /// An attempt that began at `began_ms` has ended; returns whether there is something to review.
    pub(super) fn end(
        &mut self,
        server: ServerId,
        state: &ServerState,
        end: AttemptEnd,
        began_ms: u64,
        now_ms: u64,
    ) -> bool {
        let consecutive = state.consecutive_failures();
        match end {
            AttemptEnd::Answered => {
                if consecutive.end_failures() {
                    self.table.succeed(server, began_ms, now_ms);
                }
            }
            AttemptEnd::Failed => {
                self.window.entry(server.0).or_default().failures += 1;
                if consecutive.count_failure() >= self.reported_from || consecutive.is_watched() {
                    self.table.fail(server, began_ms, now_ms);
                }
            }
            AttemptEnd::Unknown => {
                if consecutive.is_watched() {
                    self.table.withdraw(server, began_ms, now_ms);
                }
            }
        }
        self.table.has_events()
    }

    /// The health checks have found a server up again.
    pub(super) fn recover(&mut self, server: ServerId, now_ms: u64) {
        self.table.recover(server, now_ms);
        self.table.advance(now_ms);
    }

    fn review(&mut self, now_ms: u64) -> Vec<OutlierEvent> {
        self.table.advance(now_ms);
        self.table.take_events()
    }

    /// Compares the servers. Where none had enough requests, no comparison finds anything.
    fn compare(&mut self, servers: usize, now_ms: u64) {
        let window = std::mem::take(&mut self.window);
        if window.values().any(|window| window.requests.max(window.failures) >= self.requests_min) {
            let mut windows = vec![OutlierWindow::default(); servers];
            for (server, window) in window {
                windows[server as usize] = window;
            }
            self.table.compare(&windows, self.compared_ms, now_ms);
        }
        self.compared_ms = now_ms;
    }

    /// When there is something to do by time alone.
    fn next_ms(&self, now_ms: u64) -> Option<u64> {
        (!self.table.is_quiet()).then(|| {
            let at = now_ms + REVIEW_INTERVAL / MILLISECOND;
            self.table.next_ms().map_or(at, |next_ms| next_ms.clamp(now_ms + 1, at))
        })
    }
}

fn members(balancer: &Balancer, is_leaving: impl Fn(usize) -> bool) -> Vec<OutlierMember> {
    let member = |(index, state): (usize, &std::sync::Arc<ServerState>)| OutlierMember {
        state: std::sync::Arc::clone(state),
        tier: ServerTier::Primary,
        exempt: false,
        leaving: is_leaving(index),
    };
    balancer.states().iter().enumerate().map(member).collect()
}

impl Simulation<'_> {
    /// Enters the outcome of an attempt on a server into the table of its balancer.
    pub(super) fn attempt_ends(&mut self, balancer: u32, server: ServerId, end: AttemptEnd, began: u64) {
        let now_ms = self.now_ms();
        if self.balancer(balancer).outcome(server, end, began / MILLISECOND, now_ms) {
            self.review(balancer);
        }
    }

    /// Compares the servers of a balancer, and does so again after the interval.
    pub(super) fn compare(&mut self, balancer: u32) {
        let Some(ejection) = self.upstream.ejection else { return };
        let (now, now_ms) = (self.agenda.now(), self.now_ms());
        if now + ejection.interval < self.model.length {
            self.agenda.enter_limit(ejection.interval, SimEvent::Compare { balancer });
        }
        let Some(sim) = self.balancers[balancer as usize].as_deref_mut() else { return };
        let servers = sim.balancer().states().len();
        if let Some(outliers) = &mut sim.outliers {
            outliers.compare(servers, now_ms);
        }
        self.review(balancer);
    }

    /// A review that was planned for now; one that was planned anew since is void.
    pub(super) fn review_due(&mut self, balancer: u32) {
        let now = self.agenda.now();
        let planned = self.balancer(balancer).outliers.as_ref().and_then(|outliers| outliers.review_at);
        if planned == Some(now) {
            self.review(balancer);
        }
    }

    /// Carries out what the table has decided, and plans the next look at it.
    pub(super) fn review(&mut self, balancer: u32) {
        let now_ms = self.now_ms();
        let Some(outliers) = &mut self.balancer(balancer).outliers else { return };
        let events = outliers.review(now_ms);
        for event in &events {
            match event.change {
                OutlierChange::Returned { server, .. } => self.start_slowly(balancer, server),
                OutlierChange::Ejected { server, grounds, .. } => {
                    let global = self.balancer(balancer).number_of(server);
                    let is_first = grounds != EjectionReason::Trial;
                    let is_wrong = self.servers[global as usize].is_well();
                    self.tally.ejected(self.agenda.now(), is_first, is_wrong);
                }
                OutlierChange::OnTrial { .. } | OutlierChange::Panic { .. } => {}
            }
        }
        if !events.is_empty() {
            self.serve_queue(balancer);
        }
        let length = self.model.length;
        let Some(outliers) = &mut self.balancer(balancer).outliers else { return };
        outliers.review_at = outliers.next_ms(now_ms).map(|at_ms| at_ms * MILLISECOND);
        // After the length, waiting requests may still need the trials of servers that are out.
        if let Some(at) = outliers.review_at.filter(|at| *at < length.saturating_add(60 * SECOND)) {
            self.agenda.enter(at, SimEvent::Review { balancer });
        }
    }
}
