//! Bytes to HTTP/1 messages and back, and the first bytes of a connection: PROXY protocol and ClientHello.
//!
//! No I/O, no clock, no unsafe: everything here takes slices and gives spans.

#![forbid(unsafe_code)]

pub mod proxy_protocol;
mod client_hello;
mod rule;
mod span;
mod words;
mod bytes;
mod percent;
mod path;
mod limits;
mod method;
mod version;
mod authority;
mod target;
mod name;
mod fields;
mod field_set;
mod connection;
mod framing;
mod lines;
mod normal;
mod request_line;
mod request;
mod response;
mod extension;
mod chunked;
pub mod write;
mod forwarded;
mod via;
mod auth;
mod traceparent;

pub use auth::authenticates_connection;
pub use authority::Authority;
pub use chunked::{ChunkedDecoder, ChunkedLimits, Decoded, LenientChunks};
pub use client_hello::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloFault, HelloProgress};
pub use connection::ConnectionOptions;
pub use field_set::FieldSet;
pub use fields::{Field, Fields};
pub use forwarded::{
    Elements, Forwarded, Node, Value, client_address, forwarded, write_forwarded, x_forwarded_for,
};
pub use limits::{HeadLimits, Lenient};
pub use method::Method;
pub use name::FieldName;
pub use path::{EncodedSlash, PathRules, write_normal_path};
pub use request::{Expectation, Progress, RequestBody, RequestHead};
pub use response::{ResponseBody, ResponseHead};
pub use rule::Rule;
pub use span::Span;
pub use target::TargetForm;
pub use traceparent::Traceparent;
pub use version::Version;
pub use via::via_names;
