//! What must not happen, and what is counted when it does.

pub mod faults;
pub(crate) mod crash;
pub mod framing_violations;
