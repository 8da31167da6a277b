//! What nodes of a pair or a cluster tell each other.

pub(super) mod node;
pub(super) mod limit_exchange;
