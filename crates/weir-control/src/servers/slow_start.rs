//! Slow start: raises the share of a server that has come back, step by step.
//!
//! Each server has one ramp at a time; a new one begins at the bottom.

use std::sync::Arc;
use std::time::Duration;

use weir_traffic::health::SlowStart;
use weir_traffic::{ServerId, ServerState};

use weir_proxy::net::clock::{self, Instant};
use weir_proxy::state::servers::plan_inputs::millis_between;
use weir_proxy::state::snapshot::UpstreamPlan;

/// Lowers the share of a server at once and raises it over the time that the config says; without one it has all of it.
pub(crate) fn begin(plan: &Arc<UpstreamPlan>, index: usize) {
    let Some(length) = plan.config.slow_start else { return plan.skip_ramp(index) };
    let server = ServerId(index as u32);
    let now_ms = plan.millis(clock::now());
    let start = SlowStart::new(now_ms, u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
    plan.live[index].ramp.replace(None);
    plan.balancer().state(server).set_ramp(start.ramp(now_ms));
    let rising = Arc::clone(plan.balancer().state(server));
    let epoch = plan.at_millis(0);
    let make = move || raise(Arc::clone(&rising), start, epoch);
    let task = tokio::spawn(weir_tasks::keep("the slow start of a server", make));
    plan.live[index].ramp.replace(Some(task.abort_handle()));
}

/// Raises the share to the end. Begun anew after a panic, it goes on where the share is to be by then.
async fn raise(rising: Arc<ServerState>, start: SlowStart, epoch: Instant) {
    loop {
        let now_ms = millis_between(epoch, clock::now());
        rising.set_ramp(start.ramp(now_ms));
        let Some(next_ms) = start.next_ms(now_ms) else { return };
        tokio::time::sleep(Duration::from_millis(next_ms.saturating_sub(now_ms))).await;
    }
}

/// Ends the ramp of a server that is down again.
pub(crate) fn stop(plan: &UpstreamPlan, index: usize) {
    plan.live[index].ramp.replace(None);
}
