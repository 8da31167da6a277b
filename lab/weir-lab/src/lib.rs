//! The lab: compares Weir with other balancers on the user's own machine.
//!
//! A scenario (`lab/scenarios/`) asks a question; `run` starts each target in front of the origin, puts the load on,
//! measures, and repeats in interleaved rounds; `report` answers in a sentence per bar. Uses no crate that Weir is made of,
//! but for `profile`, which draws its flame graphs with `weir-observe`.
//! A module uses only those below it: commands, then the run and its results, then what a run is made of.

pub mod cli;
pub mod suite;
pub mod plan;
pub mod prove;
pub mod report;
pub mod run;
pub mod site;
pub mod results;
pub mod scenario;
pub mod profile;
pub mod target;
pub mod relay;
pub mod load;
pub mod origin;
pub mod topology;
pub mod wire;
pub mod measure;
pub mod process;
pub mod installed;
pub mod machine;
pub mod placement;
pub mod length;
pub mod clock;
