//! Statistics and their presentation: what the lab (`weir-lab`), which measures, and the simulator (`weir-sim`), which computes, share.
//!
//! Random numbers and distributions, estimates with their intervals, tables, plots, and the terminal that a command prints to.
//! Knows no other crate of Weir and reads no clock; everything but `terminal` is a pure function of its arguments.

pub mod terminal;
pub mod plot;
pub mod table;
pub mod runs;
pub mod trend;
pub mod estimate;
pub mod distribution;
pub mod random;
