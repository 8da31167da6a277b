//! The points at which the features of a route act, in their order.
//!
//! Between the phases of [`super::run`]: at each point stands which feature acts there, and in which order. A route that has none of them costs a test
//! of one flag per point.

pub(in crate::exchange) mod failed;
pub(in crate::exchange) mod request_head;
pub(in crate::exchange) mod before_server;
pub(in crate::exchange) mod server_chosen;
pub(in crate::exchange) mod response_head;
pub(in crate::exchange) mod response_body;
