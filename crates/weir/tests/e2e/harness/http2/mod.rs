//! A raw client and a raw server of HTTP/2 (RFC 9113): frames written by hand, HPACK by a library, not a line of Weir's codec.
//!
//! They read as strictly as they write loosely: what Weir must not send (a frame on a stream that is over, DATA beyond the window, a field of
//! HTTP/1) fails the test, whatever the test is about. Blocking: a step that waits reads frames until what it waits for is there.

pub(crate) mod frame;
mod hpack;
mod received;
mod client;
mod reading;
pub(crate) mod server;

pub(crate) use client::{H2C, Http2Client, start, start_with, start_with_slots, start_with_tls};
