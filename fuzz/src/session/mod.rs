//! A whole session under test: a client, Weir, and a server behind it.
//!
//! Weir runs as it does in the program, on a worker thread of its own and over Unix sockets. Client and server share
//! the thread of the fuzzer, which makes the order of what they see known. Nothing here uses `weir-http`: a mistake of
//! its parsers must not hide itself.

mod rig;
mod client;
mod response;
mod replies;
mod request;
mod memory;

pub(crate) use client::exchange;
pub(crate) use replies::{AnsweredMethod, ReadReplies, ReadReply, assert_exact_replies, read_replies};
pub(crate) use request::{ReadRequest, ReadRequests, RequestRecorder, read_requests};
pub(crate) use response::{HyperResponse, play, read_response};
pub(crate) use rig::Rig;
