//! Bytes to HTTP/1 messages and back.
//!
//! No I/O, no clock, no unsafe: everything here takes slices and gives spans.

#![forbid(unsafe_code)]

mod rule;

pub use rule::Rule;
