//! HTTP/2 to clients (RFC 9113): many streams on one connection, each with an exchange of its own.
//!
//! One task per connection reads, tells frames apart and writes; one task per stream runs its exchange. They share the
//! state of the connection: a stream appends its frames to the output and wakes the task of the connection, which writes what all
//! streams have appended in one turn of the event loop at once. Nothing above this folder knows that a connection has several streams.

mod turn;
mod receive;
mod tunnel;
mod stream;
mod reply;
mod body;
mod shared;
mod inbox;
mod growth;
mod schedule;
mod output;

pub(crate) use stream::{Http2Stream, StreamEnd};
pub(crate) use turn::{ClientFault, ConnectionEnd, Http2Connection, Standing};
