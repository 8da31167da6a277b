//! Commands about a running Weir, which they ask by its admin API.

pub(crate) mod upgrade;
pub(crate) mod why;
pub(crate) mod ctl;
pub(crate) mod report;
pub(crate) mod top;
pub(crate) mod admin_client;
