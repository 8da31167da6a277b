//! HTTP/2 (RFC 9113) as both sides of Weir speak it: many streams on one connection.
//!
//! One task per connection reads, tells frames apart and writes; each stream belongs to the task of its exchange. They share the state of
//! the connection: a stream appends its frames to the output and wakes the task of the connection, which writes what all streams have
//! appended in one turn of the event loop at once. What a head is, and what a stream means, is up to the [`shared::ConnectionSide`].

pub(crate) mod multiplexer;
pub(crate) mod receive;
mod tunnel;
pub(crate) mod handle;
pub(crate) mod outgoing;
pub(crate) mod body;
pub(crate) mod shared;
pub(crate) mod inbox;
mod growth;
mod schedule;
mod output;
