//! Error pages that a server has: fetched for the exchange that has failed, or whose response they replace.
//!
//! A request of Weir's own ([`super::subrequest`]) that the exchange waits for. When it fails, that is counted and the page is another one. Must not
//! have a page of its own.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use weir_config::{ErrorPage, RemotePage};
use weir_http::{FieldName, ResponseHead, TargetForm};
use weir_observe::{Cause, Failure, Phase};

use super::client::Client;
use super::plans::Plans;
use super::stream::ClientStream;
use super::subrequest::{self, ResponseTaker};
use super::template::TemplateValues;
use super::{Ended, Exchange};
use crate::net::clock;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::responder::error_page::FetchedPage;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::Servers;

/// Fields of the client that the request has.
const PASSED: [FieldName; 2] = [FieldName::Accept, FieldName::AcceptLanguage];

/// Fields of the response that describe the page.
const KEPT: [&str; 3] = ["Content-Type", "Content-Encoding", "Content-Language"];

/// What pages there are, and which values they can be made with.
#[derive(Clone, Copy)]
pub(super) struct PageScope<'a> {
    pub(super) config: &'a Rc<WorkerConfig>,
    pub(super) listener: &'a ListenerPlan,
    /// `None` when the request has failed before it had one.
    pub(super) route: Option<&'a RoutePlan>,
}

impl<'a> PageScope<'a> {
    fn pages(&self) -> &'a [ErrorPage] {
        self.route.map_or(&self.listener.config.error_pages, |route| &route.config.error_pages)
    }

    /// The page for this status, if it is one that is fetched.
    pub(super) fn remote(&self, status: u16) -> Option<&'a RemotePage> {
        self.pages().iter().find(|page| page.is_for(status))?.remote.as_ref()
    }
}

/// The page of a failure of this exchange, where the config has one that is fetched; `None` without one, and when it cannot be.
#[cold]
pub(super) async fn of_failure(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    failure: Failure,
) -> Option<FetchedPage> {
    if exchange.answered || exchange.grpc.is_some() || client.deadline.is_cut() {
        return None;
    }
    let status = exchange.limited.status_of_refusal().or(failure.status())?;
    let config = exchange.record.begin_config(client);
    let listener = &*config.snapshot.listeners[exchange.record.listener()];
    let route = exchange.record.route.map(|index| &listener.route_plans[index]);
    let scope = PageScope { config: &config, listener, route };
    let remote = scope.remote(status)?;
    // The time of the exchange may be over; that of its page begins.
    client.deadline.set_ceiling(None);
    Box::pin(fetch(client, stream, servers, exchange, scope, (remote, status))).await
}

/// Fetches a page; `None`, counted and told in the log, when there is none to be had.
pub(super) async fn fetch(
    client: &mut Client,
    stream: &mut impl ClientStream,
    servers: &mut impl Servers,
    exchange: &mut Exchange,
    scope: PageScope<'_>,
    (remote, status): (&RemotePage, u16),
) -> Option<FetchedPage> {
    let (config, listener, upstream_index) = (scope.config, scope.listener, remote.upstream.0);
    let route = listener.page_route(remote)?;
    let began = clock::now();
    client.now = began;
    let composed = inner_exchange(client, stream, exchange, scope, (remote, status));
    let mut taker = PageTaker::new(remote.body_size.as_usize());
    let outcome = match composed {
        Ok(mut inner) => {
            let upstream = &*config.snapshot.upstreams[upstream_index];
            let plans = Plans { config, listener, route, upstream, upstream_index };
            let before = client.deadline.narrow(Some(began + remote.timeout));
            let outcome = subrequest::run(client, stream, servers, &mut inner, plans, &[], &mut taker).await;
            client.deadline.lift(before);
            outcome
        }
        Err(failure) => Err(failure.into()),
    };
    client.now = clock::now();
    client.listener.shard.error_pages_fetched.increment();
    match (outcome, taker.status) {
        (Ok(()), 200) if !taker.is_over => Some(taker.page),
        (outcome, page_status) => {
            let reason = match outcome {
                Err(Ended::Failed(failure)) => failure.reason(),
                _ => "",
            };
            report(client, config, scope, (upstream_index, page_status, reason));
            None
        }
    }
}

/// Counts a page that could not be fetched; the log has the first ones, and then every second, fourth and so on.
fn report(
    client: &Client,
    config: &WorkerConfig,
    scope: PageScope<'_>,
    (upstream, status, reason): (usize, u16, &str),
) {
    let counter = &client.listener.shard.error_pages_failed;
    counter.increment();
    let count = counter.value();
    if count.is_power_of_two() {
        tracing::warn!(
            listener = &*scope.listener.config.name,
            upstream = &*config.snapshot.upstreams[upstream].config.name,
            status,
            reason,
            count,
            "an error page could not be fetched: another one is sent"
        );
    }
}

/// The exchange of the request: a GET for the page.
fn inner_exchange(
    client: &Client,
    stream: &impl ClientStream,
    exchange: &Exchange,
    scope: PageScope<'_>,
    (remote, status): (&RemotePage, u16),
) -> Result<Box<Exchange>, Failure> {
    let mut inner = subrequest::of(exchange, remote.upstream.0, client);
    inner.record.trace = exchange.record.trace;
    // A page that has to wait would keep the client waiting that has waited already.
    inner.waits_for_slot = false;
    let values = TemplateValues::of_request(client, stream, exchange, scope.listener, scope.route);
    let values = TemplateValues { status, ..values };
    let mut target = Vec::new();
    values.write_url(&remote.path, &mut target);
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let fields = PASSED.iter().filter_map(|name| request.fields().first(*name));
    let fields = fields.map(|field| (field.name.of(text), field.value.of(text)));
    let host = match request.target_form() {
        // Of a request that could not be read, there may be anything.
        TargetForm::Origin | TargetForm::Absolute => request.authority().of(text),
        TargetForm::Authority | TargetForm::Asterisk => b"",
    };
    let host = if host.is_empty() { b"localhost" } else { host };
    let composed = inner.request.compose_get(&mut inner.request_text, &target, host, fields);
    composed.map_err(|rule| Failure::weir(Phase::Route, Cause::Rule(rule)))?;
    Ok(inner)
}

/// Takes a page.
struct PageTaker {
    page: FetchedPage,
    status: u16,
    /// Whether the page is longer than it may be.
    is_over: bool,
    len_max: usize,
}

impl PageTaker {
    fn new(len_max: usize) -> Self {
        Self { page: FetchedPage::default(), status: 0, is_over: false, len_max }
    }
}

impl ResponseTaker for PageTaker {
    fn begin(&mut self, response: &ResponseHead, text: &[u8]) {
        self.status = response.status();
        let value = |name: &'static str| {
            let field = response.fields().get_by_name(text, name)?;
            Some((name.as_bytes(), field.value.of(text).to_vec()))
        };
        self.page.fields = KEPT.iter().copied().filter_map(value).collect();
    }

    fn is_enough(&self) -> Result<(), Failure> {
        Err(Failure::server(Phase::Relay, Cause::ResponseExcess))
    }
}

impl Sink for PageTaker {
    fn has_room(&self) -> bool {
        !self.is_over
    }

    fn is_waiting(&self) -> bool {
        self.is_over
    }

    fn accept(&mut self, data: &[u8]) -> usize {
        let body = &mut self.page.body;
        if body.len() + data.len() <= self.len_max {
            body.extend_from_slice(data);
        } else {
            self.is_over = true;
        }
        data.len()
    }

    fn finish(&mut self, _source: &impl Source) {}

    fn poll_write(&mut self, _cx: &mut Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Err(RelayError::Write(io::ErrorKind::FileTooLarge.into())))
    }
}
