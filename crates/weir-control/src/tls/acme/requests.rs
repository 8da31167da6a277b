//! Requests to authorities: HTTP/1.1 over TLS, one connection each.
//!
//! An order takes some fifteen of them, one after the other. The client of `instant-acme` hands them over by a channel: its requests end with the thread that
//! sends them, whichever task waits for them. Must not know what they are about.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::CONNECTION;
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse};
use rustls::pki_types::ServerName;
use serde_json::{Map, Value};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use weir_client::{ClientError, HostAndPort, HttpClient, HttpDestination, PeerAddress};
use weir_config::{Authorities, MaskedText};
use weir_http::{WallTime, retry_delay};
use weir_observe::Phase;
use weir_proxy::net::clock;
use weir_proxy::net::failure::{of_connect, of_server};
use weir_proxy::net::tls::client_config::verifying;

use super::schedule::RETRY_AFTER_MAX;

/// How long one request may take in all.
const REQUEST_TIME: Duration = Duration::from_secs(30);

/// The largest response; a chain of certificates has a few KiB.
const BODY_BYTES_MAX: usize = 1024 * 1024;

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
    Unresolved(String, io::Error),
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

impl RequestError {
    /// `part` is what was waited for.
    fn new(host: &str, part: &str, error: ClientError) -> Self {
        let host = || host.to_owned();
        match error {
            ClientError::Unresolved(error) => Self::Unresolved(host(), error),
            ClientError::Unconnected(error) => Self::Unreached(host(), of_connect(&error).reason()),
            ClientError::NoTls(error) => Self::Unreached(host(), of_server(Phase::Connect, &error).reason()),
            ClientError::TimedOut => Self::TimedOut(host()),
            ClientError::Broken(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Self::Broken(format!("it ends within its {part}"))
            }
            ClientError::Broken(error) => Self::Broken(error.to_string()),
            ClientError::Malformed(what) => Self::Broken(what),
            ClientError::TooLong => Self::Broken("it is longer than 1 MiB".to_owned()),
        }
    }
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

impl instant_acme::HttpClient for AcmeRequests {
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
    while let Some((request, protection, answer)) = next.recv().await {
        let trusted = match known {
            Some(known) => Ok(Arc::clone(known)),
            None => Authorities::of_system().map_err(|error| RequestError::Tls(error.to_string())),
        };
        match trusted {
            Ok(trusted) => {
                *known = Some(Arc::clone(&trusted));
                tokio::task::spawn_local(async move {
                    let host = request.uri().host().unwrap_or_default().to_owned();
                    let sent = tokio::time::timeout(REQUEST_TIME, send(request, protection, &trusted)).await;
                    let _gave_up = answer.send(sent.unwrap_or(Err(RequestError::TimedOut(host))));
                });
            }
            Err(error) => {
                let _gave_up = answer.send(Err(error));
            }
        }
    }
}

async fn send(request: AcmeRequest, protection: RequestProtection, trusted: &Arc<Authorities>) -> AcmeResult {
    let (mut parts, body) = request.into_parts();
    let bad_url = || RequestError::BadUrl(MaskedText::from(&*parts.uri.to_string()));
    let is_tls = match parts.uri.scheme_str() {
        Some("https") => true,
        Some("http") if protection == RequestProtection::ByUrl => false,
        _ => return Err(bad_url()),
    };
    let authority = parts.uri.authority().ok_or_else(bad_url)?.as_str().into();
    let host = parts.uri.host().ok_or_else(bad_url)?.to_owned();
    let port = parts.uri.port_u16().unwrap_or(if is_tls { HTTPS_PORT } else { HTTP_PORT });
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let tls = if is_tls {
        ServerName::try_from(bare).map_err(|_| bad_url())?;
        Some(Ok(tls(trusted)?))
    } else {
        None
    };
    let address = PeerAddress::Tcp(HostAndPort { host: bare.into(), port });
    parts.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = http::Request::from_parts(parts, body);
    let mut client = HttpClient::new(HttpDestination { address, authority, tls }, REQUEST_TIME);
    let failed = |part| {
        let host = &host;
        move |error| RequestError::new(host, part, error)
    };
    let response = client.send(&request, REQUEST_TIME).await.map_err(failed("head"))?;
    let response = response.whole(BODY_BYTES_MAX, REQUEST_TIME).await.map_err(failed("body"))?;
    Ok(response.map(Bytes::from))
}

/// Verifies servers as the data path does: one of `trusted` may also be a server's own certificate.
fn tls(trusted: &Arc<Authorities>) -> Result<TlsConnector, RequestError> {
    let config = verifying(trusted, None);
    let mut config = config.map_err(|error| RequestError::Tls(error.to_string()))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
