//! Heads of HTTP/2 (RFC 9113 section 8) and HTTP/3 (RFC 9114 section 4): lines to heads, checked in full, and heads to lines.

pub(crate) mod request;
mod cookie;
pub(crate) mod response;
pub(crate) mod trailers;
pub(crate) mod section;
pub(crate) mod pseudo_fields;
pub(crate) mod head_lines;
