//! One HTTP/1.1 request and its answer, on a connection of their own, with bounds on time and size.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::anyhow;
use serde_json::Value;
use weir_http::http1::{HeadProgress, ParsedResponse};
use weir_http::{FieldName, Framing, HeadLimits, Method};

use crate::clock;
use crate::error::CommandError;

/// Bytes of an answer, its head included: the largest is a picture of where the time goes.
const ANSWER_BYTES_MAX: usize = 64 * 1024 * 1024;

/// An answer of Weir, whatever it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AdminResponse {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

impl AdminResponse {
    /// The body as text.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body of a successful response.
    ///
    /// # Errors
    /// When it answers with an error, with all its reasons.
    pub(crate) fn accepted(&self) -> Result<String, CommandError> {
        let text = self.text();
        if (200..300).contains(&self.status) {
            return Ok(text);
        }
        let errors = serde_json::from_str::<Value>(&text).ok();
        let errors = errors.as_ref().and_then(|value| value["errors"].as_array());
        let lines =
            errors.map(|errors| errors.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n"));
        let what = lines.unwrap_or_else(|| text.trim_end().to_owned());
        Err(CommandError::Failed { error: anyhow!("{what} ({})", self.status), help: None })
    }
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum AdminRequestError {
    Unconnected(io::Error),
    Interrupted(io::Error),
    /// The connection ended before the answer did.
    Closed,
    TooSlow,
    TooLarge,
    NotHttp,
}

pub(super) enum AdminConnection {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl AdminConnection {
    /// Limits the next step of reading or writing to what is left until `end`.
    fn limit(&self, end: Instant) -> Result<(), AdminRequestError> {
        let left = end.saturating_duration_since(clock::now());
        if left.is_zero() {
            return Err(AdminRequestError::TooSlow);
        }
        match self {
            Self::Tcp(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
            Self::Unix(stream) => {
                stream.set_read_timeout(Some(left)).and_then(|()| stream.set_write_timeout(Some(left)))
            }
        }
        .map_err(AdminRequestError::Interrupted)
    }

    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buf),
            Self::Unix(stream) => stream.read(buf),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

pub(super) fn write_request(
    method: &str,
    target: &str,
    host: &str,
    authorization: Option<&str>,
    body: Option<(&str, &[u8])>,
) -> Vec<u8> {
    let mut request =
        format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nUser-Agent: weir\r\n");
    if let Some(authorization) = authorization {
        request.push_str(&format!("Authorization: {authorization}\r\n"));
    }
    if let Some((content_type, body)) = body {
        request.push_str(&format!("Content-Type: {content_type}\r\nContent-Length: {}\r\n", body.len()));
    }
    request.push_str("\r\n");
    let mut request = request.into_bytes();
    request.extend_from_slice(body.map_or(b"", |(_, body)| body));
    request
}

/// Sends the request and reads the answer to its end.
pub(super) fn exchange(
    mut connection: AdminConnection,
    request: &[u8],
    end: Instant,
) -> Result<AdminResponse, AdminRequestError> {
    let refused = send(&mut connection, request, end).err();
    let mut received = Vec::new();
    let read = receive(&mut connection, &mut received, end);
    // Who refuses a request may answer without reading it to its end.
    match (parse(&received), refused, read) {
        (Ok(Some(answer)), _, _) => Ok(answer),
        (_, _, Err(unanswered)) | (_, Some(unanswered), Ok(())) => Err(unanswered),
        (Ok(None), None, Ok(())) => Err(AdminRequestError::Closed),
        (Err(unanswered), None, Ok(())) => Err(unanswered),
    }
}

fn send(connection: &mut AdminConnection, mut rest: &[u8], end: Instant) -> Result<(), AdminRequestError> {
    while !rest.is_empty() {
        connection.limit(end)?;
        match connection.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) => judge(error)?,
        }
    }
    Ok(())
}

fn receive(
    connection: &mut AdminConnection,
    received: &mut Vec<u8>,
    end: Instant,
) -> Result<(), AdminRequestError> {
    let mut buf = [0; 16 * 1024];
    loop {
        connection.limit(end)?;
        match connection.read(&mut buf) {
            Ok(0) => return Ok(()),
            Ok(len) if received.len() + len > ANSWER_BYTES_MAX => return Err(AdminRequestError::TooLarge),
            Ok(len) => received.extend_from_slice(&buf[..len]),
            Err(error) => judge(error)?,
        }
    }
}

/// Whether to continue after an error.
fn judge(error: io::Error) -> Result<(), AdminRequestError> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(AdminRequestError::TooSlow),
        _ => Err(AdminRequestError::Interrupted(error)),
    }
}

/// The answer, if it is whole.
fn parse(received: &[u8]) -> Result<Option<AdminResponse>, AdminRequestError> {
    let mut head = ParsedResponse::new();
    let head_len = match head.parse(received, &HeadLimits::default()) {
        Ok(HeadProgress::Complete { len }) => len,
        Ok(HeadProgress::Incomplete) => return Ok(None),
        Err(_) => return Err(AdminRequestError::NotHttp),
    };
    let body = &received[head_len..];
    let body = match head.framing(Method::Get) {
        Framing::None => &[],
        Framing::UntilClose => body,
        Framing::Length(len) => match body.get(..usize::try_from(len).unwrap_or(usize::MAX)) {
            Some(body) => body,
            None => return Ok(None),
        },
        Framing::Delimited => match join_chunks(body)? {
            Some(body) => return Ok(Some(answer(&head, received, body))),
            None => return Ok(None),
        },
    };
    Ok(Some(answer(&head, received, body.to_vec())))
}

fn answer(head: &ParsedResponse, received: &[u8], body: Vec<u8>) -> AdminResponse {
    let content_type = head.fields().first(FieldName::ContentType);
    let content_type = content_type.map_or(&b""[..], |field| field.value.of(received));
    let content_type = String::from_utf8_lossy(content_type).into_owned();
    AdminResponse { status: head.status(), content_type, body }
}

/// The content of a body in chunks as Weir writes them (RFC 9112 section 7.1), without extensions and trailers; `None` when it is not
/// whole.
fn join_chunks(mut rest: &[u8]) -> Result<Option<Vec<u8>>, AdminRequestError> {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
        let size =
            std::str::from_utf8(&rest[..end]).ok().and_then(|size| usize::from_str_radix(size, 16).ok());
        let Some(size) = size.filter(|size| *size <= ANSWER_BYTES_MAX) else {
            return Err(AdminRequestError::NotHttp);
        };
        let Some((chunk, next)) = rest[end + 2..].split_at_checked(size + 2) else { return Ok(None) };
        if size == 0 {
            return Ok(Some(body));
        }
        body.extend_from_slice(&chunk[..size]);
        rest = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        for (received, expected) in [
            (&b"3\r\nabc\r\n0a\r\n0123456789\r\n0\r\n\r\n"[..], Some(&b"abc0123456789"[..])),
            (b"0\r\n\r\n", Some(b"")),
            (b"3\r\nabc\r\n", None),
            (b"3\r\nab", None),
            (b"0\r\n", None),
        ] {
            let joined = join_chunks(received).expect("they are well-formed");
            assert_eq!(joined.as_deref(), expected, "{}", String::from_utf8_lossy(received));
        }
        assert!(join_chunks(b"x\r\n").is_err() && join_chunks(b"ffffffffffffffff\r\n").is_err());
    }

    #[test]
    fn a_refusal_is_told_with_all_its_reasons() {
        let answer = AdminResponse {
            status: 409,
            content_type: "application/json".into(),
            body: br#"{"errors": ["one", "two"]}"#.to_vec(),
        };
        let Err(CommandError::Failed { error, .. }) = answer.accepted() else { panic!("it said no") };
        assert_eq!(error.to_string(), "one\ntwo (409)");
    }
}
