//! The results of a run as data: what `run` measures and `report` writes down. Nothing here measures or writes.

pub mod run;
pub mod capacity;
pub mod measurement;
pub mod record;
