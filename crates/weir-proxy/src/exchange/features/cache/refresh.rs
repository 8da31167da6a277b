//! A GET of Weir's own that fills the cache: it refreshes a stale response behind a client that has got it already (RFC 5861 section 3), or fetches one for a
//! HEAD that waits for it.

use std::sync::Arc;
use std::task::{self, Poll};
use std::time::Duration;

use weir_cache::rules::{FreshenPlan, NotStored, StoreRules, StoredRequest, plan_freshening, plan_storing};
use weir_cache::store::{FetchTicket, NewResponse, StoredResponse};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_config::{AccelField, Route};
use weir_http::{Field, FieldName, FieldSet, Method, ResponseHead, TargetForm};
use weir_observe::Failure;

use super::PASS_MS;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::cache_use::{CacheTask, CacheUse, RequestKey, is_about_versions};
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::headers::fields;
use crate::exchange::features::subrequests::background::{
    self, BackgroundRequest, BackgroundRoute, BackgroundTaker,
};
use crate::exchange::features::subrequests::subrequest::{self, ResponseTaker};
use crate::relay::ends::{RelayError, Sink, Source};
use crate::relay::stored::StoringSink;
use crate::state::caching::cache::{CachePlan, RouteCachePlan, cache_now};
use crate::state::snapshot::RoutePlan;
use crate::upstream::stream::Servers;

/// How long a refresh may take in all.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Bytes of a body that is of no use which are taken, so that the connection can be used again.
const UNUSED_BYTES_MAX: usize = 64 * 1024;

/// The way of the request: the plan of its route, what that stores, and the place of its target if it is one of a split that is not as the route is.
pub(super) type FetchWay<'a> = (&'a RoutePlan, &'a RouteCachePlan, Option<usize>);

/// Refreshes a stale response in a task of its own, unless another request does already.
pub(super) fn begin(
    context: &Context<'_, impl ClientStream, impl Servers>,
    way: FetchWay<'_>,
    (key, stored): (&RequestKey, &Arc<StoredResponse>),
) {
    let store = way.1.store();
    if let Some(ticket) = store.try_refresh(&store.key(&key.key), stored) {
        fetch(context, way, (key, ticket, Some(stored)));
    }
}

/// Asks a server in a task of its own, about `stored` if there is one. Where that is refused, those who wait for the outcome hear that there is none.
pub(super) fn fetch(
    context: &Context<'_, impl ClientStream, impl Servers>,
    (route, plan, target): FetchWay<'_>,
    (key, ticket, stored): (&RequestKey, FetchTicket, Option<&Arc<StoredResponse>>),
) {
    let Some(inner) = inner_exchange(context, (key, stored)) else { return };
    let request = StoredHead::copy(context.exchange.request_for_cache(), |_| true);
    let taker = Refresh {
        route: Arc::clone(&route.config),
        plan: Arc::clone(&plan.plan),
        rules: plan.rules.clone(),
        worker: context.client.worker.index,
        request,
        is_proven: key.is_proven,
        stored: stored.cloned(),
        ticket: Some(ticket),
        sent: cache_now(),
        sink: None,
        unused: 0,
    };
    let route = target.map_or(BackgroundRoute::Route, BackgroundRoute::Target);
    let request = BackgroundRequest { exchange: inner, route, body: Vec::new(), timeout: TIME_MAX };
    background::begin(context, request, taker);
}

/// The exchange of the request: as that of the client, about the stored version if there is one.
fn inner_exchange<S, U>(
    context: &Context<'_, S, U>,
    (key, stored): (&RequestKey, Option<&Arc<StoredResponse>>),
) -> Option<Box<Exchange>> {
    let mut inner =
        subrequest::exchange_beside(context.exchange, context.exchange.record.upstream?, context.client);
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
    let others = request.connection().others();
    let passes = |name: &[u8]| !is_about_versions(name) && !name.eq_ignore_ascii_case(b"expect");
    let is_of_connection = |field: &Field| {
        FieldSet::REQUEST_HOP.contains(field.known) || (others && request.is_named_by_connection(text, field))
    };
    let sent = request.fields().iter();
    let sent = sent.filter(|field| !is_of_connection(field) && passes(field.name.of(text)));
    let sent = sent.map(|field| (field.name.of(text), field.value.of(text)));
    let target = match request.target_form() {
        TargetForm::Absolute => fields::target(context.exchange),
        _ => request.target().of(text),
    };
    let host = request.authority().of(text);
    inner.request.compose_get(&mut inner.request_text, target, host, sent).ok()?;
    inner.rewritten.extend_from_slice(&context.exchange.rewritten);
    inner.authorization = context.exchange.authorization.clone();
    // What it is stored for is what is asked.
    if let Some(name) = context.exchange.named_server() {
        inner.set_named_server(name.into());
    }
    inner.cgi_script = context.exchange.cgi_script.clone();
    inner.cache_use = Some(Box::new(CacheUse {
        key: key.key.clone(),
        applied: key.applied,
        is_proven: key.is_proven,
        forwarded: weir_cache::rules::ForwardReason::Stale,
        task: stored.map_or(CacheTask::Pass, |stored| CacheTask::Refresh {
            ticket: None,
            stored: Arc::clone(stored),
            stale_on_error: false,
        }),
        sent: cache_now(),
    }));
    Some(inner)
}

/// Takes the response, and stores what comes of it.
struct Refresh {
    /// The route, or the target of its split.
    route: Arc<Route>,
    plan: Arc<CachePlan>,
    rules: StoreRules,
    worker: usize,
    /// The fields of the client's request, and whether the client has proven who it is.
    request: StoredHead,
    is_proven: bool,
    /// What the server is asked about.
    stored: Option<Arc<StoredResponse>>,
    ticket: Option<FetchTicket>,
    sent: CacheTime,
    /// Takes the body of a response that is stored.
    sink: Option<(StoringSink, Arc<StoredResponse>)>,
    /// Bytes of a body that is not.
    unused: usize,
}

impl Refresh {
    fn stored_request(&self) -> StoredRequest<'_> {
        let (head, sent, is_proven) = (self.request.view(), self.sent, self.is_proven);
        StoredRequest { method: Method::Get, head, sent, is_proven }
    }

    /// Whether what is stored stays as it is, whatever the server has said.
    fn is_failure(&self, status: u16, now: CacheTime) -> bool {
        let is_failure = || self.route.cache.as_deref().is_some_and(|config| config.is_failure(status));
        self.stored.as_ref().is_some_and(|stored| {
            // A failure of the server makes the stored response no worse.
            (500..600).contains(&status) || is_failure() && stored.lifetime().is_used_on_error(now)
        })
    }

    /// Why the response to a client would not be the one that the server has sent. A page in place of it is made for each client from what is stored.
    fn is_replaced(&self, response: &ResponseHead) -> Option<NotStored> {
        let (route, fields) = (&self.route, response.fields());
        let leads_on = route.x_accel.contains(&AccelField::Redirect)
            && fields.contains(FieldName::XAccelRedirect)
            || route.x_sendfile.is_some() && fields.contains(FieldName::XSendfile);
        leads_on.then_some(NotStored::Accel)
    }

    /// The server has another version, or the first one.
    fn replace(&mut self, ticket: FetchTicket, response: &ResponseHead, head: HeadView<'_>, now: CacheTime) {
        let request = self.stored_request();
        let too_large = response.content_length().is_some_and(|len| len > self.plan.config.response_max);
        let planned = plan_storing(&request, response.status(), head, &self.rules, now);
        let planned = if too_large { Err(NotStored::TooLarge) } else { planned };
        let planned = self.is_replaced(response).map_or(planned, Err);
        let plan = match planned {
            Ok(plan) => plan,
            Err(reason) => {
                self.plan.state.shards.of(self.worker).not_stored.increment();
                if let Some(stored) = self.stored.as_ref().filter(|_| reason.is_of_response()) {
                    self.plan.state.forget(stored);
                }
                let is_lasting = response.status() < 500 && reason.is_of_response();
                let passes = self.stored.is_none() && is_lasting;
                return ticket.not_stored(passes.then(|| now.after(PASS_MS)));
            }
        };
        let new = NewResponse {
            status: response.status(),
            head: plan.stored_head(head),
            lifetime: plan.lifetime,
            vary: plan.vary,
            len: response.content_length(),
        };
        let storing = ticket.store(new, self.request.view());
        if storing.refused.is_none() {
            self.plan.state.shards.of(self.worker).stored.increment();
            self.sink = Some((StoringSink::new(storing.writer), storing.response));
        }
    }
}

impl ResponseTaker for Refresh {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        let Some(ticket) = self.ticket.take() else { return };
        let (now, head) = (cache_now(), HeadView { fields: response.fields(), text });
        match (response.status(), &self.stored) {
            (304, Some(stored)) => {
                let request = self.stored_request();
                let view = stored.head().view();
                match plan_freshening(&request, stored.status(), view, head, &self.rules, now) {
                    FreshenPlan::Store(freshened) => {
                        let stored = ticket.freshen(stored, *freshened);
                        self.plan.state.freshen_file(&stored);
                    }
                    FreshenPlan::SendOnly(_, reason) if !reason.is_of_response() => {}
                    FreshenPlan::SendOnly(..) | FreshenPlan::OtherVersion => {
                        self.plan.state.forget(stored);
                    }
                }
            }
            (status, _) if self.is_failure(status, now) => {}
            _ => self.replace(ticket, response, head, now),
        }
    }
}

impl Sink for Refresh {
    fn has_room(&self) -> bool {
        self.sink.as_ref().map_or(self.unused <= UNUSED_BYTES_MAX, |(sink, _)| sink.has_room())
    }

    fn is_waiting(&self) -> bool {
        !self.has_room()
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        if let Some((sink, _)) = &mut self.sink {
            return sink.accept(data);
        }
        self.unused += data.len();
        data.len()
    }

    fn finish(&mut self, source: &impl Source) {
        if let Some((sink, _)) = &mut self.sink {
            sink.finish(source);
        }
    }

    fn poll_write(&mut self, cx: &mut task::Context<'_>, data: &[u8]) -> Poll<Result<usize, RelayError>> {
        let has_room = self.has_room();
        match &mut self.sink {
            Some((sink, _)) => sink.poll_write(cx, data),
            None if has_room => Poll::Ready(Ok(0)),
            None => Poll::Ready(Err(RelayError::Write(std::io::ErrorKind::BrokenPipe.into()))),
        }
    }
}

impl BackgroundTaker for Refresh {
    fn end(self, outcome: Result<(), Failure>) {
        if outcome.is_ok() {
            if self.stored.is_some() {
                self.plan.state.shards.of(self.worker).refreshes.increment();
            }
            if let Some((sink, stored)) = self.sink {
                sink.complete();
                self.plan.state.keep_in_file(&stored);
            }
        }
    }
}
