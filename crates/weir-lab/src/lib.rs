//! The lab: compares Weir with other balancers on the user's own machine.
//!
//! A scenario (`lab/scenarios/`) asks a question; `run` starts each target in front of the origin, puts the load on,
//! measures, and repeats in interleaved rounds; `report` answers in a sentence per bar. Uses no crate that Weir is made of,
//! but for `profile`, which draws its flame graphs with `weir-observe`.
//! The modules below stand in the order in which a run passes through them.

pub mod clock;
pub mod wire;
pub mod origin;
pub mod load;
pub mod place;
pub mod process;
pub mod measure;
pub mod profile;
pub mod relay;
pub mod target;
pub mod scenario;
pub mod cli;
pub mod machine;
pub mod run;
pub mod report;
pub mod suite;
pub mod plan;
pub mod prove;
