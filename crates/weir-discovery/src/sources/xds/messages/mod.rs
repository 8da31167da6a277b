//! The messages of xDS that Weir reads and writes, with the fields that it uses, after the definitions of Envoy (`envoy/.../v3/*.proto`). Fields
//! that are not here are skipped when a message is read; `wire` names those that are set. Plain data.

pub(super) mod discovery;
pub(super) mod cluster;
pub(super) mod endpoint;
pub(super) mod base;
pub(super) mod wire;
