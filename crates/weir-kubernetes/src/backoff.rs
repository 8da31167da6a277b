//! Pauses between attempts that fail.

use std::time::Duration;

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest: after an outage, the state is that of the API server within 2 s.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pauses that double, each between half and the whole of its length: processes that failed together do not come back together.
#[derive(Debug)]
pub(crate) struct WatchBackoff {
    pause: Duration,
}

impl Default for WatchBackoff {
    fn default() -> Self {
        Self { pause: PAUSE_MIN }
    }
}

impl WatchBackoff {
    /// The next pause.
    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSE_MAX);
        pause.mul_f64(0.5 + fastrand::f64() / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        let mut backoff = WatchBackoff::default();
        let pauses: Vec<Duration> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] >= PAUSE_MIN / 2 && pauses[0] <= PAUSE_MIN);
        assert!(pauses[10..].iter().all(|pause| (PAUSE_MAX / 2..=PAUSE_MAX).contains(pause)));
        assert!(pauses[10..].windows(2).any(|two| two[0] != two[1]));
    }
}
