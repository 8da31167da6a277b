//! Requests to Consul and etcd, over one connection that is kept between them, with errors in the words of the log. Responses come whole or piece by
//! piece. Must not know what they are about.

use std::time::Duration;

use http::Method;
use http::header::CONTENT_TYPE;
use weir_client::{ClientError, ClientResponse, HttpClient, HttpDestination, tls_setup};
use weir_config::{SourceTls, SourceUrl};

/// How long a connection and its handshake may take.
pub(crate) const CONNECT_TIME: Duration = Duration::from_secs(5);

/// How long that may take where another URL can be asked.
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

impl RequestProblem {
    fn new(url: &SourceUrl, wait: Duration, error: ClientError) -> Self {
        let url = url.to_string();
        match error {
            ClientError::Unresolved(error) | ClientError::Unconnected(error) | ClientError::NoTls(error) => {
                Self::Unreached(url, error)
            }
            ClientError::TimedOut => Self::TimedOut(url, wait.as_secs()),
            ClientError::Broken(error) => Self::Broken(url, error),
            ClientError::Malformed(what) => Self::Malformed(url, what),
            ClientError::TooLong => {
                Self::Refused(format!("{url} sent more than {} MiB", BODY_BYTES_MAX >> 20))
            }
        }
    }
}

/// What is asked.
pub(crate) struct Query<'a> {
    pub(crate) method: Method,
    /// Path and query, already encoded.
    pub(crate) target: &'a str,
    /// A further field: name and value.
    pub(crate) field: Option<(&'a str, &'a str)>,
    /// JSON, if the method has a body.
    pub(crate) body: &'a str,
}

/// Where a source is, with TLS if its URL wants it; `protocols` are offered by ALPN.
pub(crate) fn destination(url: &SourceUrl, tls: Option<&SourceTls>, protocols: &[&[u8]]) -> HttpDestination {
    let setup = url.is_tls.then(|| match tls {
        Some(tls) => tls_setup(&tls.authorities, tls.certificate.as_deref(), protocols),
        None => Err("there are no authorities to verify its certificate".to_owned()),
    });
    HttpDestination::of_authority(&url.authority, setup)
}

/// A client of one URL.
pub(crate) struct SourceClient {
    url: SourceUrl,
    client: HttpClient,
}

impl SourceClient {
    /// A client without a connection yet; `tls` is there when the URL wants TLS.
    pub(crate) fn new(url: SourceUrl, tls: Option<&SourceTls>) -> Self {
        Self::connecting_within(CONNECT_TIME, url, tls)
    }

    /// The client of one of several URLs: the others are waiting.
    pub(crate) fn of_several(url: SourceUrl, tls: Option<&SourceTls>) -> Self {
        Self::connecting_within(CONNECT_TIME_OF_SEVERAL, url, tls)
    }

    fn connecting_within(connect_time: Duration, url: SourceUrl, tls: Option<&SourceTls>) -> Self {
        let client = HttpClient::new(destination(&url, tls, &[]), connect_time);
        Self { url, client }
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(
        &mut self,
        query: Query<'_>,
        wait: Duration,
    ) -> Result<SourceResponse<'_>, RequestProblem> {
        let Self { url, client } = self;
        let mut request = http::Request::builder().uri(query.target);
        if let Some((name, value)) = query.field {
            request = request.header(name, value);
        }
        if query.method != Method::GET {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let request = request.method(query.method).body(query.body.to_owned().into());
        // The value of a field, which may be a secret, is not in this error.
        let unusable = |error| RequestProblem::Refused(format!("{url} cannot be asked: {error}"));
        let sent = client.send(&request.map_err(unusable)?, wait).await;
        let response = sent.map_err(|error| RequestProblem::new(url, wait, error))?;
        Ok(SourceResponse { url, response })
    }
}

/// A response whose body comes. Dropped before its end, the connection goes with it.
pub(crate) struct SourceResponse<'a> {
    url: &'a SourceUrl,
    response: ClientResponse<'a>,
}

impl SourceResponse<'_> {
    pub(crate) fn status(&self) -> u16 {
        self.response.head.status.as_u16()
    }

    /// Appends the next piece; `false` at the end of the body.
    pub(crate) async fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, RequestProblem> {
        let read = self.response.read(out).await;
        read.map_err(|error| RequestProblem::new(self.url, Duration::ZERO, error))
    }

    /// The whole response; the connection is kept for the next request.
    pub(crate) async fn whole(self, wait: Duration) -> Result<http::Response<Vec<u8>>, RequestProblem> {
        let whole = self.response.whole(BODY_BYTES_MAX, wait).await;
        whole.map_err(|error| RequestProblem::new(self.url, wait, error))
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
