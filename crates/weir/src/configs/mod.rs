//! Commands about a config: is it valid, what becomes of one of another product, what would change, what does a request do.

pub(crate) mod check;
pub(crate) mod import;
pub(crate) mod explain;
pub(crate) mod plan;
