//! How long the thread that probes rests between two rounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_proxy::net::clock;

/// Probes per second from which the thread rests between its looks.
const BUSY: f64 = 200.0;

/// How long it rests, and by how much a probe may then start late and seem to last longer.
const REST: Duration = Duration::from_millis(16);

/// How long the thread rests between its looks, in milliseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadPause(Arc<AtomicU64>);

impl ThreadPause {
    /// Adapts it to this many probes per second; returns it.
    pub(super) fn set_for(&self, per_second: f64) -> Duration {
        let pause_ = if per_second < BUSY { Duration::ZERO } else { REST };
        self.0.store(pause_.as_millis() as u64, Ordering::Relaxed);
        pause_
    }

    pub(super) fn take(&self) {
        let millis = self.0.load(Ordering::Relaxed);
        if millis > 0 {
            clock::pause(Duration::from_millis(millis));
        }
    }
}
