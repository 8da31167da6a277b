//! The lab's own reading of HTTP: requests for the origin, responses for the driver.
//!
//! Written apart from the proxy's codec on purpose: were both made of the same code, a mistake in it would be
//! invisible here. Covers heads, body framing, the known body pattern, WebSocket frames and some of HTTP/2 and HTTP/3; it is not a general HTTP library.

pub mod http3;
pub mod http2;
pub mod websocket;
pub mod chunked;
pub mod fields;
pub mod pattern;
pub mod checksum;
