//! The queue of an upstream, shared by all workers: slots that become free go to the exchanges that wait for them.
//!
//! The order is decided in `weir_traffic::admission`.

use tokio::sync::oneshot;
use weir_observe::Cause;
use weir_traffic::ServerId;
use weir_traffic::admission::WaitOutcome;

use super::UpstreamPlan;
use crate::net::clock::{self, Instant};

/// One exchange in the queue of an upstream: where the server that becomes free is announced, or why there will be none.
pub(crate) type Waiter = oneshot::Sender<Result<ServerId, Cause>>;

/// The maximum of `Retry-After`, in seconds: a queue is seldom as full in two minutes as it is now.
const RETRY_AFTER_MAX: u32 = 120;

/// Sends the outcome to a waiter; whether it still waits.
pub(crate) fn notify(waiter: Waiter, outcome: WaitOutcome) -> bool {
    let outcome = match outcome {
        WaitOutcome::Server(server) => Ok(server),
        WaitOutcome::NoServer => Err(Cause::NoServer),
        WaitOutcome::Overload => Err(Cause::QueueOverload),
        WaitOutcome::Evicted => Err(Cause::QueueEvicted),
    };
    waiter.send(outcome).is_ok()
}

impl UpstreamPlan {
    /// Gives back a slot, to the next in the queue if there is one.
    pub(crate) fn release(&self, server: ServerId) {
        if self.admission.release(server) {
            self.serve_queue();
        }
    }

    /// Hands free slots to waiters, and rejects waiters that no server can serve: after an entry, and
    /// after a server came or went.
    pub fn serve_queue(&self) {
        self.admission.serve(self.millis(clock::now()), notify);
    }

    /// When an exchange that enters now could expect a slot, in whole seconds; the time limit of the queue when no exchange has left it
    /// lately.
    pub(crate) fn queue_drains_in(&self, now: Instant) -> u32 {
        let expected_ms = self.admission.wait_expected_ms(self.millis(now));
        let limit_ms = self.config.timeouts.queue.as_millis() as u64;
        let seconds = expected_ms.unwrap_or(limit_ms).div_ceil(1000);
        u32::try_from(seconds).unwrap_or(u32::MAX).clamp(1, RETRY_AFTER_MAX)
    }
}
