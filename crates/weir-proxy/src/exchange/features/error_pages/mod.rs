//! Pages in place of the responses of servers: which, and where they come from.

pub(in crate::exchange) mod stored;
pub(in crate::exchange) mod intercept;
pub(in crate::exchange) mod lead_on;
pub(crate) mod remote_page;
