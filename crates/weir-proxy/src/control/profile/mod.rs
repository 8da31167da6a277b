//! Where the CPU time and the memory of this process go, told by itself while it runs.
//!
//! `cpu` samples the threads that `threads` knows of, `unwind` makes addresses of a sample and `symbols` names of those; `memory` is what
//! the kernel says of the pages, beside what Weir has taken itself. All of it runs on a thread of its own. Must not touch the data path:
//! while nobody asks, nothing here runs.

pub(crate) mod cpu;
mod images;
mod maps;
pub(crate) mod memory;
pub(crate) mod symbols;
pub(crate) mod threads;
mod unwind;
