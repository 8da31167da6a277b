//! What objects are chosen by: hosts and labels.

pub(super) mod hosts;
pub(super) mod selectors;
