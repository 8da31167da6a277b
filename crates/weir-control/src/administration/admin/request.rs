//! A request to the admin listener, read whole: a head and a body, both with a bound.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use weir_http::http1::{HeadProgress, ParsedRequest};
use weir_http::{Framing, HeadLimits, Method, Rule, Version};
use weir_observe::{AdminRefusal, Cause, Failure, Phase};

use super::response::RefusedRequest;

const HEAD_BYTES_MAX: usize = 8 * 1024;

const BODY_BYTES_MAX: usize = 64 * 1024;

/// A request, whole.
#[derive(Debug)]
pub(crate) struct AdminRequest {
    head: ParsedRequest,
    /// The head, then the body.
    received: Vec<u8>,
    body_at: usize,
}

/// The result of reading a connection.
pub(super) enum ReceivedRequest {
    Whole(Box<AdminRequest>),
    Refused(RefusedRequest),
    /// The client went before its request was whole.
    Gone,
}

impl AdminRequest {
    pub(crate) fn method(&self) -> Method {
        self.head.method()
    }

    pub(crate) fn version(&self) -> Version {
        self.head.version()
    }

    /// The path as the client wrote it.
    pub(crate) fn path(&self) -> &[u8] {
        self.head.path().of(self.text())
    }

    /// The query as the client wrote it; empty when there is none.
    pub(crate) fn query(&self) -> &[u8] {
        self.head.query().map_or(b"", |query| query.of(self.text()))
    }

    /// The value of the first field of this name, given in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        let field = self.head.fields().get_by_name(self.text(), name)?;
        Some(field.value.of(self.text()))
    }

    fn text(&self) -> &[u8] {
        self.head.text(&self.received)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.received[self.body_at..]
    }
}

/// Reads a request, of which the first bytes may have been read already.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin), first: Vec<u8>) -> ReceivedRequest {
    match read_whole(stream, first).await {
        Ok(received) => received,
        Err(_) => ReceivedRequest::Gone,
    }
}

async fn read_whole(
    stream: &mut (impl AsyncRead + Unpin),
    mut received: Vec<u8>,
) -> io::Result<ReceivedRequest> {
    let mut head = ParsedRequest::new();
    let limits = HeadLimits { head_bytes_max: HEAD_BYTES_MAX, ..HeadLimits::default() };
    let body_at = loop {
        match head.parse(&received, &limits) {
            Ok(HeadProgress::Incomplete) => {}
            Ok(HeadProgress::Complete { len }) => break len,
            Err(rule) => return Ok(ReceivedRequest::Refused(refusal(rule))),
        }
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(ReceivedRequest::Gone);
        }
    };
    let length = match head.body() {
        Framing::None => 0,
        Framing::Length(length) if length <= BODY_BYTES_MAX as u64 => length as usize,
        Framing::Length(_) => {
            let what = format!("A body has at most {BODY_BYTES_MAX} bytes here.\n");
            return Ok(ReceivedRequest::Refused(RefusedRequest::new(AdminRefusal::TooLarge, 413, &what)));
        }
        Framing::Delimited | Framing::UntilClose => {
            let what = "A body needs its Content-Length here.\n";
            return Ok(ReceivedRequest::Refused(RefusedRequest::new(AdminRefusal::Malformed, 411, what)));
        }
    };
    while received.len() < body_at + length {
        if stream.read_buf(&mut received).await? == 0 {
            return Ok(ReceivedRequest::Gone);
        }
    }
    received.truncate(body_at + length);
    Ok(ReceivedRequest::Whole(Box::new(AdminRequest { head, received, body_at })))
}

/// The answer to a head that breaks a rule.
fn refusal(rule: Rule) -> RefusedRequest {
    let status = Failure::client(Phase::Request, Cause::Rule(rule)).reason_id().status().unwrap_or(400);
    let refusal = if matches!(status, 414 | 431) { AdminRefusal::TooLarge } else { AdminRefusal::Malformed };
    RefusedRequest::new(refusal, status, &format!("{}\n", rule.sentence()))
}
