//! The unsafe code of this crate: samples of running threads, for profiles.
//!
//! Each block has its SAFETY comment. Must not know what a profile is.

#![expect(unsafe_code, reason = "registers and stacks of running threads are read in a signal handler")]

pub(crate) mod sampling;
