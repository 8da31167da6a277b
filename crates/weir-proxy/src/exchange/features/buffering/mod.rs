//! Bodies that are taken in before they go on: of requests and of responses.

pub(in crate::exchange) mod response;
pub(in crate::exchange) mod request;
