//! What is known of the copies that a route sends to its mirror: how many run, and the last differences.
//!
//! Shared by the workers and carried over reloads. The lock is taken only for a difference.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use weir_http::grpc::GrpcStatus;

use crate::net::clock::{self, Instant};

/// Routes of the mirror that differences are counted for.
const ROUTES_MAX: usize = 256;

/// Differences that are kept of each route.
pub const DIFFERENCES_KEPT: usize = 64;

/// The pause between two lines of the log about one route.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// The mirror of a route.
#[derive(Debug, Default)]
pub struct MirrorState {
    open: AtomicU32,
    recent: Mutex<RecentDifferences>,
}

#[derive(Debug, Default)]
struct RecentDifferences {
    kept: VecDeque<MirrorDifference>,
    /// How many there were in status, headers and body, by the route of the mirror that has answered.
    by_route: BTreeMap<Box<str>, [u64; 3]>,
    logged_at: Option<Instant>,
    /// Since the last line.
    unlogged: u64,
}

/// Two responses to the same request that are not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorDifference {
    /// When it was found, in seconds since 1970.
    pub at: u64,
    /// The method of the request.
    pub method: Box<str>,
    /// Its target as the client sent it.
    pub target: Box<str>,
    /// Its id; empty without one.
    pub request_id: Box<str>,
    /// The status of the response that the client got.
    pub status: u16,
    /// That of the mirror.
    pub mirror_status: u16,
    /// How the call of gRPC has ended on both sides, if that differs.
    pub calls: Option<[GrpcStatus; 2]>,
    /// Names of headers that differ.
    pub headers: Vec<Box<str>>,
    /// The digests of both bodies, if these differ.
    pub bodies: Option<[BodyDigest; 2]>,
    /// Whether status, headers and body differ, as far as they are compared.
    pub differ: [bool; 3],
    /// What the mirror says of the route that has answered.
    pub answered_by: Option<Box<str>>,
}

/// A body, known by its length and 128 bits of its SHA-256.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BodyDigest {
    /// Bytes.
    pub len: u64,
    /// The first half of the hash.
    pub hash: u128,
}

impl MirrorState {
    /// The last differences, the latest first.
    pub fn differences(&self) -> Vec<MirrorDifference> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.kept.iter().rev().cloned().collect()
    }

    /// How many there were in status, headers and body, by the route of the mirror that has answered: those with most first.
    pub fn differences_by_route(&self) -> Vec<(Box<str>, [u64; 3])> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts: Vec<_> =
            recent.by_route.iter().map(|(route, counts)| (route.clone(), *counts)).collect();
        drop(recent);
        counts.sort_by_key(|(_, counts)| std::cmp::Reverse(counts.iter().sum::<u64>()));
        counts
    }

    /// Begins a copy, if fewer than `max` run.
    pub(crate) fn try_begin(&self, max: u32) -> bool {
        let one_more = |open| (open < max).then_some(open + 1);
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).is_ok()
    }

    /// A copy is over.
    pub(crate) fn end(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Keeps a difference; how many have come since the last line of the log, when it is time for one.
    pub(crate) fn note(&self, difference: MirrorDifference) -> Option<u64> {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.kept.len() == DIFFERENCES_KEPT {
            recent.kept.pop_front();
        }
        recent.count(&difference);
        recent.kept.push_back(difference);
        recent.unlogged += 1;
        let now = clock::now();
        if recent.logged_at.is_some_and(|at| now < at + LOG_INTERVAL) {
            return None;
        }
        recent.logged_at = Some(now);
        Some(std::mem::take(&mut recent.unlogged))
    }
}

impl RecentDifferences {
    fn count(&mut self, difference: &MirrorDifference) {
        let Some(route) = &difference.answered_by else { return };
        // The names come from a server: there are no more than a config could have.
        if self.by_route.len() >= ROUTES_MAX && !self.by_route.contains_key(route) {
            return;
        }
        let counts = self.by_route.entry(route.clone()).or_default();
        for (count, differs) in counts.iter_mut().zip(difference.differ) {
            *count += u64::from(differs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(status: u16) -> MirrorDifference {
        MirrorDifference {
            at: 0,
            method: "GET".into(),
            target: "/".into(),
            request_id: "".into(),
            status,
            mirror_status: 200,
            calls: None,
            headers: Vec::new(),
            bodies: None,
            differ: [true, false, false],
            answered_by: None,
        }
    }

    #[test]
    fn differences_are_counted_by_the_route_that_has_answered() {
        let state = MirrorState::default();
        let by = |route: &str| MirrorDifference { answered_by: Some(route.into()), ..difference(404) };
        state.note(MirrorDifference { differ: [false, true, false], ..by("one") });
        state.note(by("two"));
        state.note(MirrorDifference { differ: [true, false, true], ..by("two") });
        state.note(difference(404));
        assert_eq!(state.differences_by_route(), [("two".into(), [2, 0, 1]), ("one".into(), [0, 1, 0])]);
        for number in 0..1_000 {
            state.note(by(&number.to_string()));
        }
        assert_eq!(state.differences_by_route().len(), ROUTES_MAX);
    }

    #[test]
    fn the_last_differences_are_kept_and_the_log_has_a_line_in_a_while() {
        let state = MirrorState::default();
        let lines = (0..100).filter_map(|status| state.note(difference(status))).count();
        assert!((1..100).contains(&lines), "{lines}");
        let kept = state.differences();
        assert_eq!((kept.len(), kept[0].status), (DIFFERENCES_KEPT, 99));
    }

    #[test]
    fn no_more_run_than_may() {
        let state = MirrorState::default();
        assert!(state.try_begin(2) && state.try_begin(2) && !state.try_begin(2));
        state.end();
        assert!(state.try_begin(2));
    }
}
