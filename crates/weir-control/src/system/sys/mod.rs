//! The unsafe code of this crate: filters of system calls, descriptors of the supervisor, a copy of the process, figures of sockets, and samples of running threads, for profiles.
//!
//! Each block has its SAFETY comment. Must not know what a profile is, nor which calls are allowed.

#![expect(
    unsafe_code,
    reason = "structures for the kernel; registers and stacks of running threads are read in a signal handler"
)]

#[cfg(feature = "profiler")]
pub(crate) mod sampling;
pub(crate) mod seccomp;
pub(crate) mod inherited;
pub(crate) mod fork;
pub(crate) mod socket_memory;
