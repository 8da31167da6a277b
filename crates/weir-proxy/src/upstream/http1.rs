//! HTTP/1 to servers (RFC 9112): how a request is written.

use weir_http::{FieldLines, FieldWriter as _, RequestBody, Version, write};

/// What the head of a request says beside its fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestLine<'a> {
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) body: RequestBody,
    /// Whether the client has announced a length, which may be that of no body.
    pub(crate) announces_length: bool,
    /// The protocol that the client wants instead, if it may have it.
    pub(crate) upgrade: Option<&'a [u8]>,
    pub(crate) takes_trailers: bool,
    /// Whether the connection carries nothing else.
    pub(crate) close: bool,
}

/// Appends the head of a request, whose other fields `fields` adds.
#[inline]
pub(crate) fn write_request(
    staged: &mut Vec<u8>,
    head: &RequestLine<'_>,
    fields: impl FnOnce(&mut FieldLines),
) {
    let mut out = FieldLines(std::mem::take(staged));
    write::request_line(&mut out.0, head.method, head.target, Version::Http11);
    out.field(b"Host", head.host);
    fields(&mut out);
    match head.body {
        RequestBody::Length(len) => out.decimal_field(b"Content-Length", len),
        RequestBody::Chunked => out.lines(b"Transfer-Encoding: chunked\r\n"),
        RequestBody::None if head.announces_length => out.lines(b"Content-Length: 0\r\n"),
        RequestBody::None => {}
    }
    write_connection(&mut out, head);
    out.lines(b"\r\n");
    *staged = out.0;
}

fn write_connection(out: &mut FieldLines, head: &RequestLine<'_>) {
    if let Some(protocol) = head.upgrade {
        out.field(b"Connection", b"Upgrade");
        return out.field(b"Upgrade", protocol);
    }
    // RFC 9110 section 10.1.4: Connection has to name TE.
    out.lines(match (head.takes_trailers, head.close) {
        (true, true) => b"TE: trailers\r\nConnection: TE, close\r\n",
        (true, false) => b"TE: trailers\r\nConnection: TE\r\n",
        (false, true) => b"Connection: close\r\n",
        (false, false) => return,
    });
}
