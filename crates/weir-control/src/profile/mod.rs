//! Where the CPU time and the memory of this process go, told by itself while it runs.
//!
//! `cpu` samples the threads that `threads` knows of, `unwind` makes addresses of a sample and `symbols` names of those; `memory` is what
//! the kernel says of the pages, beside what Weir has taken itself. All of it runs on a thread of its own. Must not touch the data path:
//! while nobody asks, nothing here runs.

pub(crate) mod cpu;
pub(crate) mod memory;
mod symbols;
mod unwind;
mod images;
mod maps;
