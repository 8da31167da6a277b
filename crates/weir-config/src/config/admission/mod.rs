//! Who may do what, and how often.

pub(super) mod access;
pub(super) mod rule_order;
pub(super) mod limit;
pub(super) mod trust;
pub(super) mod table;
pub(super) mod list;
