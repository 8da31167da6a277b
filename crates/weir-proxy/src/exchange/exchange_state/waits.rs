//! The party that an exchange waits for, and the time left for it.
//!
//! Every pending poll of the exchange ends here. The clock is read only when the awaited party changes or bytes have
//! moved since; otherwise the deadline is unchanged.

use std::task::Poll;
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};

use crate::net::clock::{self, Instant};
use crate::net::timing::deadline::Deadline;
use crate::net::timing::pace::Pace;
use crate::state::connections::activity::Activity;
use crate::state::routes::wait_limits::WaitLimits;

/// The longest wait for a disk that does not answer.
const DISK_WAIT_MAX: Duration = Duration::from_secs(30);

/// The time that each party has left.
#[derive(Debug)]
pub(crate) struct Waits {
    limits: WaitLimits,
    /// Of those that were waited for; on the heap, since most exchanges wait for a head only, and many wait at once.
    paces: Option<Box<[Option<Pace>; 4]>>,
    awaited: Option<(Activity, u64)>,
    /// Until the attempt has waited for the first time.
    attempt_began: Option<Instant>,
}

impl Waits {
    pub(crate) const fn new() -> Self {
        Self { limits: WaitLimits::NONE, paces: None, awaited: None, attempt_began: None }
    }

    /// Full credit for every party.
    #[inline(always)]
    pub(crate) fn begin(&mut self, limits: &WaitLimits) {
        self.limits = *limits;
        if let Some(paces) = &mut self.paces {
            **paces = [None; 4];
        }
        self.awaited = None;
    }

    /// The deadline was used for something else meanwhile: the next wait sets it anew.
    pub(crate) fn begin_attempt(&mut self, now: Instant) {
        (self.awaited, self.attempt_began) = (None, Some(now));
    }

    /// Waits for `awaited`, which has moved `moved` bytes so far; ready when the time is up.
    pub(crate) fn poll_over(
        &mut self,
        deadline: &mut Deadline,
        awaited: Activity,
        moved: u64,
    ) -> Poll<Failure> {
        if self.awaited != Some((awaited, moved)) {
            // The response to a request that was sent at once: nothing has taken time since the attempt began.
            let began = self.attempt_began.take().filter(|_| awaited == Activity::ResponseHead);
            let now = began.unwrap_or_else(clock::now);
            if let Some((before, moved_before)) = self.awaited
                && before != awaited
                && let Some(pace) = self.pace(before)
            {
                pace.rest(now, moved_before);
            }
            let ends = match awaited {
                Activity::ResponseHead => self.limits.response.map(|limit| now + limit),
                Activity::Disk => Some(now + DISK_WAIT_MAX),
                _ => self.pace(awaited).map(|pace| pace.wait(now, moved)),
            };
            deadline.set_at(ends);
            self.awaited = Some((awaited, moved));
        }
        deadline.poll_passed().map(|()| {
            let phase = match awaited {
                Activity::RequestBody | Activity::ServerTakes => Phase::Send,
                Activity::ResponseHead => Phase::Response,
                Activity::Disk if moved == 0 => Phase::Response,
                _ => Phase::Relay,
            };
            if let Some(failure) = deadline.cut_failure(phase) {
                return failure;
            }
            if deadline.ends_with_ceiling() {
                return Failure::weir(phase, Cause::ExchangeTimedOut);
            }
            let slow = self.pace(awaited).is_some_and(|pace| !pace.was_silent());
            let cause = if slow { Cause::BodyTooSlow } else { Cause::TimedOut };
            match awaited {
                Activity::RequestBody | Activity::ClientTakes => Failure::client(phase, cause),
                Activity::Disk => Failure::weir(phase, Cause::DiskTimedOut),
                _ => Failure::server(phase, cause),
            }
        })
    }

    fn pace(&mut self, awaited: Activity) -> Option<&mut Pace> {
        let (index, limit) = match awaited {
            Activity::RequestBody => (0, self.limits.request_body),
            Activity::ServerTakes => (1, self.limits.send),
            Activity::ResponseBody => (2, self.limits.relay),
            Activity::ClientTakes => (3, self.limits.client_send),
            _ => return None,
        };
        let limit = limit?;
        let paces = self.paces.get_or_insert_default();
        Some(paces[index].get_or_insert_with(|| Pace::new(limit)))
    }
}
