//! Probes over HTTP/2: one stream after the other on a connection of the probes' own.

use std::rc::Rc;

use weir_config::{HeaderName, HeaderValue, HttpProbe, ServerAddress};
use weir_http::h2::{
    Block, BlockUse, ConnectionCodec, ConnectionFault, ConnectionLimits, ErrorCode, Event, HeadWriter,
    HpackDecoder, HpackEncoder, RequestPseudoFields, Role, Settings, read_response, read_trailers,
};
use weir_http::{ChunkedLimits, FieldWriter as _, Fields, HeadLimits, ResponseHead, Rule};
use weir_observe::{Cause, Failure, Phase};

use super::request::{USER_AGENT, authority};
use super::stream::{ProbeStream, read, send};
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::clock::{self, Instant};
use weir_proxy::net::connection::Connection;

/// A request, which is the same each time.
#[derive(Debug)]
pub(super) struct Http2Request {
    pub(super) method: Box<str>,
    pub(super) path: Box<str>,
    pub(super) authority: Box<str>,
    /// Names and values.
    pub(super) fields: Vec<(Box<str>, Box<[u8]>)>,
    /// Empty: there is none.
    pub(super) body: Box<[u8]>,
}

impl Http2Request {
    /// That of an HTTP probe.
    pub(super) fn of_http(probe: &HttpProbe, address: &ServerAddress) -> Self {
        Self {
            method: probe.method.clone(),
            path: probe.path.exposed().into(),
            authority: authority(probe.host.as_deref(), address).into(),
            fields: fields(&probe.headers),
            body: Box::default(),
        }
    }
}

/// These fields, and the name of Weir unless they have one.
pub(super) fn fields(headers: &[(HeaderName, HeaderValue)]) -> Vec<(Box<str>, Box<[u8]>)> {
    let own = (!headers.iter().any(|(name, _)| &**name == "user-agent"))
        .then(|| ("user-agent".into(), USER_AGENT.into()));
    let others = headers.iter().map(|(name, value)| ((**name).into(), value.as_bytes().into()));
    own.into_iter().chain(others).collect()
}

/// What has come of a response.
#[derive(Debug, Default)]
pub(super) struct Http2Response {
    /// 0 before the final head.
    pub(super) status: u16,
    /// The beginning of the body.
    pub(super) body: Vec<u8>,
    /// The value of `grpc-status`, in the trailers or, where there is no body, in the head.
    pub(super) grpc_status: Option<Vec<u8>>,
}

/// The limits of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseLimits {
    pub(super) head: HeadLimits,
    pub(super) trailers: ChunkedLimits,
    pub(super) body_bytes_max: usize,
}

/// A connection of the probes.
#[derive(Debug)]
pub(super) struct ProbeConnection {
    pub(super) connection: Connection,
    codec: ConnectionCodec,
    decoder: HpackDecoder,
    encoder: HpackEncoder,
    output: Vec<u8>,
    received: Vec<u8>,
    opened_at: Instant,
}

impl ProbeConnection {
    pub(super) fn new(connection: Connection) -> Self {
        let mut output = Vec::new();
        let settings = Settings { enable_push: false, ..Settings::default() };
        let codec = ConnectionCodec::new(Role::Client, settings, ConnectionLimits::default(), &mut output);
        Self {
            connection,
            codec,
            decoder: HpackDecoder::new(),
            encoder: HpackEncoder::default(),
            output,
            received: Vec::new(),
            opened_at: clock::now(),
        }
    }

    /// Sends the request and reads its response, up to the end of the stream or as much of the body as is wanted.
    ///
    /// # Errors
    /// When the response is not whole or well-formed up to there.
    pub(super) async fn ask(
        &mut self,
        stock: &Rc<BufferStock>,
        request: &Http2Request,
        limits: &ResponseLimits,
        phase: &mut Phase,
    ) -> Result<Http2Response, Failure> {
        *phase = Phase::Send;
        if !self.codec.can_open() {
            return Err(Failure::server(Phase::Send, Cause::Closed));
        }
        let stream = self.codec.open_stream();
        self.write(stream, request);
        let mut response = Http2Response::default();
        loop {
            send(&mut self.connection, &self.output).await?;
            self.output.clear();
            *phase = Phase::Response;
            if self.take_in(stream, &mut response, limits)? {
                self.codec.release(stream, ErrorCode::CANCEL, &mut self.output);
                return Ok(response);
            }
            if !self.output.is_empty() {
                continue;
            }
            let mut source = ProbeStream { connection: &mut self.connection, stock };
            if read(&mut source, &mut self.received, Phase::Response).await? == 0 {
                let has_begun = self.codec.has_begun();
                let cause = if has_begun { Cause::Closed } else { Cause::NotHttp2 };
                return Err(Failure::server(Phase::Response, cause));
            }
        }
    }

    fn write(&mut self, stream: u32, request: &Http2Request) {
        let scheme: &[u8] = if self.connection.has_tls() { b"https" } else { b"http" };
        let pseudo_fields = RequestPseudoFields {
            method: request.method.as_bytes(),
            scheme,
            authority: request.authority.as_bytes(),
            path: request.path.as_bytes(),
            protocol: None,
        };
        let block = self.codec.begin_block(stream, &mut self.output);
        let mut head = HeadWriter::request(&mut self.encoder, &mut self.output, &pseudo_fields);
        for (name, value) in &request.fields {
            head.field(name.as_bytes(), value);
        }
        self.codec.end_block(block, request.body.is_empty(), &mut self.output);
        if !request.body.is_empty() {
            self.codec.send_data(stream, &request.body, usize::MAX, &mut self.output);
            self.codec.send_end(stream, None, &mut self.output);
        }
    }

    /// Deals with what was received; whether the response is there as far as it is wanted.
    fn take_in(
        &mut self,
        stream: u32,
        response: &mut Http2Response,
        limits: &ResponseLimits,
    ) -> Result<bool, Failure> {
        let now = (clock::now() - self.opened_at).as_millis() as u64;
        let mut used = 0;
        let mut is_over = false;
        while !is_over {
            let step = self.codec.receive(&self.received[used..], now, &mut self.output);
            let step = step.map_err(|fault| self.broken(fault))?;
            let from = used;
            used += step.used;
            let Some(event) = step.event else { break };
            is_over = self.event(event, from, stream, response, limits)?;
        }
        self.received.drain(..used);
        let has_enough = limits.body_bytes_max > 0 && response.body.len() >= limits.body_bytes_max;
        Ok(is_over || has_enough)
    }

    /// `from` is where the ranges of the event begin; whether the response is over.
    fn event(
        &mut self,
        event: Event,
        from: usize,
        stream: u32,
        response: &mut Http2Response,
        limits: &ResponseLimits,
    ) -> Result<bool, Failure> {
        let failed = |cause| Failure::server(Phase::Response, cause);
        match event {
            Event::Block { stream: id, block, usage, ends_stream } => {
                let block = match block {
                    Block::Input(range) => self.received[from + range.start..from + range.end].to_vec(),
                    Block::Gathered => self.codec.take_block(),
                };
                if id == stream && usage == BlockUse::Head {
                    self.block(&block, ends_stream, response, limits)?;
                    return Ok(ends_stream);
                }
                Ok(false)
            }
            Event::Data { stream: id, data, ends_stream } if id == stream => {
                let data = &self.received[from + data.start..from + data.end];
                let left = limits.body_bytes_max.saturating_sub(response.body.len());
                response.body.extend_from_slice(&data[..data.len().min(left)]);
                let len = data.len() as u32;
                self.codec.consumed(stream, len, &mut self.output);
                Ok(ends_stream)
            }
            Event::Reset { stream: id, code } if id == stream => Err(failed(ended_by(code, Cause::Reset))),
            Event::Fault { stream: id, fault } if id == stream => Err(failed(Cause::Rule(fault.rule))),
            Event::GoAway { last_stream, code } if last_stream < stream => {
                Err(failed(ended_by(code, Cause::Closed)))
            }
            _ => Ok(false),
        }
    }

    /// A head, or trailers behind it.
    fn block(
        &mut self,
        block: &[u8],
        ends_stream: bool,
        response: &mut Http2Response,
        limits: &ResponseLimits,
    ) -> Result<(), Failure> {
        let mut text = Vec::new();
        let (mut head, mut fields) = (ResponseHead::new(), Fields::new());
        let read = match response.status {
            0 => read_response(&mut self.decoder, block, &mut head, &mut text, &limits.head, ends_stream),
            _ => read_trailers(&mut self.decoder, block, &mut fields, &mut text, &limits.trailers),
        };
        read.map_err(|error| {
            let rule = match error {
                weir_http::h2::BlockError::Malformed(rule) => rule,
                error => error.connection_fault().map_or(Rule::Http2BadHeaderBlock, |fault| fault.rule),
            };
            Failure::server(Phase::Response, Cause::Rule(rule))
        })?;
        if response.status == 0 && head.status() < 200 {
            return Ok(());
        }
        let fields = if response.status == 0 { head.fields() } else { &fields };
        let grpc_status = fields.get_by_name(&text, "grpc-status");
        response.grpc_status = grpc_status.map(|field| field.value.of(&text).to_vec());
        if response.status == 0 {
            response.status = head.status();
        }
        Ok(())
    }

    fn broken(&self, fault: ConnectionFault) -> Failure {
        let cause = if self.codec.has_begun() { Cause::Rule(fault.rule) } else { Cause::NotHttp2 };
        Failure::server(Phase::Response, cause)
    }
}

/// Why the server has left the request alone, by the code that it stated; `otherwise` if that says no more.
fn ended_by(code: ErrorCode, otherwise: Cause) -> Cause {
    if code == ErrorCode::HTTP_1_1_REQUIRED { Cause::Http1Required } else { otherwise }
}
