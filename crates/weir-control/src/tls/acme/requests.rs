//! Requests to authorities: HTTP/1.1 over TLS, one connection each, by way of the sockets and the TLS of the data path.
//!
//! An order takes some fifteen of them, one after the other. The client of `instant-acme` hands them over by a channel, since connections
//! stay on their thread. Must not know what they are about.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use rustls::pki_types::ServerName;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use weir_config::{Authorities, MaskedText};
use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedResponse};
use weir_http::{ChunkedLimits, Framing, HeadLimits, Method, WallTime, retry_delay};
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::clock;
use weir_proxy::net::connection::Connection;
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::net::socket::Behind;
use weir_proxy::net::tls::client_config::HandshakeConfig;
use weir_proxy::upstream::handshake::{self, ConnectionSetup};

use super::schedule::RETRY_AFTER_MAX;

/// How long one request may take in all.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The largest response; a chain of certificates has a few KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

const BUFFER_SIZE: usize = 16 * 1024;

const HTTPS_PORT: u16 = 443;

const HTTP_PORT: u16 = 80;

type AcmeRequest = http::Request<BodyWrapper<Bytes>>;

/// A request on its way to the task that sends it.
type WaitingRequest = (AcmeRequest, RequestProtection, oneshot::Sender<AcmeResult>);

/// Whether a request may go without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestProtection {
    /// Never: whatever an authority names.
    Tls,
    /// As its URL says.
    ByUrl,
}

type AcmeResult = Result<http::Response<Bytes>, RequestError>;

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error("the URL `{0}` cannot be used")]
    BadUrl(MaskedText),
    #[error("the name `{0}` cannot be resolved: {1}")]
    Unresolved(String, std::io::Error),
    #[error("the authority at `{0}` cannot be reached ({1})")]
    Unreached(String, &'static str),
    #[error("the authority at `{0}` did not answer within 30 s")]
    TimedOut(String),
    #[error("the response of the authority is broken: {0}")]
    Broken(String),
    #[error("{0}")]
    Tls(String),
    #[error("Weir is about to stop")]
    Stopping,
    #[error("the request has ended early: Weir is about to stop, or the log has a defect of Weir")]
    Ended,
}

/// Sends requests, from any thread.
#[derive(Debug, Clone)]
pub(super) struct AcmeRequests {
    queue: UnboundedSender<WaitingRequest>,
    retry_after: Arc<Mutex<Option<WallTime>>>,
}

impl AcmeRequests {
    /// Begins to send what comes, on this thread; servers are verified by `authorities`, else by those of the system.
    pub(super) fn start(authorities: Option<Arc<Authorities>>) -> Self {
        let (queue, next) = unbounded_channel();
        tokio::task::spawn_local(async move {
            let requests = tokio::sync::Mutex::new((next, authorities));
            let send = || async {
                let (next, known) = &mut *requests.lock().await;
                send_all(next, known).await;
            };
            weir_tasks::keep("the requests to authorities", send).await;
        });
        Self { queue, retry_after: Arc::default() }
    }

    /// Whether the server at `url` permits a certificate for a host on demand.
    ///
    /// # Errors
    /// When it does not say.
    pub(super) async fn ask(&self, url: &str, host: &str) -> Result<bool, RequestError> {
        let separator = if url.contains('?') { '&' } else { '?' };
        let bad_url = || RequestError::BadUrl(MaskedText::from(url));
        let request = http::Request::get(format!("{url}{separator}domain={host}"));
        let request = request.body(BodyWrapper::default()).map_err(|_| bad_url())?;
        let (answer, answered) = oneshot::channel();
        let queued = self.queue.send((request, RequestProtection::ByUrl, answer));
        queued.map_err(|_| RequestError::Stopping)?;
        let status = answered.await.map_err(|_| RequestError::Ended)??.status();
        match status.is_server_error() {
            true => Err(RequestError::Broken(format!("its status is {}", status.as_u16()))),
            false => Ok(status.is_success()),
        }
    }

    /// Until when the last response that was no success has asked to wait.
    pub(super) fn take_retry_after(&self) -> Option<WallTime> {
        self.retry_after.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl HttpClient for AcmeRequests {
    fn request(
        &self,
        request: AcmeRequest,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let (answer, answered) = oneshot::channel();
        let queued = self.queue.send((request, RequestProtection::Tls, answer));
        let retry_after = Arc::clone(&self.retry_after);
        Box::pin(async move {
            let other = |error: RequestError| instant_acme::Error::Other(Box::new(error));
            queued.map_err(|_| other(RequestError::Stopping))?;
            let mut response = answered.await.map_err(|_| other(RequestError::Ended))?.map_err(other)?;
            let wait = bound_wait(&mut response);
            if !response.status().is_success() {
                let until = wait.map(|wait| clock::date() + wait);
                *retry_after.lock().unwrap_or_else(PoisonError::into_inner) = until;
            }
            match has_sound_urls(response.body()) {
                true => Ok(BytesResponse::from(response.map(Full::new))),
                false => Err(other(RequestError::Broken("it names a URL that is none".to_owned()))),
            }
        })
    }
}

/// How long the authority asks to wait. The library adds that to its clock as it is: it finds a number of seconds that has a limit.
fn bound_wait(response: &mut http::Response<Bytes>) -> Option<Duration> {
    let value = response.headers_mut().remove(http::header::RETRY_AFTER)?;
    let wait = retry_delay(value.as_bytes(), clock::date())?.min(RETRY_AFTER_MAX);
    response.headers_mut().insert(http::header::RETRY_AFTER, wait.as_secs().into());
    Some(wait)
}

/// Whether the URL that the library takes from a directory without a look is one; what is no directory has none.
fn has_sound_urls(body: &Bytes) -> bool {
    let directory: Option<Map<String, Value>> = serde_json::from_slice(body).ok();
    let url = directory.as_ref().and_then(|directory| directory.get("newNonce")?.as_str());
    url.is_none_or(|url| url.parse::<http::Uri>().is_ok())
}

/// Sends what comes. The authorities of the system are many files: read once, they are known.
async fn send_all(next: &mut UnboundedReceiver<WaitingRequest>, known: &mut Option<Arc<Authorities>>) {
    let stock = BufferStock::new(BUFFER_SIZE);
    while let Some((request, protection, answer)) = next.recv().await {
        let trusted = match known {
            Some(known) => Ok(Arc::clone(known)),
            None => Authorities::of_system().map_err(|error| RequestError::Tls(error.to_string())),
        };
        match trusted {
            Ok(trusted) => {
                *known = Some(Arc::clone(&trusted));
                let stock = Rc::clone(&stock);
                tokio::task::spawn_local(async move {
                    let host = request.uri().host().unwrap_or_default().to_owned();
                    let sent =
                        tokio::time::timeout(REQUEST_TIME, send(request, protection, &trusted, &stock)).await;
                    let _gave_up = answer.send(sent.unwrap_or(Err(RequestError::TimedOut(host))));
                });
            }
            Err(error) => {
                let _gave_up = answer.send(Err(error));
            }
        }
    }
}

async fn send(
    request: AcmeRequest,
    protection: RequestProtection,
    trusted: &Arc<Authorities>,
    stock: &Rc<BufferStock>,
) -> AcmeResult {
    let (parts, body) = request.into_parts();
    let bad_url = || RequestError::BadUrl(MaskedText::from(&*parts.uri.to_string()));
    let is_tls = match parts.uri.scheme_str() {
        Some("https") => true,
        Some("http") if protection == RequestProtection::ByUrl => false,
        _ => return Err(bad_url()),
    };
    let host = parts.uri.host().ok_or_else(bad_url)?;
    let port = parts.uri.port_u16().unwrap_or(if is_tls { HTTPS_PORT } else { HTTP_PORT });
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let handshake = if is_tls {
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| bad_url())?;
        let verified = HandshakeConfig::verified(name, trusted);
        Some(verified.map_err(|error| RequestError::Tls(error.to_string()))?)
    } else {
        None
    };
    let found = tokio::net::lookup_host((bare, port)).await;
    let found = found.map_err(|error| RequestError::Unresolved(host.to_owned(), error))?;
    let endpoints: Vec<Endpoint> = found.map(Endpoint::Inet).collect();
    let setup =
        ConnectionSetup { header: None, handshake: handshake.as_ref(), behind: Behind::More, timers: None };
    let unreached =
        |failure: weir_observe::Failure| RequestError::Unreached(host.to_owned(), failure.reason());
    let mut connection = handshake::open(setup, &endpoints, 0, stock).await.map_err(unreached)?;

    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let head = head_of(&parts, &body).ok_or_else(bad_url)?;
    let broken = |error: std::io::Error| RequestError::Broken(error.to_string());
    write(&mut connection, &[head.as_bytes(), &body].concat()).await.map_err(broken)?;
    let is_head = parts.method == http::Method::HEAD;
    let response = receive(&mut connection, stock, is_head).await;
    connection.send_end_now();
    response
}

fn head_of(parts: &http::request::Parts, body: &Bytes) -> Option<String> {
    let target = parts.uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let mut head = format!("{} {target} HTTP/1.1\r\nHost: {}\r\n", parts.method, parts.uri.authority()?);
    for (name, value) in &parts.headers {
        head.push_str(&format!("{name}: {}\r\n", value.to_str().ok()?));
    }
    if parts.method == http::Method::POST {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("Connection: close\r\n\r\n");
    Some(head)
}

async fn write(connection: &mut Connection, mut bytes: &[u8]) -> std::io::Result<()> {
    while !bytes.is_empty() || connection.has_unsent() {
        let sent = std::future::poll_fn(|cx| connection.poll_write(cx, [bytes, &[], &[]], Behind::Unknown));
        bytes = &bytes[sent.await?..];
    }
    Ok(())
}

async fn read(
    connection: &mut Connection,
    stock: &Rc<BufferStock>,
    received: &mut Vec<u8>,
) -> Result<usize, RequestError> {
    let outcome = std::future::poll_fn(|cx| connection.poll_fill(cx, stock)).await;
    let len = outcome.map_err(|error| RequestError::Broken(error.to_string()))?;
    received.extend_from_slice(connection.received());
    connection.consume(len);
    Ok(len)
}

async fn receive(connection: &mut Connection, stock: &Rc<BufferStock>, is_head: bool) -> AcmeResult {
    let broken = |what: &str| RequestError::Broken(what.to_owned());
    let mut head = ParsedResponse::new();
    let mut received = Vec::new();
    let head_len = loop {
        match head.parse(&received, &HeadLimits::default()) {
            Ok(HeadProgress::Complete { len }) if head.status() >= 200 => break len,
            Ok(HeadProgress::Complete { len }) => {
                received.drain(..len);
                head.reset();
            }
            Ok(HeadProgress::Incomplete) => {
                if read(connection, stock, &mut received).await? == 0 {
                    return Err(broken("it ends within its head"));
                }
            }
            Err(rule) => return Err(RequestError::Broken(format!("{rule:?}"))),
        }
    };
    let mut response = http::Response::builder().status(head.status());
    for field in head.fields().iter() {
        response = response.header(field.name.of(&received), field.value.of(&received));
    }
    let framing = head.framing(if is_head { Method::Head } else { Method::Post });
    let part = received.split_off(head_len);
    let body = receive_body(connection, stock, framing, part).await?;
    response.body(Bytes::from(body)).map_err(|error| RequestError::Broken(error.to_string()))
}

async fn receive_body(
    connection: &mut Connection,
    stock: &Rc<BufferStock>,
    framing: Framing,
    mut part: Vec<u8>,
) -> Result<Vec<u8>, RequestError> {
    let broken = |what: &str| RequestError::Broken(what.to_owned());
    let mut body = Vec::new();
    let mut chunks = ChunkedDecoder::new(ChunkedLimits::default());
    loop {
        let mut is_whole = framing.is_empty();
        if framing == Framing::Delimited {
            let decoded =
                chunks.decode(&mut part).map_err(|rule| RequestError::Broken(format!("{rule:?}")))?;
            body.extend_from_slice(&part[decoded.data]);
            part.drain(..decoded.consumed);
            is_whole = decoded.done;
        } else {
            body.append(&mut part);
        }
        if let Framing::Length(len) = framing {
            is_whole = body.len() as u64 >= len;
        }
        if body.len() > BODY_BYTES_MAX {
            return Err(broken("it is longer than 1 MiB"));
        }
        if is_whole {
            return Ok(body);
        }
        if read(connection, stock, &mut part).await? == 0 {
            return match framing {
                Framing::UntilClose => Ok(body),
                _ => Err(broken("it ends within its body")),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_their_host_and_their_length() {
        let request = http::Request::builder().method("POST").uri("https://ca.test:14000/order?x=1");
        let (parts, _) =
            request.header("content-type", "application/jose+json").body(()).unwrap().into_parts();
        assert_eq!(
            head_of(&parts, &Bytes::from_static(b"{}")).unwrap(),
            "POST /order?x=1 HTTP/1.1\r\nHost: ca.test:14000\r\ncontent-type: application/jose+json\r\nContent-Length: 2\r\n\
             Connection: close\r\n\r\n"
        );
    }

    #[test]
    fn the_library_finds_only_waits_that_it_can_add() {
        for (value, expected) in [
            ("60", Some(60)),
            ("0", Some(0)),
            ("18446744073709551615", Some(86_400)),
            ("9223372036854775807", Some(86_400)),
            ("99999999999999999999999", Some(86_400)),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(86_400)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("-1", None),
            ("soon", None),
        ] {
            let response = http::Response::builder().header("retry-after", value).header("retry-after", "7");
            let mut response = response.body(Bytes::new()).unwrap();
            let wait = bound_wait(&mut response);
            assert_eq!(wait, expected.map(Duration::from_secs), "{value}");
            let left = response.headers().get_all("retry-after").iter();
            let left: Vec<&str> = left.map(|value| value.to_str().unwrap()).collect();
            let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
            assert_eq!(left, expected, "{value}");
        }
    }

    #[test]
    fn a_directory_with_urls_that_are_none_is_refused() {
        for (body, expected) in [
            (r#"{"newNonce": "https://ca.test/nonce"}"#, true),
            (r#"{"newNonce": "https://ca.test/a b"}"#, false),
            (r#"{"newNonce": ""}"#, false),
            (r#"{"newNonce": "https://"}"#, false),
            (r#"{"newNonce": "https://[::1"}"#, false),
            (r#"{"newNonce": 7}"#, true),
            (r#"["newNonce"]"#, true),
            ("-----BEGIN CERTIFICATE-----", true),
            ("", true),
        ] {
            assert_eq!(has_sound_urls(&Bytes::from_static(body.as_bytes())), expected, "{body}");
        }
    }
}
