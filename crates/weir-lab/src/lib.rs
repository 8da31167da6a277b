//! The lab: compares Weir with other balancers on the user's own machine.
//!
//! A scenario (`lab/scenarios/`) asks a question; `run` starts each target in front of the origin, puts the load on,
//! measures, and repeats in interleaved rounds; `report` answers in a sentence per bar. Uses no other crate of Weir,
//! but for `simulate`, which puts the decisions of `weir-traffic` into a made-up world and measures nothing.
//! The modules below stand in the order in which a run passes through them.

pub mod clock;
pub mod wire;
pub mod origin;
pub mod load;
pub mod place;
pub mod process;
pub mod measure;
pub mod stats;
pub mod profile;
pub mod relay;
pub mod target;
pub mod scenario;
pub mod cli;
mod output;
pub mod machine;
pub mod run;
mod plot;
pub mod report;
pub mod suite;
pub mod plan;
pub mod prove;
pub mod simulate;
