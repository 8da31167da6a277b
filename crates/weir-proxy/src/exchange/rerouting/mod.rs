//! How a request comes to its route where that is not by what routes match alone: rewrites, routes by name, internal routes, and the way on from a
//! route that has nothing for it.
//!
//! The head of the request is changed where it stands ([`weir_http::RequestHead::replace_target`]), so that all later stages see one request. Each route
//! that it comes to is entered as if it had matched at first: its lists, limits and authentication are asked. Must not answer.

pub(in crate::exchange) mod find;
pub(in crate::exchange) mod accel;
pub(in crate::exchange) mod rewrites;
