//! Start lines, field lines, and what they say about the body (RFC 9112 sections 3 to 6).

use super::Framing;
use crate::fields::{Fields, is_clean_value, is_token, is_token_byte, latin1};

/// The first line of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartLine {
    /// Method and target.
    Request {
        /// The method.
        method: String,
        /// The target, as it stands.
        target: String,
    },
    /// The status.
    Response {
        /// The status code.
        status: u16,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Request,
    Response,
}

/// Methods of the requests that bytes begin, as far as they can be told, and whether that is all of them: for clients that do not keep to the
/// rules themselves.
pub fn request_methods(bytes: &[u8]) -> (Vec<String>, bool) {
    let reading = super::requests(bytes);
    let mut methods: Vec<String> = reading
        .messages
        .iter()
        .filter_map(|message| match &message.start {
            StartLine::Request { method, .. } => Some(method.clone()),
            StartLine::Response { .. } => None,
        })
        .collect();
    let is_exact = reading.fault.is_none();
    let rest = reading.unfinished_head.or(reading.fault.map(|fault| fault.at));
    if let Some(at) = rest {
        let word: Vec<u8> = bytes[at..].iter().copied().take_while(|byte| is_token_byte(*byte)).collect();
        methods.push(latin1(&word));
    }
    (methods, is_exact)
}

/// Whether bytes begin like a message, even where the rest has not come: what does not is left over from something else.
pub(super) fn check_beginning(bytes: &[u8], kind: Kind) -> Result<(), String> {
    let shown = || latin1(&bytes[..bytes.len().min(60)]);
    let is_sound = match kind {
        Kind::Request => {
            let len = bytes.iter().take_while(|byte| is_token_byte(**byte)).count();
            len > 0 && bytes.get(len).is_none_or(|byte| *byte == b' ')
        }
        Kind::Response => {
            let len = bytes.len().min(9);
            bytes[..len] == b"HTTP/1.1 "[..len]
        }
    };
    let what = if kind == Kind::Request { "request" } else { "response" };
    is_sound.then_some(()).ok_or_else(|| format!("bytes that begin no {what}: {:?}", shown()))
}

/// The head at the front of `bytes`, and its length; `None` while it is incomplete.
pub(super) fn read(bytes: &[u8], kind: Kind) -> Result<Option<(StartLine, Fields, usize)>, String> {
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return match bytes.windows(2).any(|window| window == b"\n\n") {
            true => {
                Err(format!("a head that ends with bare LF: {:?}", latin1(&bytes[..bytes.len().min(200)])))
            }
            false => Ok(None),
        };
    };
    let text = latin1(&bytes[..end]);
    if text.replace("\r\n", "").contains(['\r', '\n', '\0']) {
        return Err(format!("a bare CR, a bare LF or a NUL in the head {text:?}"));
    }
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let start = match kind {
        Kind::Request => request_line(first)?,
        Kind::Response => status_line(first)?,
    };
    let fields = lines.map(field_line).collect::<Result<Vec<_>, _>>()?;
    Ok(Some((start, Fields(fields), end + 4)))
}

/// The fields of a trailer section, without the empty line behind it.
pub(super) fn read_trailers(lines: &[u8]) -> Result<Fields, String> {
    let text = latin1(lines);
    let fields = text.split_terminator("\r\n").map(field_line).collect::<Result<Vec<_>, _>>()?;
    let fields = Fields(fields);
    for name in ["content-length", "transfer-encoding", "host", "trailer", "connection", "te"] {
        if fields.first(name).is_some() {
            return Err(format!("{name} in the trailers: {fields:?}"));
        }
    }
    Ok(fields)
}

fn request_line(line: &str) -> Result<StartLine, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1"] = words.as_slice() else {
        return Err(format!("a malformed request line: {line:?}"));
    };
    if !is_token(method) || target.is_empty() || target.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(format!("a malformed request line: {line:?}"));
    }
    Ok(StartLine::Request { method: (*method).to_owned(), target: (*target).to_owned() })
}

fn status_line(line: &str) -> Result<StartLine, String> {
    let malformed = || format!("a malformed status line: {line:?}");
    let rest = line.strip_prefix("HTTP/1.1 ").ok_or_else(malformed)?;
    let (code, reason) = rest.split_once(' ').ok_or_else(malformed)?;
    let is_code = code.len() == 3 && code.bytes().all(|byte| byte.is_ascii_digit());
    let status = code.parse().map_err(|_| malformed())?;
    if !is_code || status < 100 || !is_clean_value(reason.trim_matches([' ', '\t'])) {
        return Err(malformed());
    }
    Ok(StartLine::Response { status })
}

fn field_line(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("a field line without a colon: {line:?}"))?;
    if !is_token(name) {
        return Err(format!("a malformed field name: {line:?}"));
    }
    let value = value.trim_matches([' ', '\t']);
    if !is_clean_value(value) {
        return Err(format!("a control character in a value: {line:?}"));
    }
    Ok((name.to_owned(), value.to_owned()))
}

/// What the fields declare; `None` where they say nothing.
fn declared(fields: &Fields) -> Result<Option<Framing>, String> {
    let length = fields.content_length()?;
    let codings = fields.all("transfer-encoding");
    match (length, codings.as_slice()) {
        (None, []) => Ok(None),
        (Some(length), []) => Ok(Some(Framing::Length(length))),
        (None, [coding]) if coding.eq_ignore_ascii_case("chunked") => Ok(Some(Framing::Chunked)),
        (Some(_), _) => Err(format!("content-length beside transfer-encoding: {fields:?}")),
        (None, _) => Err(format!("transfer-encoding is not `chunked`: {codings:?}")),
    }
}

pub(super) fn request_framing(start: &StartLine, fields: &Fields) -> Result<Framing, String> {
    if fields.all("host").len() != 1 {
        return Err(format!("not one host: {start:?} {fields:?}"));
    }
    Ok(declared(fields)?.unwrap_or(Framing::Empty))
}

pub(super) fn response_framing(start: &StartLine, fields: &Fields, method: &str) -> Result<Framing, String> {
    let StartLine::Response { status } = *start else { return Err("no response".to_owned()) };
    let framing = declared(fields)?;
    if status < 200 || status == 204 || (method == "CONNECT" && status < 300) {
        // RFC 9110 section 8.6, RFC 9112 section 6.1.
        return match framing {
            None => Ok(Framing::Empty),
            Some(_) => Err(format!("a {status} that declares a body: {fields:?}")),
        };
    }
    if status == 304 || method == "HEAD" {
        return Ok(Framing::Empty);
    }
    Ok(framing.unwrap_or(Framing::UntilClose))
}

/// Whether the connection may belong to another protocol behind this request.
pub(super) fn asks_for_tunnel(start: &StartLine, fields: &Fields) -> bool {
    let is_connect = matches!(start, StartLine::Request { method, .. } if method == "CONNECT");
    is_connect || fields.first("upgrade").is_some()
}
