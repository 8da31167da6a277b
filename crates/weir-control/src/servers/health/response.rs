//! The response to a probe: read as strictly as any other, up to the part that matters.
//!
//! The head decides by its status; the body is read only if something is looked for in it, and only up to its bound.

use memchr::memmem;
use weir_config::{BodyRule, HttpProbe, StatusRange};
use weir_http::http1::{ChunkedDecoder, HeadProgress, ParsedResponse};
use weir_http::{ChunkedLimits, Framing, HeadLimits, Method};
use weir_observe::{Cause, Failure, Phase};

use super::request::ProbeReuse;
use super::stream::{ProbeStream, read};
use weir_proxy::net::failure::Fault;
use weir_proxy::state::snapshot::UpstreamPlan;

/// Responses of the class 1xx before the final one; a probe asks for none.
const INTERIM_MAX: u32 = 8;

/// The expected response of a server that is well.
#[derive(Debug)]
pub(super) struct Expected {
    method: Method,
    status: Box<[StatusRange]>,
    body: Option<BodyRule>,
    body_bytes_max: usize,
    head_limits: HeadLimits,
    chunked_limits: ChunkedLimits,
}

impl Expected {
    pub(super) fn new(probe: &HttpProbe, plan: &UpstreamPlan) -> Self {
        Self {
            method: Method::recognise(probe.method.as_bytes()),
            status: probe.status.as_slice().into(),
            body: probe.body.clone(),
            body_bytes_max: probe.body_size.as_usize(),
            head_limits: plan.head_limits,
            chunked_limits: plan.chunked_limits,
        }
    }

    /// Reads the response and judges it; `phase` is updated on the way. If the connection is to be `kept`, returns whether it
    /// can be.
    ///
    /// # Errors
    /// When the part that is read is not whole or well-formed, or not as expected.
    pub(super) async fn receive(
        &self,
        source: &mut ProbeStream<'_>,
        kept: ProbeReuse,
        phase: &mut Phase,
    ) -> Result<ProbeReuse, Fault> {
        *phase = Phase::Response;
        let mut head = ParsedResponse::new();
        let pause_ = self.read_head(source, &mut head).await?;
        let status = head.status();
        self.check_status(status)?;
        let framing = head.framing(self.method);
        let reusable = kept == ProbeReuse::Yes && head.keep_alive() && framing != Framing::UntilClose;
        if self.body.is_none() {
            return Ok(if reusable { self.skip_body(source, pause_, framing).await } else { ProbeReuse::No });
        }
        *phase = Phase::Relay;
        let (body, end) = self.read_body(source, pause_, framing).await?;
        self.check_body(&body)?;
        Ok(if reusable { end } else { ProbeReuse::No })
    }

    /// # Errors
    /// When the status is none that is expected.
    pub(super) fn check_status(&self, status: u16) -> Result<(), Fault> {
        match self.status.iter().any(|range| range.contains(status)) {
            true => Ok(()),
            false => Err(Fault::unexpected_status(status)),
        }
    }

    /// # Errors
    /// When what is looked for is not in the body.
    pub(super) fn check_body(&self, body: &[u8]) -> Result<(), Failure> {
        let is_there = match &self.body {
            None => true,
            Some(BodyRule::Contains(needle)) => memmem::find(body, needle.as_bytes()).is_some(),
            Some(BodyRule::Regex(pattern)) => pattern.is_match(body),
        };
        if is_there { Ok(()) } else { Err(Failure::server(Phase::Response, Cause::UnexpectedBody)) }
    }

    /// How much of a body is read.
    pub(super) fn body_bytes_max(&self) -> usize {
        if self.body.is_some() { self.body_bytes_max } else { 0 }
    }

    /// Reads a body that is not needed, up to its bound, so that the next response begins behind it.
    async fn skip_body(&self, source: &mut ProbeStream<'_>, part: Vec<u8>, framing: Framing) -> ProbeReuse {
        // An error in it does not matter: the status has decided.
        self.read_body(source, part, framing).await.map_or(ProbeReuse::No, |(_, end)| end)
    }

    /// Reads the final head; returns the bytes behind it.
    async fn read_head(
        &self,
        source: &mut ProbeStream<'_>,
        head: &mut ParsedResponse,
    ) -> Result<Vec<u8>, Failure> {
        let response = |cause| Failure::server(Phase::Response, cause);
        let mut received = Vec::new();
        let mut interim = 0;
        loop {
            match head.parse(&received, &self.head_limits).map_err(|rule| response(Cause::Rule(rule)))? {
                HeadProgress::Complete { len } => {
                    received.drain(..len);
                    match head.status() {
                        101 => return Err(response(Cause::UnexpectedUpgrade)),
                        200.. => return Ok(received),
                        _ if interim == INTERIM_MAX => return Err(response(Cause::TooManyInterimResponses)),
                        _ => interim += 1,
                    }
                    head.reset();
                }
                HeadProgress::Incomplete => {
                    if read(source, &mut received, Phase::Response).await? == 0 {
                        let cause =
                            if received.is_empty() { Cause::Closed } else { Cause::ResponseIncomplete };
                        return Err(response(cause));
                    }
                }
            }
        }
    }

    /// Reads the body to its end, or as much of it as is needed; `part` is the bytes that came with the head. Returns whether the
    /// next response would begin behind it.
    async fn read_body(
        &self,
        source: &mut ProbeStream<'_>,
        mut part: Vec<u8>,
        framing: Framing,
    ) -> Result<(Vec<u8>, ProbeReuse), Failure> {
        let mut body = Vec::new();
        let mut chunks = ChunkedDecoder::new(self.chunked_limits);
        let announced = match framing {
            Framing::Length(len) => usize::try_from(len).unwrap_or(usize::MAX),
            Framing::None => 0,
            Framing::Delimited | Framing::UntilClose => usize::MAX,
        };
        let wanted = announced.min(self.body_bytes_max);
        loop {
            let mut is_whole = false;
            if framing == Framing::Delimited {
                let broken = |rule| Failure::server(Phase::Relay, Cause::Rule(rule));
                let decoded = chunks.decode(&mut part).map_err(broken)?;
                body.extend_from_slice(&part[decoded.data]);
                // Bytes behind the end of a response belong to no request.
                is_whole = decoded.done && decoded.consumed == part.len();
                if decoded.done && !is_whole {
                    body.truncate(wanted);
                    return Ok((body, ProbeReuse::No));
                }
            } else {
                body.extend_from_slice(&part);
            }
            if is_whole || body.len() >= wanted {
                let ended = is_whole || body.len() == announced;
                body.truncate(wanted);
                return Ok((body, if ended { ProbeReuse::Yes } else { ProbeReuse::No }));
            }
            part.clear();
            if read(source, &mut part, Phase::Relay).await? == 0 {
                return match framing {
                    Framing::UntilClose => Ok((body, ProbeReuse::No)),
                    _ => Err(Failure::server(Phase::Relay, Cause::ResponseIncomplete)),
                };
            }
        }
    }
}
