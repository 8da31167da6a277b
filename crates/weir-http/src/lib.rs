//! Bytes to HTTP messages and back, and the first bytes of a connection: PROXY protocol and ClientHello.
//!
//! No I/O, no clock, no unsafe: everything here takes slices and returns spans. Items exported at the root belong to no
//! version of HTTP; those of HTTP/1 are in [`http1`], those of HTTP/2 in [`h2`], those of HTTP/3 in [`h3`]. What gRPC adds is in [`grpc`], servers of another
//! protocol are in [`fastcgi`]; [`resp`] is the protocol of Redis, in which nodes share limits.

#![forbid(unsafe_code)]

pub mod proxy_protocol;
mod client_hello;
pub mod fastcgi;
pub mod http1;
pub mod h2;
pub mod h3;
mod multiplexed;
pub mod grpc;
pub mod resp;
mod message;
pub mod digits;
mod bytes;
mod wall_time;

pub use client_hello::{CLIENT_HELLO_BYTES_MAX, ClientHello, HelloError, HelloProgress};
pub use message::authority::{Authority, normalize_authority};
pub use message::field_set::FieldSet;
pub use message::field_values::auth::authenticates_connection;
pub use message::field_values::client_address::{
    BadClientAddress, ClientAddressField, claimed_client_address,
};
pub use message::field_values::coding::{AcceptedCodings, ContentCoding, depends_on_coding};
pub use message::field_values::conditional::{ConditionOutcome, Validators, parse_date};
pub use message::field_values::connection::ConnectionOptions;
pub use message::field_values::date::{DATE_BYTES, date};
pub use message::field_values::forwarded::{
    ForwardedElement, ForwardedElements, ForwardedNode, ForwardedValue, client_address, forwarded,
    write_forwarded, x_forwarded_for,
};
pub use message::field_values::media_type::media_type;
pub use message::field_values::priority::Priority;
pub use message::field_values::range::{ByteRange, RangeSelection, select_ranges};
pub use message::field_values::retry_delay::retry_delay;
pub use message::field_values::traceparent::Traceparent;
pub use message::field_values::via::via_repeats;
pub use message::field_values::weight::weight_of;
pub use message::field_writer::{FieldRun, FieldWriter};
pub use message::fields::{Field, Fields};
pub use message::framing::Framing;
pub use message::limits::{ChunkedLimits, HeadLimits, Lenient, LenientChunks};
pub use message::method::Method;
pub use message::name::FieldName;
pub use message::path::{EncodedSlashRule, PathRules, write_normal_path};
pub use message::request::{Expectation, RequestHead};
pub use message::response::ResponseHead;
pub use message::rule::Rule;
pub use message::span::TextSpan;
pub use message::target::TargetForm;
pub use message::version::Version;
pub use wall_time::WallTime;
