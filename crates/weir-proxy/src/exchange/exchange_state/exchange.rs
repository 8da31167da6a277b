//! The state of one exchange: what its phases have found, each in a field of its own.

use std::sync::Arc;

use weir_cache::HeadView;
use weir_config::PathForm;
use weir_http::grpc::GrpcStatus;
use weir_http::{Field, FieldSet, RequestHead, ResponseHead};
use weir_observe::{CacheResult, Failure, Party};
use weir_traffic::affinity::RequestAffinity;

use super::authorization::Authorization;
use super::cache_use::CacheUse;
use super::cgi_script::CgiScript;
use super::exchange_limits::ExchangeLimits;
use super::exchange_mirror::ExchangeMirror;
use super::forwarded_lines::ForwardedLines;
use super::grpc_call::GrpcCall;
use super::header_changes::RenderedHeaders;
use super::record::Record;
use super::rerouting::{FailedPage, RareState, Rerouting};
use super::response::body_coding::BodyCoding;
use super::response::kept_fields::{KeptFields, KeptWith};
use super::response::rewritten_fields::RewrittenFields;
use super::waits::Waits;
use crate::net::buffer::MEMORY_KEPT_MAX;
use crate::relay::Relay;
use crate::relay::replay::ReplayBuffer;
use crate::state::limits::limit::LimitPlan;
use crate::state::tracing::recorder::{AttemptTrace, TunnelTrace};
use weir_http::TargetForm;

/// The state of one exchange; part of its carrier and reused with it.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) request: RequestHead,
    /// The bytes that the spans of `request` refer to.
    pub(crate) request_text: Vec<u8>,
    /// The server name of the SNI of a TCP listener's client; empty without one.
    pub(crate) server_name: Vec<u8>,
    /// What few exchanges have.
    pub(in crate::exchange) rare: Option<Box<RareState>>,
    /// The path and query that the server gets, when a rewrite changed them.
    pub(crate) rewritten: Vec<u8>,
    pub(crate) request_relay: Relay,
    /// What was taken of the request body, as long as it may have to be sent again.
    pub(crate) replay_buffer: ReplayBuffer,

    /// Whether Weir has told the client to send the body.
    pub(crate) body_was_asked_for: bool,
    /// Interim responses that were passed on, in all attempts.
    pub(crate) interim: u32,
    pub(crate) response: ResponseHead,
    /// The head of the response as received; kept only when the access log asks for its fields.
    pub(crate) response_text: Vec<u8>,
    pub(crate) response_relay: Relay,
    /// What becomes of the body of the response.
    pub(crate) body_coding: BodyCoding,
    /// Whether a final response head was staged for the client: no other answer can be given any more.
    pub(crate) answered: bool,
    /// The server that the request belongs to by its cookies.
    pub(crate) affinity: RequestAffinity,
    /// Values of headers that the route sets and adds, for the head that is written next.
    pub(crate) rendered_headers: RenderedHeaders,
    /// Fields of the response that the route has rewritten.
    pub(crate) rewritten_fields: RewrittenFields,
    /// The lines about the client that servers get, kept for the next request; `None` before the first.
    pub(in crate::exchange) forwarded_lines: Option<Box<ForwardedLines>>,
    /// The value of `Retry-After`, in seconds.
    pub(crate) retry_after: Option<u32>,
    /// What limits by key have to do with it.
    pub(crate) limits: ExchangeLimits,
    /// What the cache has to do with a request that goes to a server.
    pub(in crate::exchange) cache_use: Option<Box<CacheUse>>,
    /// The gRPC call that the request is.
    pub(crate) grpc: Option<GrpcCall>,
    /// The script that it names, for a server of FastCGI.
    pub(crate) cgi_script: Option<Box<CgiScript>>,
    /// What is known of the client, on a route that asks for that.
    pub(crate) authorization: Option<Box<Authorization>>,
    /// That its request will be copied for a mirror.
    pub(crate) mirror: Option<Box<ExchangeMirror>>,
    /// The upstream of the request that it is a copy of, for a mirror.
    pub(crate) copied_from: Option<usize>,
    /// Whether it waits when all servers are full; only requests of Weir's own may not.
    pub(crate) waits_for_slot: bool,

    pub(crate) waits: Waits,
    pub(crate) record: Record,
    /// Its attempts, for the recorder.
    pub(crate) attempt_trace: AttemptTrace,
    /// The beginning of a tunnel that is now over.
    pub(crate) tunnel_trace: Option<Box<TunnelTrace>>,
}

impl Exchange {
    pub(crate) fn new() -> Self {
        Self {
            request: RequestHead::new(),
            request_text: Vec::new(),
            server_name: Vec::new(),
            rare: None,
            rewritten: Vec::new(),
            request_relay: Relay::new(),
            replay_buffer: ReplayBuffer::default(),
            body_was_asked_for: false,
            interim: 0,
            response: ResponseHead::new(),
            response_text: Vec::new(),
            response_relay: Relay::new(),
            body_coding: BodyCoding::AsItIs,
            answered: false,
            affinity: RequestAffinity::default(),
            rendered_headers: RenderedHeaders::default(),
            rewritten_fields: None,
            forwarded_lines: None,
            retry_after: None,
            limits: ExchangeLimits::default(),
            cache_use: None,
            grpc: None,
            cgi_script: None,
            authorization: None,
            mirror: None,
            copied_from: None,
            waits_for_slot: true,
            waits: Waits::new(),
            record: Record::new(),
            attempt_trace: AttemptTrace::new(),
            tunnel_trace: None,
        }
    }

    /// Forgets the request and the response; keeps the memory.
    #[inline(always)]
    pub(crate) fn reset(&mut self) {
        self.request.reset();
        self.rare = None;
        for text in [&mut self.request_text, &mut self.rewritten, &mut self.response_text] {
            text.clear();
            text.shrink_to(MEMORY_KEPT_MAX);
        }
        self.request_relay.reset();
        self.replay_buffer.reset(MEMORY_KEPT_MAX);
        self.body_was_asked_for = false;
        self.interim = 0;
        self.response.reset();
        self.response_relay.reset();
        self.body_coding = BodyCoding::AsItIs;
        self.answered = false;
        self.affinity = RequestAffinity::default();
        self.retry_after = None;
        self.limits.reset();
        self.cache_use = None;
        self.grpc = None;
        self.cgi_script = None;
        self.authorization = None;
        self.mirror = None;
        self.record.reset();
        self.attempt_trace.reset();
        self.tunnel_trace = None;
    }

    /// Forgets the response and what a route has found out, for another route. The request stays, and so does the user that the client has proved to be.
    pub(in crate::exchange) fn begin_again(&mut self) {
        self.rewritten.clear();
        self.response.reset();
        self.response_text.clear();
        self.response_relay = Relay::new();
        self.body_coding = BodyCoding::AsItIs;
        self.affinity = RequestAffinity::default();
        if let Some(rare) = &mut self.rare {
            rare.named_server = None;
        }
        self.cache_use = None;
        self.cgi_script = None;
        self.mirror = None;
        (self.record.upstream, self.record.server) = (None, None);
        (self.record.cache, self.record.cache_detail) = (None, None);
    }

    /// The head of the request, as the cache sees it.
    pub(in crate::exchange) fn request_for_cache(&self) -> HeadView<'_> {
        HeadView { fields: self.request.fields(), text: &self.request_text }
    }

    /// Whether `Connection` names a field that servers get of other requests: what they say of this one is nothing about those.
    pub(in crate::exchange) fn keeps_fields_back(&self) -> bool {
        let (request, text) = (&self.request, &self.request_text[..]);
        let is_kept_back = |field: &Field| {
            !FieldSet::REQUEST_HOP.contains(field.known) && request.is_named_by_connection(text, field)
        };
        request.connection().others() && request.fields().iter().any(is_kept_back)
    }

    /// Notes what the cache did, for counters and log.
    pub(in crate::exchange) fn note_cache(&mut self, result: CacheResult, detail: Option<&'static str>) {
        self.record.cache = Some(result);
        self.record.cache_detail = detail;
    }

    /// The user that the client has named; empty without one.
    pub(in crate::exchange) fn user(&self) -> &[u8] {
        self.authorization.as_ref().map_or(&[], |granted| &granted.user)
    }

    /// A claim of the token of the client.
    pub(in crate::exchange) fn claim(&self, name: &str) -> Option<&[u8]> {
        self.authorization.as_ref()?.token.as_ref()?.claims.text(name).map(str::as_bytes)
    }

    /// How the gRPC call has ended, as its client sees it; `None` for other requests. One that the client has given up is cancelled, and one that has
    /// broken off (RST_STREAM) an internal error.
    pub(in crate::exchange) fn grpc_status(&self) -> Option<GrpcStatus> {
        let call = self.grpc.as_ref()?;
        let is_cancelled = self.record.failure.is_some_and(|failure| failure.party == Party::Client);
        Some(call.status.unwrap_or(if is_cancelled { GrpcStatus::Cancelled } else { GrpcStatus::Internal }))
    }
}

impl Exchange {
    /// How it has gone on, to be changed.
    pub(in crate::exchange) fn rerouting_mut(&mut self) -> &mut Rerouting {
        &mut self.rare.get_or_insert_default().rerouting
    }

    /// How it has gone on; `None` for one that takes the route that it came for.
    pub(in crate::exchange) fn rerouting(&self) -> Option<&Rerouting> {
        self.rare.as_ref().map(|rare| &rare.rerouting)
    }

    /// The target of the request as it was received.
    pub(in crate::exchange) fn received_target(&self) -> &[u8] {
        let kept = self.rerouting().and_then(|rerouting| rerouting.received_target.as_deref());
        kept.unwrap_or_else(|| self.request.target().of(&self.request_text))
    }

    /// Takes fields out that only Weir may send on, so that nothing of what decides about the request believes them either.
    #[cold]
    pub(in crate::exchange) fn withhold(&mut self, is_withheld: impl Fn(&[u8]) -> bool) {
        self.request.drop_fields_where(&mut self.request_text, is_withheld);
    }

    /// Whether the request is about a path: neither `OPTIONS *` nor `CONNECT` to a host.
    pub(in crate::exchange) fn has_path(&self) -> bool {
        !matches!(self.request.target_form(), TargetForm::Asterisk | TargetForm::Authority)
    }

    /// Appends path and query of the request as applications get them: before rewrites, but in the form that routes are matched on, unless the listener
    /// forwards paths as they are received.
    pub(in crate::exchange) fn write_request_uri(&self, form: PathForm, out: &mut Vec<u8>) {
        if let Some(way) = self.rerouting().filter(|way| way.received_target.is_some()) {
            return out.extend_from_slice(&way.received_uri);
        }
        let (request, text) = (&self.request, &self.request_text[..]);
        let as_received = form == PathForm::AsReceived;
        out.extend_from_slice(if as_received { request.path().of(text) } else { request.normal_path(text) });
        if let Some(query) = request.query() {
            out.push(b'?');
            out.extend_from_slice(query.of(text));
        }
    }

    /// The beginning of the first line of a head that could not be read.
    pub(in crate::exchange) fn first_line(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.first_line)
    }

    /// The failure in place of whose page it goes on.
    pub(in crate::exchange) fn failed_page(&self) -> Option<&FailedPage> {
        self.rerouting()?.page.as_ref()
    }

    /// The status that the client gets of an answer with this one: that of the failure in place of whose page it is.
    pub(in crate::exchange) fn status_of_answer(&self, status: u16) -> u16 {
        match self.failed_page().and_then(|page| page.status) {
            Some(other) if matches!(status, 200..=203 | 205..=299 | 400..) => other,
            _ => status,
        }
    }

    /// Gives the response of a server the status that the client gets, once the server is counted with its own.
    #[inline]
    pub(in crate::exchange) fn show_status_of_page(&mut self) {
        if self.rare.is_some() {
            let shown = self.status_of_answer(self.response.status());
            if shown != self.response.status() {
                self.response.replace_status(shown);
                self.record.status = shown;
            }
        }
    }

    /// The fields of a server that has sent the request on which go with a response with this status and `Content-Type`.
    pub(in crate::exchange) fn kept_fields(&self, status: u16, content_type: Option<&[u8]>) -> KeptFields {
        let Some(kept) = self.rerouting().and_then(|rerouting| rerouting.kept.as_ref()) else {
            return KeptFields::default();
        };
        let response = match self.failed_page() {
            Some(page) if page.failure.is_none() && page.status.is_some() => KeptWith::Page,
            None if self.record.failure.is_none() => KeptWith::Response,
            _ => KeptWith::Failure,
        };
        KeptFields::new(kept, response, (status, content_type))
    }

    /// Has the body of the response sent at the rate that such a server has asked for.
    pub(in crate::exchange) fn limit_rate_as_kept(&mut self) {
        let kept = self.rerouting().and_then(|rerouting| rerouting.kept.as_ref());
        if let Some(rate) = kept.and_then(|kept| kept.rate) {
            self.response_relay.limit_rate(rate);
        }
    }

    /// Whether a limit was asked before the request was on its route.
    pub(in crate::exchange) fn has_asked(&self, limit: &Arc<LimitPlan>) -> bool {
        self.rerouting().is_some_and(|rerouting| rerouting.asked.iter().any(|one| Arc::ptr_eq(one, limit)))
    }
}

/// Why an exchange ended before its response was relayed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ended {
    /// There was no request.
    Closed,
    Failed(Failure),
    /// The request goes on elsewhere: as the exchange says.
    Rerouted,
}

impl From<Failure> for Ended {
    fn from(failure: Failure) -> Self {
        Ended::Failed(failure)
    }
}
