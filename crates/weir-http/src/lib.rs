//! Bytes to HTTP messages and back, and the first bytes of a connection: PROXY protocol and ClientHello.
//!
//! No I/O, no clock, no unsafe: everything here takes slices and returns spans. Items exported at the root belong to no
//! version of HTTP; those of HTTP/1 are in [`http1`], those of HTTP/2 in [`h2`]. What gRPC adds is in [`grpc`], servers of another
//! protocol are in [`fastcgi`]; [`resp`] is the protocol of Redis, in which nodes share limits.

#![forbid(unsafe_code)]

pub mod proxy_protocol;
mod client_hello;
pub mod fastcgi;
pub mod http1;
pub mod h2;
pub mod grpc;
pub mod resp;
mod message;
pub mod digits;
mod bytes;
mod wall_time;

pub use client_hello::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloError, HelloProgress};
pub use message::auth::authenticates_connection;
pub use message::authority::{Authority, normalize_authority};
pub use message::coding::{AcceptedCodings, ContentCoding, depends_on_coding};
pub use message::conditional::{ConditionOutcome, Validators, parse_date};
pub use message::connection::ConnectionOptions;
pub use message::date::{DATE_BYTES, date};
pub use message::field_set::FieldSet;
pub use message::field_writer::{FieldRun, FieldWriter};
pub use message::fields::{Field, Fields};
pub use message::forwarded::{
    ForwardedElement, ForwardedElements, ForwardedNode, ForwardedValue, client_address, forwarded,
    write_forwarded, x_forwarded_for,
};
pub use message::framing::Framing;
pub use message::limits::{ChunkedLimits, HeadLimits, Lenient, LenientChunks};
pub use message::media_type::media_type;
pub use message::method::Method;
pub use message::name::FieldName;
pub use message::path::{EncodedSlashRule, PathRules, write_normal_path};
pub use message::priority::Priority;
pub use message::range::{ByteRange, RangeSelection, select_ranges};
pub use message::request::{Expectation, RequestHead};
pub use message::response::ResponseHead;
pub use message::retry_delay::retry_delay;
pub use message::rule::Rule;
pub use message::span::TextSpan;
pub use message::target::TargetForm;
pub use message::traceparent::Traceparent;
pub use message::version::Version;
pub use message::via::via_names;
pub use message::weight::weight_of;
pub use wall_time::WallTime;
