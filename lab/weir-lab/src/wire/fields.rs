//! Lines and fields of an HTTP/1.1 head (RFC 9112 2.1, 5), strict: CRLF only, no space before the colon, no folding.
//!
//! Works on the bytes as received and copies nothing. Knows only the fields that decide framing, persistence and upgrades,
//! and the one that gives out cookies; which of them must or may be there is decided by the reader of requests and the reader of responses.

/// How the length of a message body is known (RFC 9112 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// Neither Content-Length nor Transfer-Encoding was given.
    Unstated,
    /// Content-Length, in bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// The meaning of the fields of a head: framing, persistence, cookies and upgrades.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeadFields<'a> {
    /// How the body ends.
    pub framing: BodyFraming,
    /// `Connection: close` was given.
    pub close: bool,
    /// `Connection: keep-alive` was given.
    pub keep_alive: bool,
    /// `Expect: 100-continue` was given.
    pub expects_continue: bool,
    /// Number of Host fields.
    pub hosts: u32,
    /// The value of Set-Cookie, the last one if there are several.
    pub set_cookie: Option<&'a [u8]>,
    /// `Connection: upgrade` was given.
    pub upgrade: bool,
    /// `Upgrade: websocket` was given.
    pub websocket: bool,
    /// The value of Sec-WebSocket-Key.
    pub websocket_key: Option<&'a [u8]>,
    /// The value of Sec-WebSocket-Accept.
    pub websocket_accept: Option<&'a [u8]>,
}

/// Why a head is not HTTP/1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedHead(pub &'static str);

impl std::fmt::Display for MalformedHead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// Length of the head at the start of `bytes`, its empty line included; `None` while that has not arrived.
pub fn head_len(bytes: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, b"\r\n\r\n").map(|at| at + 4)
}

/// Splits the first line off a head: the line without its CRLF, and the rest.
pub fn split_line(head: &[u8]) -> Result<(&[u8], &[u8]), MalformedHead> {
    let end = memchr::memchr(b'\n', head).ok_or(MalformedHead("a line does not end"))?;
    match head[..end].strip_suffix(b"\r") {
        Some(line) if memchr::memchr(b'\r', line).is_none() => Ok((line, &head[end + 1..])),
        Some(_) => Err(MalformedHead("a bare CR in a line")),
        None => Err(MalformedHead("a line ends with a bare LF")),
    }
}

/// Reads the field lines of a head, from after the first line to the empty line.
pub fn read(lines: &[u8]) -> Result<HeadFields<'_>, MalformedHead> {
    let mut fields = HeadFields {
        framing: BodyFraming::Unstated,
        close: false,
        keep_alive: false,
        expects_continue: false,
        hosts: 0,
        set_cookie: None,
        upgrade: false,
        websocket: false,
        websocket_key: None,
        websocket_accept: None,
    };
    let mut rest = lines;
    loop {
        let (line, after) = split_line(rest)?;
        if line.is_empty() {
            return Ok(fields);
        }
        rest = after;
        let colon = memchr::memchr(b':', line).ok_or(MalformedHead("a field line without a colon"))?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.is_empty() || name.iter().any(|byte| byte.is_ascii_whitespace()) {
            return Err(MalformedHead("an empty field name or a space in it"));
        }
        note(&mut fields, name, value)?;
    }
}

/// Takes one field into account. Lengths first: most fields are none of these and cost one comparison.
fn note<'a>(fields: &mut HeadFields<'a>, name: &[u8], value: &'a [u8]) -> Result<(), MalformedHead> {
    match name.len() {
        4 if name.eq_ignore_ascii_case(b"host") => fields.hosts += 1,
        6 if name.eq_ignore_ascii_case(b"expect") => {
            fields.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
        }
        7 if name.eq_ignore_ascii_case(b"upgrade") => {
            fields.websocket |= value.eq_ignore_ascii_case(b"websocket");
        }
        10 if name.eq_ignore_ascii_case(b"connection") => {
            for option in value.split(|&byte| byte == b',') {
                let option = option.trim_ascii();
                fields.close |= option.eq_ignore_ascii_case(b"close");
                fields.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                fields.upgrade |= option.eq_ignore_ascii_case(b"upgrade");
            }
        }
        10 if name.eq_ignore_ascii_case(b"set-cookie") => fields.set_cookie = Some(value),
        14 if name.eq_ignore_ascii_case(b"content-length") => {
            let length =
                BodyFraming::Length(decimal(value).ok_or(MalformedHead("Content-Length is not a number"))?);
            if fields.framing != BodyFraming::Unstated && fields.framing != length {
                return Err(MalformedHead("Content-Length contradicts another length"));
            }
            fields.framing = length;
        }
        17 if name.eq_ignore_ascii_case(b"sec-websocket-key") => fields.websocket_key = Some(value),
        20 if name.eq_ignore_ascii_case(b"sec-websocket-accept") => fields.websocket_accept = Some(value),
        17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
            if !value.eq_ignore_ascii_case(b"chunked") || fields.framing != BodyFraming::Unstated {
                return Err(MalformedHead("Transfer-Encoding is not chunked alone"));
            }
            fields.framing = BodyFraming::Chunked;
        }
        _ => {}
    }
    Ok(())
}

/// A decimal number of 1 to 18 digits and nothing else.
pub fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::{BodyFraming, MalformedHead, decimal, head_len, read, split_line};

    #[test]
    fn framing_and_persistence_are_found_whatever_the_case() {
        let fields = read(b"Host: a\r\nCONTENT-length: 12\r\nconnection: x, Close\r\n\r\n").unwrap();
        assert_eq!((fields.framing, fields.close, fields.keep_alive), (BodyFraming::Length(12), true, false));
        assert_eq!(fields.hosts, 1);
        let fields = read(b"transfer-encoding: Chunked\r\nConnection: Keep-Alive\r\n\r\n").unwrap();
        assert_eq!((fields.framing, fields.close, fields.keep_alive), (BodyFraming::Chunked, false, true));
        assert!(read(b"Expect: 100-Continue\r\n\r\n").unwrap().expects_continue);
    }

    #[test]
    fn the_last_cookie_that_is_given_is_found() {
        assert_eq!(read(b"Cookie: a=1\r\n\r\n").unwrap().set_cookie, None);
        let fields = read(b"Set-Cookie: a=1\r\nset-cookie: b=2; Path=/\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(fields.set_cookie, Some(&b"b=2; Path=/"[..]));
    }

    #[test]
    fn an_opening_of_websocket_is_found() {
        let fields =
            read(b"Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\nSec-WebSocket-Key: k\r\n\r\n");
        let fields = fields.unwrap();
        assert!(fields.upgrade && fields.websocket && !fields.close);
        assert_eq!((fields.websocket_key, fields.websocket_accept), (Some(&b"k"[..]), None));
        let fields = read(b"Upgrade: h2c\r\nSec-WebSocket-Accept: a\r\n\r\n").unwrap();
        assert!(!fields.upgrade && !fields.websocket);
        assert_eq!((fields.websocket_key, fields.websocket_accept), (None, Some(&b"a"[..])));
    }

    #[test]
    fn input_that_is_not_http_is_rejected() {
        for (lines, rule) in [
            (&b"Host: a\n\r\n"[..], "a line ends with a bare LF"),
            (b"Host\r\n\r\n", "a field line without a colon"),
            (b"Host : a\r\n\r\n", "an empty field name or a space in it"),
            (b": a\r\n\r\n", "an empty field name or a space in it"),
            (b"X: a\rb\r\n\r\n", "a bare CR in a line"),
            (b"Content-Length: 1x\r\n\r\n", "Content-Length is not a number"),
            (b"Content-Length: +1\r\n\r\n", "Content-Length is not a number"),
            (b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "Content-Length contradicts another length"),
            (
                b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                "Transfer-Encoding is not chunked alone",
            ),
            (
                b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
                "Content-Length contradicts another length",
            ),
            (b"Transfer-Encoding: gzip, chunked\r\n\r\n", "Transfer-Encoding is not chunked alone"),
            (b"Host: a\r\n", "a line does not end"),
        ] {
            assert_eq!(read(lines), Err(MalformedHead(rule)), "{}", lines.escape_ascii());
        }
    }

    #[test]
    fn heads_and_lines_are_split_at_crlf() {
        assert_eq!(head_len(b"GET / HTTP/1.1\r\n\r\nrest"), Some(18));
        assert_eq!(head_len(b"GET / HTTP/1.1\r\n\r"), None);
        assert_eq!(split_line(b"a b\r\nc"), Ok((&b"a b"[..], &b"c"[..])));
    }

    #[test]
    fn numbers_are_digits_only() {
        for (text, number) in
            [("0", Some(0)), ("005", Some(5)), ("999999999999999999", Some(999_999_999_999_999_999))]
        {
            assert_eq!(decimal(text.as_bytes()), number, "{text}");
        }
        for text in ["", "-1", "1 ", "1000000000000000000", "1a"] {
            assert_eq!(decimal(text.as_bytes()), None, "{text}");
        }
    }
}
