//! Requests to Consul and etcd: HTTP/1.1, over TLS where the URL says so, one connection that is kept between requests. Responses come whole
//! or piece by piece. Must not know what they are about.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use weir_config::{SourceTls, SourceUrl};
use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedResponse};
use weir_http::{ChunkedLimits, Framing, HeadLimits, Method};

use crate::source_connection::{self, CONNECT_TIME, SourceConnector, SourceStream};

/// How long a connection and its handshake may take where another URL can be asked.
const CONNECT_TIME_OF_SEVERAL: Duration = Duration::from_secs(2);

/// The largest response: ten thousand servers with much metadata.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestProblem {
    #[error("{0} cannot be reached: {1}")]
    Unreached(String, std::io::Error),
    #[error("{0} did not answer within {1} s")]
    TimedOut(String, u64),
    #[error("the connection to {0} broke: {1}")]
    Broken(String, std::io::Error),
    #[error("{0} sent something that is no HTTP response: {1}")]
    Malformed(String, String),
    #[error("{0}")]
    Refused(String),
}

/// What is asked.
pub(crate) struct Query<'a> {
    pub(crate) method: &'a str,
    /// Path and query, already encoded.
    pub(crate) target: &'a str,
    /// Further fields: names and values.
    pub(crate) fields: &'a [(&'a str, &'a str)],
    pub(crate) body: &'a str,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct SourceResponseHead {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    framing: Framing,
}

impl SourceResponseHead {
    /// The value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// A client of one URL.
pub(crate) struct HttpClient {
    url: SourceUrl,
    /// Ready for connections; why there can be none.
    tls: Option<SourceConnector>,
    connect_time: Duration,
    connection: Option<SourceConnection>,
}

struct SourceConnection {
    io: SourceStream,
    received: Vec<u8>,
}

impl HttpClient {
    /// A client without a connection yet; `tls` is there when the URL wants TLS.
    pub(crate) fn new(url: SourceUrl, tls: Option<&SourceTls>) -> Self {
        let tls = source_connection::connector(&url, tls, &[]);
        Self { url, tls, connect_time: CONNECT_TIME, connection: None }
    }

    /// The client of one of several URLs: the others are waiting.
    pub(crate) fn of_several(self) -> Self {
        Self { connect_time: CONNECT_TIME_OF_SEVERAL, ..self }
    }

    /// Sends a request and waits for the head of its response; on a kept connection that has died meanwhile, once more on a new one.
    pub(crate) async fn send(
        &mut self,
        query: &Query<'_>,
        wait: Duration,
    ) -> Result<ResponseBody<'_>, RequestProblem> {
        let mut text =
            format!("{} {} HTTP/1.1\r\nHost: {}\r\n", query.method, query.target, self.url.authority);
        for (name, value) in query.fields {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if query.method != "GET" {
            text.push_str(&format!(
                "Content-Type: application/json\r\nContent-Length: {}\r\n",
                query.body.len()
            ));
        }
        text.push_str("\r\n");
        text.push_str(query.body);
        let timed_out = || RequestProblem::TimedOut(self.url.to_string(), wait.as_secs());
        if let Some(mut connection) = self.connection.take() {
            match tokio::time::timeout(wait, self.ask(&mut connection, &text)).await {
                Ok(Ok(head)) => return Ok(ResponseBody::new(self, head, connection)),
                Ok(Err(_has_died)) => {}
                Err(_) => return Err(timed_out()),
            }
        }
        let mut connection = self.connect().await?;
        let asked = tokio::time::timeout(wait, self.ask(&mut connection, &text)).await;
        let head = asked.map_err(|_| timed_out())??;
        Ok(ResponseBody::new(self, head, connection))
    }

    async fn connect(&self) -> Result<SourceConnection, RequestProblem> {
        let opened = source_connection::open(&self.url, self.tls.as_ref(), self.connect_time).await;
        let io = opened.map_err(|error| RequestProblem::Unreached(self.url.to_string(), error))?;
        Ok(SourceConnection { io, received: Vec::new() })
    }

    async fn ask(
        &self,
        connection: &mut SourceConnection,
        text: &str,
    ) -> Result<SourceResponseHead, RequestProblem> {
        let broken = |error| RequestProblem::Broken(self.url.to_string(), error);
        let malformed = |what: String| RequestProblem::Malformed(self.url.to_string(), what);
        connection.io.write_all(text.as_bytes()).await.map_err(broken)?;
        connection.io.flush().await.map_err(broken)?;
        let mut head = ParsedResponse::new();
        loop {
            match head.parse(&connection.received, &HeadLimits::default()) {
                Ok(HeadProgress::Complete { len }) if head.status() >= 200 => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    let all = head.fields().iter().map(|field| {
                        (
                            text(field.name.of(&connection.received)),
                            text(field.value.of(&connection.received)),
                        )
                    });
                    let fields = all.collect();
                    connection.received.drain(..len);
                    return Ok(SourceResponseHead {
                        status: head.status(),
                        fields,
                        framing: head.framing(Method::Post),
                    });
                }
                Ok(HeadProgress::Complete { len }) => {
                    connection.received.drain(..len);
                    head.reset();
                }
                Ok(HeadProgress::Incomplete) => {
                    if connection.io.read_buf(&mut connection.received).await.map_err(broken)? == 0 {
                        return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
                    }
                }
                Err(rule) => return Err(malformed(format!("{rule:?}"))),
            }
        }
    }
}

/// The body of a response as it comes. Dropped before its end, the connection goes with it.
pub(crate) struct ResponseBody<'a> {
    client: &'a mut HttpClient,
    pub(crate) head: SourceResponseHead,
    connection: SourceConnection,
    chunks: ChunkedDecoder,
    left: u64,
    is_done: bool,
}

impl<'a> ResponseBody<'a> {
    fn new(client: &'a mut HttpClient, head: SourceResponseHead, connection: SourceConnection) -> Self {
        let left = if let Framing::Length(len) = head.framing { len } else { 0 };
        let is_done = head.framing.is_empty();
        let chunks = ChunkedDecoder::new(ChunkedLimits::default());
        Self { client, head, connection, chunks, left, is_done }
    }

    /// Appends the next piece; `false` at the end of the body.
    pub(crate) async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, RequestProblem> {
        let before = out.len();
        loop {
            if !self.is_done {
                self.decode(out)?;
            }
            if out.len() > before {
                return Ok(true);
            }
            if self.is_done {
                return Ok(false);
            }
            let broken = |error| RequestProblem::Broken(self.client.url.to_string(), error);
            if self.connection.io.read_buf(&mut self.connection.received).await.map_err(broken)? == 0 {
                self.is_done = true;
                if self.head.framing != Framing::UntilClose {
                    return Err(broken(std::io::ErrorKind::UnexpectedEof.into()));
                }
            }
        }
    }

    fn decode(&mut self, out: &mut Vec<u8>) -> Result<(), RequestProblem> {
        let received = &mut self.connection.received;
        match self.head.framing {
            Framing::Delimited => {
                let malformed =
                    |rule| RequestProblem::Malformed(self.client.url.to_string(), format!("{rule:?}"));
                while !received.is_empty() && !self.is_done {
                    let decoded = self.chunks.decode(received).map_err(malformed)?;
                    out.extend_from_slice(&received[decoded.data]);
                    received.drain(..decoded.consumed);
                    self.is_done = decoded.done;
                    if decoded.consumed == 0 {
                        break;
                    }
                }
            }
            Framing::Length(_) => {
                let len = received.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                out.extend(received.drain(..len));
                self.left -= len as u64;
                self.is_done = self.left == 0;
            }
            _ => out.append(received),
        }
        Ok(())
    }

    /// The whole body; the connection is kept for the next request.
    pub(crate) async fn whole(
        mut self,
        wait: Duration,
    ) -> Result<(SourceResponseHead, Vec<u8>), RequestProblem> {
        let mut body = Vec::new();
        let url = self.client.url.to_string();
        let reading = async {
            while self.read(&mut body).await? {
                if body.len() > BODY_BYTES_MAX {
                    let limit = BODY_BYTES_MAX >> 20;
                    return Err(RequestProblem::Refused(format!("{url} sent more than {limit} MiB")));
                }
            }
            Ok(())
        };
        match tokio::time::timeout(wait, reading).await {
            Ok(read) => read?,
            Err(_) => return Err(RequestProblem::TimedOut(self.client.url.to_string(), wait.as_secs())),
        }
        let closes = self.head.field("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if !closes && self.head.framing != Framing::UntilClose {
            self.client.connection = Some(self.connection);
        }
        Ok((self.head, body))
    }
}

/// A text as part of a query or a path: everything but letters, digits, `-`, `.`, `_` and `~` percent-encoded (RFC 3986 section 2.3).
pub(crate) fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded() {
        assert_eq!(percent_encoded("web-1 a/b&ü"), "web-1%20a%2Fb%26%C3%BC");
    }
}
