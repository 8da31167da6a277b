//! A raw client of HTTP/2 (RFC 9113): frames written by hand, HPACK by a library, not a line of Weir's codec.
//!
//! It reads as strictly as it writes loosely: what Weir must not send (a frame on a stream that is over, DATA beyond the window, a field of
//! HTTP/1) fails the test, whatever the test is about. Blocking: a step that waits reads frames until what it waits for is there.

pub(crate) mod frame;
mod hpack;
mod received;
mod client;
mod reading;

pub(crate) use client::{H2C, Http2Client, start, start_with, start_with_slots, start_with_tls};
