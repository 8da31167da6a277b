//! One call of gRPC whose requests and responses are streams: messages with a prefix of five bytes over HTTP/2. The connection is the call's
//! own. Must not know what the messages are about.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Buf as _, Bytes, BytesMut};
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Request, StatusCode};
use prost::Message;
use tokio::task::AbortHandle;
use weir_client::HttpDestination;
use weir_config::SourceUrl;
use weir_http::grpc::{GrpcStatus, read_status_message};

use crate::sources::source_client::CONNECT_TIME;

/// How long HTTP/2 may take to begin, once the connection is there.
const HANDSHAKE_TIME: Duration = Duration::from_secs(5);

/// The largest message: ten thousand servers with much metadata.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// What the peer may send before it is read: a large message is not to wait for round trips.
const WINDOW_BYTES: u32 = 4 << 20;

/// The prefix of a message: whether it is compressed, and its length.
const PREFIX_LEN: usize = 5;

/// Why a call has ended, or could not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallProblem {
    #[error("{0} cannot be reached: {1}")]
    Unreached(String, std::io::Error),
    #[error("the connection to {0} broke: {1}")]
    Broken(String, h2::Error),
    #[error("{0} {1}")]
    Refused(String, String),
}

/// A call that is under way.
pub(super) struct Call {
    url: String,
    requests: SendStream<Bytes>,
    response: Option<ResponseFuture>,
    body: Option<RecvStream>,
    received: BytesMut,
    messages: VecDeque<Bytes>,
    connection: AbortHandle,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Call {
    /// Connects and begins the call.
    pub(super) async fn open(
        url: &SourceUrl,
        destination: &HttpDestination,
        path: &str,
        token: Option<&str>,
    ) -> Result<Self, CallProblem> {
        let io = weir_client::open(destination, CONNECT_TIME).await;
        let io = io.map_err(|error| CallProblem::Unreached(url.to_string(), error.into_io()))?;
        let broken = |error| CallProblem::Broken(url.to_string(), error);
        let mut builder = h2::client::Builder::new();
        builder
            .enable_push(false)
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(WINDOW_BYTES);
        let handshake = tokio::time::timeout(HANDSHAKE_TIME, builder.handshake(io)).await;
        let timed_out = |_| CallProblem::Unreached(url.to_string(), std::io::ErrorKind::TimedOut.into());
        let (sender, connection): (SendRequest<Bytes>, _) = handshake.map_err(timed_out)?.map_err(broken)?;
        let connection = tokio::spawn(async move {
            let _ended = connection.await;
        });
        let connection = connection.abort_handle();
        let begun = begin(sender, url, path, token).await;
        let (response, requests) = match begun {
            Ok(begun) => begun,
            Err(problem) => {
                connection.abort();
                return Err(problem);
            }
        };
        Ok(Self {
            url: url.to_string(),
            requests,
            response: Some(response),
            body: None,
            received: BytesMut::new(),
            messages: VecDeque::new(),
            connection,
        })
    }

    /// Sends a message. It waits in memory while the peer does not read.
    pub(super) fn send(&mut self, message: &impl Message) -> Result<(), CallProblem> {
        let encoded = message.encode_to_vec();
        let len = u32::try_from(encoded.len()).map_err(|_| self.refused("would get a request of 4 GiB"))?;
        let mut framed = Vec::with_capacity(PREFIX_LEN + encoded.len());
        framed.push(0);
        framed.extend(len.to_be_bytes());
        framed.extend(encoded);
        let sent = self.requests.send_data(framed.into(), false);
        sent.map_err(|error| CallProblem::Broken(self.url.clone(), error))
    }

    /// The next message. May be dropped while it waits: nothing is lost.
    pub(super) async fn next(&mut self) -> Result<Bytes, CallProblem> {
        loop {
            if let Some(message) = self.messages.pop_front() {
                return Ok(message);
            }
            if let Some(response) = &mut self.response {
                let response =
                    response.await.map_err(|error| CallProblem::Broken(self.url.clone(), error))?;
                self.response = None;
                self.check(response.status(), response.headers())?;
                self.body = Some(response.into_body());
            }
            let Some(body) = &mut self.body else { return Err(self.refused("has ended the stream")) };
            match body.data().await {
                Some(Ok(data)) => {
                    let _connection_gone = body.flow_control().release_capacity(data.len());
                    self.received.extend_from_slice(&data);
                    self.split()?;
                }
                Some(Err(error)) => return Err(CallProblem::Broken(self.url.clone(), error)),
                None => {
                    let trailers = body.trailers().await.ok().flatten();
                    self.body = None;
                    return Err(self.refused(&ended(trailers.as_ref())));
                }
            }
        }
    }

    fn check(&self, status: StatusCode, fields: &HeaderMap) -> Result<(), CallProblem> {
        let kind = fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if status != StatusCode::OK || !kind.starts_with("application/grpc") {
            let kind = if kind.is_empty() { "no content type" } else { kind };
            return Err(self.refused(&format!("answered {} with {kind}: it speaks no gRPC", status.as_u16())));
        }
        // A response without a body: its status is in the head.
        if fields.contains_key("grpc-status") {
            return Err(self.refused(&ended(Some(fields))));
        }
        Ok(())
    }

    /// Takes whole messages out of what has been received.
    fn split(&mut self) -> Result<(), CallProblem> {
        while let Some(prefix) = self.received.first_chunk::<PREFIX_LEN>() {
            let [is_compressed, len @ ..] = *prefix;
            let len = u32::from_be_bytes(len) as usize;
            if is_compressed != 0 {
                return Err(self.refused("sent a compressed message, which Weir has not offered to read"));
            }
            if len > MESSAGE_BYTES_MAX {
                let limit = MESSAGE_BYTES_MAX >> 20;
                return Err(self.refused(&format!("sent a message of more than {limit} MiB")));
            }
            if self.received.len() < PREFIX_LEN + len {
                self.received.reserve(PREFIX_LEN + len - self.received.len());
                return Ok(());
            }
            self.received.advance(PREFIX_LEN);
            self.messages.push_back(self.received.split_to(len).freeze());
        }
        Ok(())
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) fn refused(&self, why: &str) -> CallProblem {
        CallProblem::Refused(self.url.clone(), why.to_owned())
    }
}

async fn begin(
    sender: SendRequest<Bytes>,
    url: &SourceUrl,
    path: &str,
    token: Option<&str>,
) -> Result<(ResponseFuture, SendStream<Bytes>), CallProblem> {
    let refused = |why: String| CallProblem::Refused(url.to_string(), why);
    let scheme = if url.is_tls { "https" } else { "http" };
    let mut request = Request::post(format!("{scheme}://{}{path}", url.authority))
        .header(CONTENT_TYPE, "application/grpc")
        .header("te", "trailers")
        .header("user-agent", concat!("weir/", env!("CARGO_PKG_VERSION")));
    if let Some(token) = token {
        let value = HeaderValue::try_from(format!("Bearer {token}"));
        let mut value =
            value.map_err(|_| refused("cannot be asked: the token is no text of a header".into()))?;
        value.set_sensitive(true);
        request = request.header("authorization", value);
    }
    let request = request.body(()).map_err(|error| refused(format!("cannot be asked: {error}")))?;
    let broken = |error| CallProblem::Broken(url.to_string(), error);
    let mut sender = sender.ready().await.map_err(broken)?;
    sender.send_request(request, false).map_err(broken)
}

/// What the status of an ended call says.
fn ended(fields: Option<&HeaderMap>) -> String {
    let value = |name: &str| fields.and_then(|fields| fields.get(name)).map(HeaderValue::as_bytes);
    let name = match value("grpc-status") {
        None => "status none".to_owned(),
        Some(status) => match GrpcStatus::parse_code(status).and_then(GrpcStatus::from_code) {
            Some(known) => known.name().to_owned(),
            None => format!("status {}", String::from_utf8_lossy(status)),
        },
    };
    let mut message = Vec::new();
    read_status_message(&mut message, value("grpc-message").unwrap_or_default());
    let message: String =
        String::from_utf8_lossy(&message).chars().filter(|letter| !letter.is_control()).collect();
    if message.is_empty() {
        format!("has ended the stream: {name}")
    } else {
        format!("has ended the stream: {name} ({message})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_call_says_why() {
        let of = |status: &str, message: &str| {
            let mut fields = HeaderMap::new();
            fields.insert("grpc-status", status.parse().unwrap());
            fields.insert("grpc-message", message.parse().unwrap());
            ended(Some(&fields))
        };
        assert_eq!(of("16", "no%20token%0a"), "has ended the stream: unauthenticated (no token)");
        assert_eq!(of("0", ""), "has ended the stream: ok");
        assert_eq!(of("99", "%zz%"), "has ended the stream: status 99 (%zz%)");
        assert_eq!(ended(None), "has ended the stream: status none");
    }
}
