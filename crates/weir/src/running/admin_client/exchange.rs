//! One request and its answer, on a connection of their own, with bounds on time and size.

use std::io;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use http::Method;
use http::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, USER_AGENT};
use serde_json::Value;
use weir_client::{ClientError, HttpClient, HttpDestination};

use crate::clock;
use crate::error::CommandError;

/// The time limit for connecting.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);

/// Bytes of an answer: the largest is a picture of where the time goes.
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

/// Sends the request and reads the answer to its end, on a connection of its own, within `time_max`; connecting has a limit of its own.
pub(super) fn exchange(
    destination: HttpDestination,
    request: http::Result<http::Request<Bytes>>,
    time_max: Duration,
) -> Result<AdminResponse, ClientError> {
    let request = request.map_err(|error| ClientError::Broken(io::Error::other(error)))?;
    let end = clock::now() + time_max;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let answer = runtime.map_err(ClientError::Unconnected)?.block_on(async {
        let mut client = HttpClient::new(destination, CONNECT_TIME_MAX);
        let response = client.send(&request, time_max).await?;
        response.whole(ANSWER_BYTES_MAX, end.saturating_duration_since(clock::now())).await
    })?;
    let content_type = answer.headers().get(CONTENT_TYPE).map_or(&b""[..], |value| value.as_bytes());
    let content_type = String::from_utf8_lossy(content_type).into_owned();
    Ok(AdminResponse { status: answer.status().as_u16(), content_type, body: answer.into_body() })
}

/// A request that is the only one on its connection.
pub(super) fn write_request(
    method: Method,
    target: &str,
    authorization: Option<&str>,
    body: Option<(&str, &[u8])>,
) -> http::Result<http::Request<Bytes>> {
    let mut request = http::Request::builder().method(method).uri(target);
    request = request.header(CONNECTION, "close").header(USER_AGENT, "weir");
    if let Some(authorization) = authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    if let Some((content_type, _)) = body {
        request = request.header(CONTENT_TYPE, content_type);
    }
    request.body(body.map_or_else(Bytes::new, |(_, body)| Bytes::copy_from_slice(body)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
