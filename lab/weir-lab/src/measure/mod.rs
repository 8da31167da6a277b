//! The use of a process tree and a CPU between two moments, from `/proc`.
//!
//! `metric` names the figures and their units. `cpu`: time on CPU of every thread of a tree, user and system apart.
//! `busy`: how busy a whole CPU was. `memory`: resident memory of a tree, and what it is for. `sockets`: connections in
//! TIME_WAIT and open descriptors. `softirq`: kernel threads that work for the lab without being its children. `distance`: how far apart the two
//! CPUs of a run are just then. Only `distance` does anything but read; a snapshot costs well under a millisecond, the distance 30.

pub mod metric;
pub mod cpu;
pub mod busy;
pub mod memory;
pub mod distance;
pub mod sockets;
pub mod softirq;
