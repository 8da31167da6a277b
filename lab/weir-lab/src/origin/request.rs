//! Reads one request head: method, target, version and how the body ends (RFC 9112 3, 6).
//!
//! Strict: input that a correct proxy never sends is answered with 400, so that a proxy which passes it on is detected.

use crate::wire::fields::{self, BodyFraming, HeadFields, MalformedHead};
use crate::wire::websocket;

/// The methods the origin treats differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OriginMethod {
    /// GET.
    Get,
    /// HEAD: the answer has no body.
    Head,
    /// Any other token.
    Other,
}

/// One request head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginRequest<'a> {
    /// Method.
    pub method: OriginMethod,
    /// Target as received.
    pub target: &'a [u8],
    /// The client speaks HTTP/1.1, and so understands chunks.
    pub is_1_1: bool,
    /// Whether the connection may carry another request afterwards.
    pub keep_alive: bool,
    /// How the request body ends; `Unstated` means there is none.
    pub framing: BodyFraming,
    /// The client waits for `100 Continue`.
    pub expects_continue: bool,
    /// The client asks for WebSocket, as it should.
    pub is_opening: bool,
    /// Length of the head, in bytes.
    pub len: usize,
}

/// Longest head the origin reads, in bytes.
pub const HEAD_MAX: usize = 64 * 1024;

/// Reads the head at the start of `bytes`; `None` while it is incomplete.
///
/// # Errors
/// The rule that was broken.
pub fn read(bytes: &[u8]) -> Result<Option<OriginRequest<'_>>, MalformedHead> {
    let Some(len) = fields::head_len(bytes) else {
        return if bytes.len() > HEAD_MAX { Err(MalformedHead("a head over 64 KiB")) } else { Ok(None) };
    };
    let (line, lines) = fields::split_line(&bytes[..len])?;
    let mut words = line.split(|&byte| byte == b' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(MalformedHead("a request line is method, target and version"));
    };
    if method.is_empty() || !method.iter().all(u8::is_ascii_alphabetic) || target.is_empty() {
        return Err(MalformedHead("a method or target that is none"));
    }
    let is_1_1 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ => return Err(MalformedHead("neither HTTP/1.1 nor HTTP/1.0")),
    };
    let fields = fields::read(lines)?;
    if fields.hosts > 1 || (is_1_1 && fields.hosts == 0) {
        return Err(MalformedHead("not exactly one Host field"));
    }
    if !is_1_1 && fields.framing == BodyFraming::Chunked {
        return Err(MalformedHead("chunked in HTTP/1.0"));
    }
    Ok(Some(OriginRequest {
        method: match method {
            b"GET" => OriginMethod::Get,
            b"HEAD" => OriginMethod::Head,
            _ => OriginMethod::Other,
        },
        target,
        is_1_1,
        keep_alive: !fields.close && (is_1_1 || fields.keep_alive),
        framing: fields.framing,
        expects_continue: is_1_1 && fields.expects_continue,
        is_opening: is_opening(method, &fields)? && is_1_1,
        len,
    }))
}

/// Whether a request opens WebSocket (RFC 6455 4.1). One with `Upgrade` and without the rest is broken.
fn is_opening(method: &[u8], fields: &HeadFields<'_>) -> Result<bool, MalformedHead> {
    if !fields.websocket {
        return Ok(false);
    }
    let is_whole = method == b"GET" && fields.upgrade && fields.framing == BodyFraming::Unstated;
    if !is_whole || fields.websocket_key != Some(websocket::KEY.as_bytes()) {
        return Err(MalformedHead("an opening of WebSocket without what belongs to it"));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{OriginMethod, read};
    use crate::wire::fields::BodyFraming;

    #[test]
    fn a_head_determines_the_body_behind_it() {
        let bytes = b"POST /checksum HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET";
        let head = read(bytes).unwrap().unwrap();
        assert_eq!(
            (head.method, head.target, head.framing),
            (OriginMethod::Other, &b"/checksum"[..], BodyFraming::Length(3))
        );
        assert_eq!(&bytes[head.len..], b"abcGET");
        assert!(head.keep_alive);
    }

    #[test]
    fn persistence_follows_version_and_connection() {
        for (bytes, keep_alive) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            ("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", false),
            ("GET / HTTP/1.0\r\n\r\n", false),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", true),
        ] {
            assert_eq!(read(bytes.as_bytes()).unwrap().unwrap().keep_alive, keep_alive, "{bytes}");
        }
    }

    #[test]
    fn an_opening_of_websocket_is_known_by_all_of_it() {
        let key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let ask = |line: &str, fields: &str| {
            let bytes = format!("{line}\r\nHost: a\r\n{fields}\r\n");
            read(bytes.as_bytes()).map(|head| head.unwrap().is_opening)
        };
        let both = format!("Upgrade: websocket\r\nConnection: Upgrade\r\n{key}");
        assert_eq!(ask("GET / HTTP/1.1", &both), Ok(true));
        assert_eq!(ask("GET / HTTP/1.1", key), Ok(false));
        for (line, fields) in [
            ("POST / HTTP/1.1", both.clone()),
            ("GET / HTTP/1.1", format!("Upgrade: websocket\r\n{key}")),
            ("GET / HTTP/1.1", both.replace("dG", "dg")),
            ("GET / HTTP/1.1", format!("{both}Content-Length: 0\r\n")),
        ] {
            assert!(ask(line, &fields).is_err(), "{line} {fields}");
        }
    }

    #[test]
    fn an_incomplete_head_is_awaited() {
        let whole = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        for len in 0..whole.len() {
            assert_eq!(read(&whole[..len]), Ok(None), "{len} bytes");
        }
    }

    #[test]
    fn input_that_is_not_http_is_rejected() {
        for bytes in [
            "GET /\r\n\r\n",
            "GET  / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            "G:T / HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(read(bytes.as_bytes()).is_err(), "{bytes}");
        }
        assert!(read(&[b'a'; 70_000]).is_err());
    }
}
