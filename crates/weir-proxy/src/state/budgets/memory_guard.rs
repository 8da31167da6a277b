//! What the workers know of the memory of the process: how far they go to free some, and how many connections it has room for.
//!
//! The control plane measures and writes, a worker reads: one atomic for each accepted connection, nothing for a request. Between two
//! measurements each new connection is charged a fixed sum, so that a flood cannot outrun them. Must not measure anything itself.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering};

use tokio::sync::oneshot;
use weir_observe::{MemoryFreedStats, MemoryStep};

/// What a new connection is charged beside one buffer until it is measured: its state, and what the kernel keeps for it.
const CONNECTION_BYTES: i64 = 8 * 1024;

/// The memory of the process, as far as it concerns the workers.
#[derive(Debug)]
pub struct MemoryGuard {
    step: AtomicU8,
    /// Bytes that new connections may take before the next measurement.
    room: AtomicI64,
    /// Whether connections for which there is no room are refused; else they wait.
    refuses: AtomicBool,
    /// Whether a request had to wait for a buffer since the last look.
    is_starved: AtomicBool,
    idle_closed: AtomicU64,
    slow_ended: AtomicU64,
    refused: AtomicU64,
}

impl Default for MemoryGuard {
    /// Without a budget.
    fn default() -> Self {
        Self {
            step: AtomicU8::new(0),
            room: AtomicI64::new(i64::MAX),
            refuses: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            idle_closed: AtomicU64::new(0),
            slow_ended: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }
}

/// What becomes of a new connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionAdmission {
    /// It is accepted.
    Accept,
    /// It stays in the backlog for the time being.
    Wait,
    /// It is accepted and closed.
    Refuse,
}

impl MemoryGuard {
    /// How far the workers go now.
    pub fn step(&self) -> MemoryStep {
        MemoryStep::at(self.step.load(Ordering::Relaxed))
    }

    /// Takes over a measurement: the step, the bytes that new connections may take (`None`: any number), and whether they are refused
    /// when these are used up.
    pub fn set(&self, step: MemoryStep, room: Option<u64>, refuses: bool) {
        self.step.store(step as u8, Ordering::Relaxed);
        let room = room.map_or(i64::MAX, |room| i64::try_from(room).unwrap_or(i64::MAX));
        self.room.store(room, Ordering::Relaxed);
        self.refuses.store(refuses, Ordering::Relaxed);
    }

    /// Whether a request had to wait for a buffer since the last call.
    pub fn take_starved(&self) -> bool {
        self.is_starved.swap(false, Ordering::Relaxed)
    }

    /// What was given up since the start.
    pub fn freed(&self) -> MemoryFreedStats {
        MemoryFreedStats {
            idle_closed: self.idle_closed.load(Ordering::Relaxed),
            slow_ended: self.slow_ended.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Whether there is room for one more connection with a buffer of `buffer_size`, which is charged then.
    #[inline]
    pub(crate) fn admit(&self, buffer_size: usize) -> ConnectionAdmission {
        let charge = CONNECTION_BYTES + buffer_size as i64;
        if self.room.load(Ordering::Relaxed) >= charge {
            // Workers that do so at the same moment overdraw it by a connection each.
            self.room.fetch_sub(charge, Ordering::Relaxed);
            return ConnectionAdmission::Accept;
        }
        if self.refuses.load(Ordering::Relaxed) {
            ConnectionAdmission::Refuse
        } else {
            ConnectionAdmission::Wait
        }
    }

    /// A request has to wait for a buffer.
    #[cold]
    pub(crate) fn note_starved(&self) {
        self.is_starved.store(true, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count_idle_closed(&self) {
        self.idle_closed.fetch_add(1, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count_slow_ended(&self, count: usize) {
        self.slow_ended.fetch_add(count as u64, Ordering::Relaxed);
    }

    #[cold]
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// What a worker has to free.
#[derive(Debug)]
pub struct MemoryOrder {
    /// Idle client connections to close at most, the longest idle first.
    pub idle_max: usize,
    /// Whether idle server connections, and files that are kept open, are closed.
    pub closes_idle_servers: bool,
    /// Exchanges to end at most, those of the slowest clients first.
    pub slow_max: usize,
    /// Told when it is done: how many were closed and ended.
    pub done: oneshot::Sender<(usize, usize)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_budget_every_connection_is_accepted() {
        let guard = MemoryGuard::default();
        for _ in 0..10_000 {
            assert_eq!(guard.admit(1 << 20), ConnectionAdmission::Accept);
        }
        assert_eq!(guard.step(), MemoryStep::Normal);
    }

    #[test]
    fn a_flood_between_two_measurements_ends_at_the_room_that_there_is() {
        let guard = MemoryGuard::default();
        let charge = CONNECTION_BYTES as u64 + 16_384;
        guard.set(MemoryStep::Slow, Some(10 * charge + 1), false);
        let accepted = (0..100).take_while(|_| guard.admit(16_384) == ConnectionAdmission::Accept).count();
        assert_eq!((accepted, guard.admit(16_384)), (10, ConnectionAdmission::Wait));
        guard.set(MemoryStep::Refuse, Some(0), true);
        assert_eq!((guard.admit(16_384), guard.step()), (ConnectionAdmission::Refuse, MemoryStep::Refuse));
        guard.set(MemoryStep::Normal, None, false);
        assert_eq!(guard.admit(16_384), ConnectionAdmission::Accept);
    }

    #[test]
    fn a_wait_for_a_buffer_is_told_once() {
        let guard = MemoryGuard::default();
        guard.note_starved();
        assert!(guard.take_starved() && !guard.take_starved());
    }
}
