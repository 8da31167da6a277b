//! The targets: each takes any bytes, and panics when they show a fault.
//!
//! The corpus, the program and the test of a target have its name ([`crate::replay`] has the tests).

pub mod cache_directives;
pub mod cache_file;
pub mod chunked;
pub mod client_hello;
pub mod conditions;
pub mod dns_response;
pub mod fastcgi;
pub mod forwarded;
pub mod grpc;
pub mod h2_connection;
pub mod h3_request_stream;
pub mod h2_head;
pub mod h3_frames;
pub mod hpack;
pub mod import;
pub mod maps;
pub mod proxy_protocol;
pub mod qpack_decoder;
pub mod qpack_pair;
pub mod request_head;
pub mod resp;
pub mod response_head;
pub mod session_requests;
pub mod session_responses;
