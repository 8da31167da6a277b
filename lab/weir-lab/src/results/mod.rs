//! The results of a run as data: `run` measures them and `report` writes them. Nothing here measures or writes.

pub mod run;
pub mod capacity;
pub mod measurement;
pub mod record;
