//! Who may do what, and how often.

pub(super) mod jwt;
pub(super) mod forward_auth;
pub(super) mod basic;
pub(super) mod limit;
pub(super) mod list;
pub(super) mod table;
