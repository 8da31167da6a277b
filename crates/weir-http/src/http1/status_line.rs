//! The first line of a response: version, status, reason phrase (RFC 9112 section 4).

use super::lines::blame_line_end;
use crate::bytes::value_run;
use crate::message::rule::Rule;
use crate::message::span::TextSpan;
use crate::message::version::Version;

/// A valid status line.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ParsedStatusLine {
    pub(super) version: Version,
    pub(super) status: u16,
    pub(super) reason: TextSpan,
}

/// Where the reason phrase starts in a status line: behind version, status and a space each.
pub(super) const REASON: usize = Version::LEN + " 200 ".len();

/// The usual line, as most servers write it.
const USUAL: &[u8; 17] = b"HTTP/1.1 200 OK\r\n";

impl ParsedStatusLine {
    /// Reads the status line at the start of `bytes`. Gives it with the start of the next line, or `None` when bytes
    /// are missing.
    ///
    /// The space before an empty reason phrase may be missing: too many servers leave it out, and nothing can be
    /// mistaken for it.
    #[inline]
    pub(super) fn read(bytes: &[u8], high_status: bool) -> Result<Option<(ParsedStatusLine, usize)>, Rule> {
        // What nearly every response begins with.
        if bytes.starts_with(USUAL) {
            let reason = TextSpan::new(REASON, USUAL.len() - b"\r\n".len());
            let line = ParsedStatusLine { version: Version::Http11, status: 200, reason };
            return Ok(Some((line, USUAL.len())));
        }
        if bytes.iter().zip(b"HTTP/").any(|(byte, expected)| byte != expected) {
            return Err(Rule::BadStatusLine);
        }
        let Some(version) = Version::read(bytes)? else { return Ok(None) };
        let rest = &bytes[Version::LEN..];
        let status = match rest {
            [b' ', a @ b'0'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9', ..] => {
                u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0')
            }
            _ => return blame_status(rest),
        };
        if status < 100 || (status >= 600 && !high_status) {
            return Err(Rule::BadStatus);
        }
        let (start, end) = match bytes.get(REASON - 1) {
            Some(b' ') => (REASON, REASON + value_run(&bytes[REASON..])),
            Some(b'\r' | b'\n') => (REASON - 1, REASON - 1),
            Some(_) => return Err(Rule::BadStatusLine),
            None => return Ok(None),
        };
        match &bytes[end..] {
            [b'\r', b'\n', ..] => {
                Ok(Some((ParsedStatusLine { version, status, reason: TextSpan::new(start, end) }, end + 2)))
            }
            [] | [b'\r'] => Ok(None),
            rest => Err(blame_line_end(rest)),
        }
    }
}

/// `None` when `rest` may still become a space and three digits, else the rule that is broken.
#[cold]
fn blame_status<T>(rest: &[u8]) -> Result<Option<T>, Rule> {
    let fits = |(index, byte): (usize, &u8)| if index == 0 { *byte == b' ' } else { byte.is_ascii_digit() };
    if rest.iter().take(4).enumerate().all(fits) { Ok(None) } else { Err(Rule::BadStatusLine) }
}
