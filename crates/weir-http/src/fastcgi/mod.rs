//! FastCGI 1.0 from the side of a web server: one request at a time on a connection, as responders such as PHP-FPM serve them.
//!
//! Records are written and read ([`RecordDecoder`]), parameters are gathered and encoded ([`Params`]), and what a script writes is read
//! as a response of CGI ([`CgiHeadParser`], RFC 3875 section 6). No multiplexing: the id of the request is always 1.

mod cgi_head;
mod decoder;
mod params;
mod record;

pub use cgi_head::{CgiHeadParser, CgiProgress};
pub use decoder::{RecordDecoder, RecordStep};
pub use params::{Params, is_param_name};
pub use record::{
    ProtocolStatus, RECORD_CONTENT_MAX, RECORD_HEADER_LEN, begin_request, end_of_stdin,
    ends_with_end_request, stdin_header,
};

#[cfg(test)]
mod tests;
