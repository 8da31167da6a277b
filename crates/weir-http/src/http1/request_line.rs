//! The first line of a request: method, target, version (RFC 9112 section 3).
//!
//! Read from the left, so whatever is not HTTP/1 (a TLS handshake, the HTTP/2 preface, a PROXY header, noise) is
//! refused at its first wrong byte, without waiting for an end of line that may never come.

use super::lines::{PartialToken, blame_line_end};
use crate::bytes::{target_run, token_run};
use crate::message::limits::HeadLimits;
use crate::message::method::{METHOD_BYTES_MAX, Method};
use crate::message::request::RequestHead;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;

/// How many empty lines may come before a request line (RFC 9112 section 2.2 asks for at least one).
const EMPTY_LINES_MAX: usize = 4;

/// Number of bytes of the empty lines before the request line; `None` when bytes are missing.
#[inline]
pub(crate) fn skip_empty_lines(bytes: &[u8]) -> Result<Option<usize>, Rule> {
    let mut start = 0;
    for _ in 0..EMPTY_LINES_MAX {
        match &bytes[start..] {
            [b'\r', b'\n', ..] => start += 2,
            [] | [b'\r'] => return Ok(None),
            [b'\r' | b'\n', ..] => return Err(blame_line_end(&bytes[start..])),
            _ => return Ok(Some(start)),
        }
    }
    Ok(Some(start))
}

/// Reads the request line at `start` into `head`. Returns the start of the next line, or `None` when bytes are missing and
/// those received mean nothing yet.
#[inline]
pub(crate) fn read_request_line(
    head: &mut RequestHead,
    bytes: &[u8],
    start: usize,
    limits: &HeadLimits,
) -> Result<Option<usize>, Rule> {
    let Some((method, method_len)) = read_method(bytes, start)? else { return Ok(None) };
    let target_start = start + method_len + 1;
    let rest = &bytes[target_start..];
    // One byte more than the longest target, for the space behind it.
    let window = rest.get(..=limits.target_bytes_max).unwrap_or(rest);
    let target_len = target_run(window);
    match window.get(target_len) {
        Some(b' ') if target_len > 0 => {}
        None if target_len <= limits.target_bytes_max => return Ok(None),
        None => return Err(Rule::TargetTooLong),
        Some(&byte) => return Err(blame_target(byte)),
    }
    let target_end = target_start + target_len;
    head.method = method;
    head.method_span = TextSpan::new(start, start + method_len);
    head.target.read(bytes, TextSpan::new(target_start, target_end), method, limits)?;
    let rest = &rest[target_len + 1..];
    head.version = if rest.starts_with(b"HTTP/1.1\r\n") {
        Version::Http11
    } else if rest.starts_with(b"HTTP/1.0\r\n") {
        Version::Http10
    } else {
        let Some(version) = unusual_version(rest)? else { return Ok(None) };
        version
    };
    Ok(Some(target_end + 1 + Version::LEN + 2))
}

/// A later minor version, or the rule that is broken by the bytes in place of version and line end; `None` when bytes are missing.
#[cold]
fn unusual_version(rest: &[u8]) -> Result<Option<Version>, Rule> {
    if rest.first().is_some_and(|byte| !byte.eq_ignore_ascii_case(&b'H')) {
        return Err(Rule::BadRequestLine);
    }
    let Some(version) = Version::read(rest)? else { return Ok(None) };
    match &rest[Version::LEN..] {
        [b'\r', b'\n', ..] => Ok(Some(version)),
        [] | [b'\r'] => Ok(None),
        [b' ' | b'\t', ..] => Err(Rule::BadRequestLine),
        rest @ [b'\r' | b'\n' | 0, ..] => Err(blame_line_end(rest)),
        _ => Err(Rule::BadVersion),
    }
}

/// The part of a request line in whose middle the bytes of `line` end.
pub(crate) fn within(line: &[u8], limits: &HeadLimits) -> PartialToken {
    // Beyond the limit the line is read again, to be refused. Methods and versions are short enough to be read again.
    let spaces = line.iter().filter(|&&byte| byte == b' ').count();
    if spaces == 1 && line.len() <= limits.target_bytes_max {
        PartialToken::Target
    } else {
        PartialToken::None
    }
}

/// Reads the method at `start` and the space behind it. Gives the method with its length.
#[inline]
pub(crate) fn read_method(bytes: &[u8], start: usize) -> Result<Option<(Method, usize)>, Rule> {
    let rest = &bytes[start..];
    if rest.starts_with(b"GET ") {
        return Ok(Some((Method::Get, 3)));
    }
    if rest.starts_with(b"POST ") {
        return Ok(Some((Method::Post, 4)));
    }
    let window = rest.get(..=METHOD_BYTES_MAX).unwrap_or(rest);
    let len = token_run(window);
    match window.get(len) {
        Some(b' ') if len > 0 => {}
        None if len <= METHOD_BYTES_MAX => return Ok(None),
        None => return Err(Rule::MethodTooLong),
        Some(&byte) => return Err(blame_method(bytes, start + len, byte)),
    }
    match Method::recognise(&window[..len]) {
        Method::Other => match &window[..len] {
            b"PRI" => Err(Rule::Http2Preface),
            b"PROXY" => Err(Rule::ProxyHeaderUnexpected),
            _ => Ok(Some((Method::Other, len))),
        },
        method => Ok(Some((method, len))),
    }
}

/// Which rule a request breaks whose method ends at `end` with `byte`, and not with a space.
#[cold]
fn blame_method(bytes: &[u8], end: usize, byte: u8) -> Rule {
    match (end, byte) {
        (0, TLS_HANDSHAKE) => Rule::TlsOnPlainPort,
        (4, 0) if bytes.starts_with(b"\r\n\r\n") => Rule::ProxyHeaderUnexpected,
        (_, 0) => Rule::NulByte,
        (_, b' ') | (0, b'\t') => Rule::LeadingSpace,
        (_, b'\t' | b'\r' | b'\n') => Rule::BadRequestLine,
        _ => Rule::BadMethod,
    }
}

/// The first byte of a TLS handshake: the content type of its first record (RFC 8446 section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// Which rule `byte` breaks at the end of a target.
#[cold]
fn blame_target(byte: u8) -> Rule {
    match byte {
        0 => Rule::NulByte,
        b' ' | b'\t' | b'\r' | b'\n' => Rule::BadRequestLine,
        _ => Rule::BadTarget,
    }
}
