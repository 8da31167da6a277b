//! Commands about a config: is it valid, what would change, what does a request do.

pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod plan;
