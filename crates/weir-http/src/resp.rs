//! RESP2, the protocol of Redis and Valkey: commands are written, replies are parsed (<https://redis.io/docs/latest/develop/reference/protocol-spec/>).
//!
//! A reply is parsed from the bytes that have arrived; when they are not enough, nothing is consumed. Lengths, numbers of elements and depth
//! are bounded before anything is allocated for them. Must not know what commands mean.

/// The longest string in a reply.
pub const STRING_BYTES_MAX: usize = 64 * 1024;

/// Elements of one array.
pub const ELEMENTS_MAX: usize = 16 * 1024;

/// Arrays within arrays.
const DEPTH_MAX: usize = 4;

/// The longest line: a status, an error, a number.
const LINE_BYTES_MAX: usize = 1024;

/// What a server says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RespReply {
    /// A status such as `OK`.
    Status(Vec<u8>),
    /// An error, whose first word is its kind.
    Error(Vec<u8>),
    /// A number.
    Integer(i64),
    /// A string of any bytes; `None`: there is no value.
    String(Option<Vec<u8>>),
    /// Several replies; `None`: there is no value.
    Array(Option<Vec<RespReply>>),
}

/// What is wrong with a reply; the connection is of no use any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RespError {
    /// The first byte is none of `+-:$*`.
    Type,
    /// A line does not end with CR LF, or is too long.
    Line,
    /// A number that is none.
    Number,
    /// A length that is beyond the limits.
    TooLarge,
    /// A string that is longer or shorter than it says.
    Length,
}

impl std::fmt::Display for RespError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Type => "a reply of an unknown type",
            Self::Line => "a line that does not end",
            Self::Number => "a number that is none",
            Self::TooLarge => "a reply that is too large",
            Self::Length => "a string of another length than announced",
        })
    }
}

impl std::error::Error for RespError {}

/// Appends a command: an array of strings.
pub fn write_command<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    write_len(out, b'*', words.len());
    for word in words {
        write_len(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

fn write_len(out: &mut Vec<u8>, kind: u8, len: usize) {
    out.push(kind);
    out.extend_from_slice(len.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

impl RespReply {
    /// The first reply of `input`, and its length; `None`: more bytes are needed.
    ///
    /// # Errors
    /// When no bytes behind these make it a reply.
    pub fn parse(input: &[u8]) -> Result<Option<(RespReply, usize)>, RespError> {
        let mut at = 0;
        Ok(parse(input, &mut at, 0)?.map(|reply| (reply, at)))
    }
}

fn parse(input: &[u8], at: &mut usize, depth: usize) -> Result<Option<RespReply>, RespError> {
    let Some(&kind) = input.get(*at) else { return Ok(None) };
    if !b"+-:$*".contains(&kind) {
        return Err(RespError::Type);
    }
    *at += 1;
    let Some(line) = line(input, at)? else { return Ok(None) };
    match kind {
        b'+' => Ok(Some(RespReply::Status(line.to_vec()))),
        b'-' => Ok(Some(RespReply::Error(line.to_vec()))),
        b':' => number(line).map(|number| Some(RespReply::Integer(number))),
        b'$' => match length(line, STRING_BYTES_MAX)? {
            None => Ok(Some(RespReply::String(None))),
            Some(len) => Ok(string(input, at, len)?.map(|text| RespReply::String(Some(text)))),
        },
        _ => {
            let Some(len) = length(line, ELEMENTS_MAX)? else { return Ok(Some(RespReply::Array(None))) };
            if depth == DEPTH_MAX {
                return Err(RespError::TooLarge);
            }
            let mut elements = Vec::new();
            for _ in 0..len {
                let Some(element) = parse(input, at, depth + 1)? else { return Ok(None) };
                elements.push(element);
            }
            Ok(Some(RespReply::Array(Some(elements))))
        }
    }
}

/// The line at `at` without its end, behind which `at` is then.
fn line<'a>(input: &'a [u8], at: &mut usize) -> Result<Option<&'a [u8]>, RespError> {
    let rest = &input[*at..];
    let seen = &rest[..rest.len().min(LINE_BYTES_MAX)];
    let Some(end) = seen.iter().position(|byte| matches!(byte, b'\r' | b'\n')) else {
        return if seen.len() == LINE_BYTES_MAX { Err(RespError::Line) } else { Ok(None) };
    };
    match (rest[end], rest.get(end + 1)) {
        (b'\r', Some(b'\n')) => {
            *at += end + 2;
            Ok(Some(&rest[..end]))
        }
        (b'\r', None) => Ok(None),
        _ => Err(RespError::Line),
    }
}

fn number(line: &[u8]) -> Result<i64, RespError> {
    let text = std::str::from_utf8(line).map_err(|_| RespError::Number)?;
    text.parse().map_err(|_| RespError::Number)
}

/// A length; `None`: -1, which means that there is no value.
fn length(line: &[u8], max: usize) -> Result<Option<usize>, RespError> {
    match number(line)? {
        -1 => Ok(None),
        len => match usize::try_from(len) {
            Ok(len) if len <= max => Ok(Some(len)),
            Ok(_) => Err(RespError::TooLarge),
            Err(_) => Err(RespError::Number),
        },
    }
}

fn string(input: &[u8], at: &mut usize, len: usize) -> Result<Option<Vec<u8>>, RespError> {
    let rest = &input[*at..];
    let end = &rest[rest.len().min(len)..rest.len().min(len + 2)];
    if !b"\r\n".starts_with(end) {
        return Err(RespError::Length);
    }
    if end.len() < 2 {
        return Ok(None);
    }
    *at += len + 2;
    Ok(Some(rest[..len].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_arrays_of_strings() {
        let mut out = Vec::new();
        write_command(&mut out, [&b"SET"[..], b"a\r\n", b""].into_iter());
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$0\r\n\r\n");
    }

    #[test]
    fn replies_are_parsed_when_they_are_whole() {
        let whole = b"*5\r\n+OK\r\n-ERR no\r\n:-12\r\n$3\r\na\r\n\r\n*2\r\n$-1\r\n*-1\r\n";
        let expected = RespReply::Array(Some(vec![
            RespReply::Status(b"OK".to_vec()),
            RespReply::Error(b"ERR no".to_vec()),
            RespReply::Integer(-12),
            RespReply::String(Some(b"a\r\n".to_vec())),
            RespReply::Array(Some(vec![RespReply::String(None), RespReply::Array(None)])),
        ]));
        for len in 0..whole.len() {
            assert_eq!(RespReply::parse(&whole[..len]), Ok(None), "{len}");
        }
        let more = [&whole[..], b"+next"].concat();
        assert_eq!(RespReply::parse(&more), Ok(Some((expected, whole.len()))));
    }

    #[test]
    fn what_is_no_reply_is_refused() {
        for (input, error) in [
            (&b"HTTP/1.1 400"[..], RespError::Type),
            (b"+OK\n", RespError::Line),
            (b"+OK\rX", RespError::Line),
            (b":1x\r\n", RespError::Number),
            (b"$-2\r\n", RespError::Number),
            (b"$70000\r\n", RespError::TooLarge),
            (b"*999999\r\n", RespError::TooLarge),
            (b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", RespError::TooLarge),
            (b"$1\r\nab", RespError::Length),
            (b"$1\r\na\rb", RespError::Length),
        ] {
            assert_eq!(RespReply::parse(input), Err(error), "{}", input.escape_ascii());
        }
        assert_eq!(RespReply::parse(&[b'+'; LINE_BYTES_MAX + 1]), Err(RespError::Line));
    }
}
