//! The threads of Weir by their names, and where their stacks are, for profiles. Each thread registers itself when it starts.
//!
//! Without the feature `profiler` nothing is kept of them.

#[cfg(not(feature = "profiler"))]
mod left_out;
#[cfg(feature = "profiler")]
mod registry;

#[cfg(not(feature = "profiler"))]
pub(crate) use left_out::{ThreadRegistration, register};
#[cfg(feature = "profiler")]
pub(crate) use registry::{ThreadRegistration, register, registered};
