//! `POST /api/profile/cpu` and `/api/profile/memory`: where the time and the memory of this process go.
//!
//! For those who may change things: profiles cost CPU time, and the names of functions say what runs.

#[cfg(feature = "profiler")]
mod endpoints;
#[cfg(not(feature = "profiler"))]
mod left_out;

#[cfg(feature = "profiler")]
pub(super) use endpoints::answer;
#[cfg(not(feature = "profiler"))]
pub(super) use left_out::answer;

/// Where profiles are.
pub(super) const BELOW: &[u8] = b"/api/profile/";
