//! Who may do what, and how often.

pub(super) mod table;
pub(super) mod limit;
pub(super) mod store;
pub(super) mod store_address;
pub(super) mod list;
