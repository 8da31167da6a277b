//! Restarts of tasks: counted, logged, and each after a pause that grows with those before it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock;

/// The pause before a task is begun anew for the first time; it doubles with each panic that follows within [`FORGOTTEN_AFTER`].
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A task that has run for so long begins with the first pause again.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(300);

static RESTARTS: AtomicU64 = AtomicU64::new(0);

/// Tasks begun anew since the start.
pub fn restarts() -> u64 {
    RESTARTS.load(Ordering::Relaxed)
}

/// Counts one more.
pub fn count_restart() {
    RESTARTS.fetch_add(1, Ordering::Relaxed);
}

/// Counts and logs that a task has ended by a panic; gives the pause before it is to begin anew.
pub fn note_restart(what: &'static str, pauses: &mut RestartPauses) -> Duration {
    let pause = pauses.next(clock::now());
    count_restart();
    tracing::error!(
        task = what,
        pause_in_s = pause.as_secs(),
        "a task of the control plane has ended by a defect of Weir and is begun anew after a pause; the log has the panic above"
    );
    pause
}

/// The pauses of one task.
#[derive(Debug, Default)]
pub struct RestartPauses {
    /// How many panics in a row, and when the last one was.
    last: Option<(u32, Instant)>,
}

impl RestartPauses {
    /// The pause after a panic.
    fn next(&mut self, now: Instant) -> Duration {
        let in_row = self
            .last
            .filter(|(_, at)| now.saturating_duration_since(*at) < FORGOTTEN_AFTER)
            .map_or(0, |(count, _)| count);
        self.last = Some((in_row.saturating_add(1), now));
        PAUSE_FIRST.saturating_mul(1 << in_row.min(16)).min(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_forgotten() {
        let (mut pauses, start) = (RestartPauses::default(), clock::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let seconds = [0, 1, 3, 7, 15, 31, 63, 400].map(|now| pauses.next(at(now)).as_secs());
        assert_eq!(seconds, [1, 2, 4, 8, 16, 32, 60, 1]);
    }
}
