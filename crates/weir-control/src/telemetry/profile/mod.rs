//! Profiles of this process while it runs: where its CPU time and its memory go.
//!
//! `cpu` samples the threads that `threads` has registered, `unwind` turns a sample into addresses and `symbols` those into names;
//! `memory` joins what the kernel reports of the pages with what Weir has allocated. All of it runs on a thread of its own. Must not touch
//! the data path: without a request for a profile, nothing here runs.

pub(crate) mod cpu;
pub(crate) mod memory;
mod symbols;
mod unwind;
mod images;
mod maps;
