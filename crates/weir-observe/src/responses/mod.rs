//! The body of a response of Weir's own, in the format that the client accepts.

pub(crate) mod local_reply;
pub(crate) mod accept;
