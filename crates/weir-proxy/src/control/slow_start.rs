//! Slow start: raises the share of a server that has come back, step by step.
//!
//! One ascent per server at a time, whoever brought it back: a new one begins at the bottom.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use weir_traffic::health::SlowStart;
use weir_traffic::{RAMP_FULL, ServerId};

use crate::clock;
use crate::snapshot::{UpstreamPlan, millis_between};

/// The ascent of a server, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Ascent(Mutex<Option<AbortHandle>>);

impl Ascent {
    fn replace(&self, ascent: Option<AbortHandle>) {
        let mut place = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = std::mem::replace(&mut *place, ascent) {
            before.abort();
        }
    }
}

/// Lowers the share of a server at once and raises it over the time that the config says; without one it has all of it.
pub(super) fn begin(plan: &Arc<UpstreamPlan>, index: usize) {
    let Some(length) = plan.config.slow_start else { return forgo(plan, index) };
    let server = ServerId(index as u32);
    let mut now_ms = plan.millis(clock::now());
    let start = SlowStart::new(now_ms, u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    plan.places[index].ascent.replace(None);
    plan.balancer().state(server).set_ramp(start.ramp(now_ms));
    let rising = Arc::clone(plan.balancer().state(server));
    let epoch = plan.at_millis(0);
    let task = tokio::spawn(async move {
        while let Some(next_ms) = start.next_ms(now_ms) {
            tokio::time::sleep(Duration::from_millis(next_ms.saturating_sub(now_ms))).await;
            now_ms = millis_between(epoch, clock::now());
            rising.set_ramp(start.ramp(now_ms));
        }
    });
    plan.places[index].ascent.replace(Some(task.abort_handle()));
}

/// Gives a server its whole share at once, however far it has come.
pub(crate) fn forgo(plan: &UpstreamPlan, index: usize) {
    plan.places[index].ascent.replace(None);
    plan.balancer().state(ServerId(index as u32)).set_ramp(RAMP_FULL);
}

/// Ends the ascent of a server that is gone again.
pub(super) fn stop(plan: &UpstreamPlan, index: usize) {
    plan.places[index].ascent.replace(None);
}
