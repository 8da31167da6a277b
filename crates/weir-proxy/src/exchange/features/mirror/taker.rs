//! What becomes of the response to a copy: it is compared with the one that the client got, and the difference counted, kept and logged.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};

use weir_config::{Mirror, MirrorPart};
use weir_http::ResponseHead;
use weir_http::grpc::GrpcStatus;
use weir_observe::{Failure, RouteShard};

use super::coding_of;
use super::compared::{compared_fields, different_names};
use crate::compression::{CodecStock, CompressionLimits};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::exchange_mirror::ComparedField;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::features::compression;
use crate::exchange::features::subrequests::background::BackgroundTaker;
use crate::exchange::features::subrequests::subrequest::ResponseTaker;
use crate::net::clock;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::filter::digest::RunningDigest;
use crate::state::routes::mirror::{BodyDigest, MirrorDifference, MirrorState};
use crate::state::snapshot::ListenerPlan;

/// Bytes of a target that one difference keeps.
const TARGET_KEPT_MAX: usize = 1024;

/// Bytes of what the mirror says of its route.
const ROUTE_KEPT_MAX: usize = 128;

/// What a difference tells of the request.
struct CopiedRequest {
    method: Box<str>,
    target: Box<str>,
    id: Box<str>,
}

impl CopiedRequest {
    fn new(exchange: &Exchange) -> Self {
        let text = &exchange.request_text[..];
        let target = exchange.request.target().of(text);
        let kept = &target[..target.len().min(TARGET_KEPT_MAX)];
        Self {
            method: String::from_utf8_lossy(exchange.request.method_span().of(text)).into(),
            target: String::from_utf8_lossy(kept).into(),
            id: String::from_utf8_lossy(&exchange.record.request_id).into(),
        }
    }
}

/// Where the request came, and what is compared.
struct MirroredRoute {
    listener: Box<str>,
    route: Arc<str>,
    settings: Mirror,
    own_id: Box<str>,
}

impl MirroredRoute {
    fn new(listener: &ListenerPlan, plans: Plans<'_>, settings: &Mirror) -> Self {
        Self {
            listener: listener.config.name.clone(),
            route: plans.route.config.name.clone(),
            settings: settings.clone(),
            own_id: listener.config.request_id.header.as_deref().unwrap_or_default().into(),
        }
    }
}

/// What the client got.
pub(super) struct RealResponse {
    pub(super) status: u16,
    /// How the call has ended, if it was one of gRPC.
    pub(super) call: Option<GrpcStatus>,
    /// The body, as far as it is compared.
    pub(super) digest: Option<(u64, u128)>,
    pub(super) fields: Vec<ComparedField>,
}

/// What a copy begins with.
pub(super) struct CopyBegin<'m> {
    pub(super) settings: &'m Mirror,
    /// The mirror, in which it has a place.
    pub(super) state: Arc<MirrorState>,
    pub(super) real: RealResponse,
}

/// The place of a copy among those of its route.
struct CopyPermit(Arc<MirrorState>);

impl Drop for CopyPermit {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Takes the response to a copy.
pub(super) struct CopyTaker {
    request: CopiedRequest,
    route: MirroredRoute,
    /// What the client got.
    real: RealResponse,
    status: u16,
    call: Option<GrpcStatus>,
    fields: Vec<ComparedField>,
    body: RunningDigest,
    /// What the mirror says of the route that has answered.
    answered_by: Option<Box<str>>,
    codecs: (Rc<CodecStock>, CompressionLimits),
    shards: Arc<RouteShard>,
    permit: CopyPermit,
}

impl CopyTaker {
    pub(super) fn new<S, U>(context: &Context<'_, S, U>, plans: Plans<'_>, begin: CopyBegin<'_>) -> Self {
        let worker = &context.client.worker;
        let limits = compression::limits(context.client, &context.config.snapshot);
        Self {
            request: CopiedRequest::new(context.exchange),
            route: MirroredRoute::new(context.listener, plans, begin.settings),
            real: begin.real,
            status: 0,
            call: None,
            fields: Vec::new(),
            body: RunningDigest::new(),
            answered_by: None,
            codecs: (Rc::clone(&worker.codecs), limits),
            shards: Arc::clone(plans.route.shards.of(worker.index)),
            permit: CopyPermit(begin.state),
        }
    }

    /// The body of the copy, in the form in which that of the client was taken.
    fn digest(&self) -> Option<(u64, u128)> {
        match self.route.settings.compares(MirrorPart::DecodedBody) {
            true => self.body.decoded_value(),
            false => Some(self.body.value()),
        }
    }

    /// Counts how the responses compare; the difference, if there is one.
    fn compare(self) -> Option<MirrorDifference> {
        let (settings, shard) = (&self.route.settings, &self.shards.mirror);
        if settings.compare.is_empty() {
            return None;
        }
        let calls = self.real.call.zip(self.call).filter(|(one, other)| one != other);
        let calls = calls.filter(|_| settings.compares(MirrorPart::Status));
        let status_differs =
            settings.compares(MirrorPart::Status) && self.status != self.real.status || calls.is_some();
        let headers = match settings.compares(MirrorPart::Headers) {
            true => different_names(&self.real.fields, &self.fields),
            false => Vec::new(),
        };
        let digest = |(len, hash)| BodyDigest { len, hash };
        let bodies = self.real.digest.zip(self.digest()).map(|(real, own)| [digest(real), digest(own)]);
        let bodies = bodies.filter(|[one, other]| one != other);
        shard.compared.increment();
        let differ = [status_differs, !headers.is_empty(), bodies.is_some()];
        for (counter, differs) in shard.differences.iter().zip(differ) {
            counter.add(differs.into());
        }
        differ.contains(&true).then(|| MirrorDifference {
            at: clock::unix_now().as_secs(),
            method: self.request.method,
            target: self.request.target,
            request_id: self.request.id,
            status: self.real.status,
            mirror_status: self.status,
            calls: calls.map(|(one, other)| [one, other]),
            headers,
            bodies,
            differ,
            answered_by: self.answered_by,
        })
    }
}

impl BackgroundTaker for CopyTaker {
    fn end(self, outcome: Result<(), Failure>) {
        if let Err(failure) = outcome {
            self.shards.mirror.failures.increment();
            tracing::debug!(
                listener = &*self.route.listener,
                route = &*self.route.route,
                reason = failure.reason(),
                "a copy for the mirror has no response"
            );
            return;
        }
        let (listener, route) = (self.route.listener.clone(), self.route.route.clone());
        let state = Arc::clone(&self.permit.0);
        let Some(difference) = self.compare() else { return };
        let MirrorDifference { method, target, status, mirror_status, calls, headers, answered_by, .. } =
            difference.clone();
        let [call, mirror_call] = calls.map_or([None; 2], |calls| calls.map(|call| Some(call.name())));
        let body_differs = difference.bodies.is_some();
        if let Some(differences) = state.note(difference) {
            tracing::warn!(
                listener = &*listener,
                route = &*route,
                differences,
                method = &*method,
                target = &*target,
                status,
                mirror_status,
                grpc_status = call,
                mirror_grpc_status = mirror_call,
                headers = headers.join(", "),
                body_differs,
                answered_by = answered_by.as_deref(),
                "the mirror has answered in another way"
            );
        }
    }
}

impl ResponseTaker for CopyTaker {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        self.status = response.status();
        let settings = &self.route.settings;
        if let Some(header) = &settings.route_header {
            self.answered_by = answered_by(header, response, text);
        }
        let coding = coding_of(response, text).filter(|_| settings.compares(MirrorPart::DecodedBody));
        if let Some(coding) = coding.filter(|_| self.real.digest.is_some()) {
            let (codecs, limits) = &self.codecs;
            self.body = RunningDigest::decoding(codecs.decoder(coding, *limits).ok());
        }
        if self.route.settings.compares(MirrorPart::Headers) {
            self.fields = compared_fields(&self.route.settings, &self.route.own_id, response, text);
        }
    }

    fn end_call(&mut self, status: GrpcStatus) {
        self.call = Some(status);
    }
}

impl Sink for CopyTaker {
    fn has_room(&self) -> bool {
        true
    }

    fn is_waiting(&self) -> bool {
        false
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if self.real.digest.is_some() {
            self.body.add(data);
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut task::Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Ok(0))
    }
}

/// What a header says of the route that has made a response.
fn answered_by(header: &str, response: &ResponseHead, text: &[u8]) -> Option<Box<str>> {
    let mut fields = response.fields().iter();
    let field = fields.find(|field| field.name.of(text).eq_ignore_ascii_case(header.as_bytes()))?;
    let value = field.value.of(text);
    let value = String::from_utf8_lossy(&value[..value.len().min(ROUTE_KEPT_MAX)]);
    Some(value.trim().into())
}
