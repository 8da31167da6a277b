//! Probes over FastCGI: the request of an HTTP probe as the parameters of CGI, and what the server answers.
//!
//! The path is the name of the script and its file at once, which is how PHP-FPM knows its own pages (`ping.path`, `pm.status_path`).

use weir_config::{HttpProbe, ServerAddress};
use weir_http::fastcgi::{
    CgiHeadParser, CgiProgress, Params, ProtocolStatus, RecordDecoder, RecordStep, begin_request,
    end_of_stdin,
};
use weir_http::{FieldWriter as _, ResponseHead};
use weir_observe::{Cause, Failure, Phase};

use super::http2::ResponseLimits;
use super::request::{USER_AGENT, authority};
use super::stream::{ProbeStream, read};

/// The records of the request; the server is to close the connection behind its response.
pub(super) fn write_request(probe: &HttpProbe, address: &ServerAddress) -> Box<[u8]> {
    let (path, query) = probe.path.exposed().split_once('?').unwrap_or((probe.path.exposed(), ""));
    let mut params = Params::default();
    for (name, value) in [
        ("SCRIPT_FILENAME", path),
        ("SCRIPT_NAME", path),
        ("DOCUMENT_URI", path),
        ("QUERY_STRING", query),
        ("REQUEST_URI", probe.path.exposed()),
        ("REQUEST_METHOD", &probe.method),
        ("CONTENT_TYPE", ""),
        ("CONTENT_LENGTH", ""),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("GATEWAY_INTERFACE", "CGI/1.1"),
        ("SERVER_NAME", "localhost"),
        ("SERVER_PORT", "80"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REDIRECT_STATUS", "200"),
    ] {
        params.set(name.as_bytes(), value.as_bytes());
    }
    params.field(b"Host", authority(probe.host.as_deref(), address).as_bytes());
    if !probe.headers.iter().any(|(name, _)| &**name == "user-agent") {
        params.field(b"User-Agent", USER_AGENT);
    }
    for (name, value) in &probe.headers {
        params.field(name.as_bytes(), value.as_bytes());
    }
    let mut out = Vec::with_capacity(512);
    begin_request(&mut out, false);
    params.write(&mut out);
    out.extend_from_slice(&end_of_stdin());
    out.into()
}

/// Status and the beginning of the body of the response.
///
/// # Errors
/// When the response is not whole or not well-formed, as far as it is read.
pub(super) async fn receive(
    source: &mut ProbeStream<'_>,
    limits: &ResponseLimits,
) -> Result<(u16, Vec<u8>), Failure> {
    let failed = |cause| Failure::server(Phase::Response, cause);
    let broken = |rule| failed(Cause::Rule(rule));
    let (mut decoder, mut parser, mut head) =
        (RecordDecoder::new(), CgiHeadParser::default(), ResponseHead::new());
    let (mut received, mut body) = (Vec::new(), Vec::new());
    let mut is_complete = false;
    loop {
        let (framing, step) = decoder.step(&received).map_err(broken)?;
        received.drain(..framing);
        match step {
            RecordStep::More => {
                if read(source, &mut received, Phase::Response).await? == 0 {
                    let has_begun = is_complete || parser.has_begun();
                    return Err(failed(if has_begun { Cause::ResponseIncomplete } else { Cause::Closed }));
                }
            }
            RecordStep::Stderr(range) => _ = received.drain(range),
            RecordStep::Stdout(range) if is_complete => body.extend(received.drain(range)),
            RecordStep::Stdout(range) => {
                let len = range.len();
                match parser.push(&mut head, &received[range], &limits.head).map_err(broken)? {
                    CgiProgress::Incomplete => _ = received.drain(..len),
                    CgiProgress::Complete { taken } => {
                        is_complete = true;
                        received.drain(..taken);
                        decoder.give_back(len - taken);
                    }
                }
            }
            RecordStep::End { protocol_status, .. } => {
                return match protocol_status {
                    ProtocolStatus::Complete if is_complete => Ok((head.status(), body)),
                    ProtocolStatus::Complete => Err(failed(Cause::FastcgiNoResponse)),
                    ProtocolStatus::UnknownRole => Err(failed(Cause::FastcgiNoResponder)),
                    ProtocolStatus::Overloaded | ProtocolStatus::CannotMultiplex => {
                        Err(failed(Cause::FastcgiOverloaded))
                    }
                };
            }
        }
        if is_complete && body.len() >= limits.body_bytes_max {
            body.truncate(limits.body_bytes_max);
            return Ok((head.status(), body));
        }
    }
}
