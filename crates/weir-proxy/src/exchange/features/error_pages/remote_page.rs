//! Error pages that a server has: fetched for the exchange that has failed, or whose response they replace.
//!
//! A request of Weir's own ([`crate::exchange::features::subrequests::subrequest`]) that the exchange waits for, unless the page was fetched lately. When it fails, that is counted and the page
//! is another one. Must not have a page of its own.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use weir_cache::rules::{StorePlan, StoreRules, StoredRequest, plan_storing};
use weir_cache::store::{FetchOutcome, FetchTicket, FetchWait, NewResponse, StoredResponse};
use weir_cache::{CacheTime, HeadView, StoredHead};
use weir_config::{ErrorPage, RemotePage};
use weir_http::{FieldName, Method, ResponseHead, TargetForm};
use weir_observe::{Cause, Failure, Party, Phase};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::exchange::{Ended, Exchange};
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::exchange_state::stream::ClientStream;
use crate::exchange::features::answer::error_page::find_page;
use crate::exchange::features::subrequests::subrequest;
use crate::exchange::features::subrequests::subrequest::ResponseTaker;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;
use crate::relay::ends::{RelayError, Sink, Source};
use crate::responder::error_page::FetchedPage;
use crate::state::caching::cache::cache_now;
use crate::state::caching::page_store::{PageStep, page_failed, page_rules};
use crate::state::connections::activity::Activity;
use crate::state::snapshot::{ListenerPlan, RoutePlan};
use crate::state::worker_config::WorkerConfig;
use crate::upstream::stream::Servers;

/// Fields of the client that the request has.
const PASSED: [FieldName; 2] = [FieldName::Accept, FieldName::AcceptLanguage];

/// Fields of the response that describe the page.
const KEPT: [&str; 3] = ["Content-Type", "Content-Encoding", "Content-Language"];

/// What pages there are, and which values they can be made with.
#[derive(Clone, Copy)]
pub(in crate::exchange) struct PageScope<'a> {
    pub(in crate::exchange) config: &'a Rc<WorkerConfig>,
    pub(in crate::exchange) listener: &'a ListenerPlan,
    /// `None` when the request has failed before it had one.
    pub(in crate::exchange) route: Option<&'a RoutePlan>,
}

impl<'a> PageScope<'a> {
    fn pages(&self) -> &'a [ErrorPage] {
        self.route.map_or(&self.listener.config.error_pages, |route| &route.config.error_pages)
    }

    /// The page for the status of these values, if it is one that is fetched.
    fn remote(&self, values: &TemplateValues<'_>) -> Option<&'a RemotePage> {
        find_page(self.pages(), values)?.remote.as_ref()
    }
}

/// The page of a failure of this exchange, where the config has one that is fetched; `None` without one, and when it cannot be.
#[cold]
pub(in crate::exchange) async fn for_failure(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    failure: Failure,
) -> Option<FetchedPage> {
    if context.exchange.answered || context.exchange.grpc.is_some() || context.client.deadline.is_cut() {
        return None;
    }
    let status = context.exchange.limits.status_of_refusal().or(failure.status())?;
    let route = context.route();
    let scope = PageScope { config: context.config, listener: context.listener, route };
    let remote = scope.remote(&TemplateValues { status, ..TemplateValues::new(context, route) })?;
    // The time of the exchange may be over; that of its page begins.
    context.client.deadline.set_ceiling(None);
    Box::pin(fetch(context, scope, (remote, status))).await
}

/// The page of a fixed response without a body, where the config has one that is fetched for its status.
#[cold]
pub(in crate::exchange) async fn for_fixed(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    (route, status): (&RoutePlan, u16),
) -> Option<FetchedPage> {
    let scope = PageScope { config: context.config, listener: context.listener, route: Some(route) };
    let remote = scope.remote(&TemplateValues { status, ..TemplateValues::new(context, Some(route)) })?;
    Box::pin(fetch(context, scope, (remote, status))).await
}

/// The page: one that was fetched lately, or else is fetched now; `None` when there is none to be had.
pub(in crate::exchange) async fn fetch(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    scope: PageScope<'_>,
    (remote, status): (&RemotePage, u16),
) -> Option<FetchedPage> {
    let inner = match inner_exchange(context, scope, (remote, status)) {
        Ok(inner) => inner,
        Err(failure) => {
            report(context.client, scope, (remote, 0, failure.reason()));
            return None;
        }
    };
    let Some(pages) = scope.listener.pages.as_ref().filter(|_| !remote.ttl.is_zero()) else {
        let (page, _) = ask(context, scope, remote, inner).await.ok()?;
        return Some(page);
    };
    let key = page_key(remote, &inner);
    let mut has_waited = false;
    let (ticket, stale) = loop {
        match pages.step(&key, inner.request_for_cache(), has_waited, cache_now()) {
            PageStep::Send(page) => match page_of_store(context.client, &page, remote.timeout).await {
                Some(page) => return Some(page),
                None => has_waited = true,
            },
            PageStep::Unavailable => return None,
            PageStep::Fetch(ticket, stale) => break (ticket, stale),
            PageStep::Wait(wait) => match wait_for(context, wait, remote.timeout).await? {
                FetchOutcome::Stored(page) if pages.is_for(&page, &key, inner.request_for_cache()) => {
                    match page_of_store(context.client, &page, remote.timeout).await {
                        Some(page) => return Some(page),
                        None => has_waited = true,
                    }
                }
                FetchOutcome::Stored(_) | FetchOutcome::NotStored => has_waited = true,
                // Its client has left.
                FetchOutcome::Failed => {}
            },
        }
    };
    let head = StoredHead::copy(inner.request_for_cache(), |_| true);
    match ask(context, scope, remote, inner).await {
        Ok((page, plan)) => {
            match plan {
                Some(plan) => keep(ticket, *plan, head.view(), &page.body),
                None => {
                    ticket.not_stored(None);
                    stale.iter().for_each(|stale| pages.forget(stale));
                }
            }
            Some(page)
        }
        // The first of those that wait fetches it.
        Err(NoPage::ClientLeft) => None,
        Err(NoPage::NotFetched) => {
            page_failed(ticket, stale.as_ref(), cache_now());
            let stale = stale?;
            page_of_store(context.client, &stale, remote.timeout).await
        }
    }
}

/// What is one page: the way to it, the host and the path.
fn page_key(remote: &RemotePage, inner: &Exchange) -> Vec<u8> {
    let (request, text) = (&inner.request, &inner.request_text[..]);
    let mut key = format!("{} {:?} ", remote.upstream.0, remote.forward_host).into_bytes();
    key.extend_from_slice(request.authority().of(text));
    key.push(b' ');
    key.extend_from_slice(request.target().of(text));
    key
}

/// Uses a page for further failures.
fn keep(ticket: FetchTicket, plan: NewResponse, request: HeadView<'_>, body: &[u8]) {
    let new = NewResponse { len: Some(body.len() as u64), ..plan };
    let mut storing = ticket.store(new, request);
    // One for which there is no room is fetched again.
    if storing.writer.append(body).is_ok() {
        storing.writer.finish();
    }
}

/// A stored page; `None` when there was no room for all of it. It can be found from its head on, while the worker that has fetched it still
/// appends the body.
async fn page_of_store(client: &mut Client, stored: &StoredResponse, time: Duration) -> Option<FetchedPage> {
    let (mut reader, mut body) = (stored.read_from(0)?, Vec::new());
    client.deadline.set(clock::now(), Some(time));
    poll_fn(|cx| {
        while let Poll::Ready(more) = reader.poll_more(cx) {
            match more {
                Ok(true) => {
                    body.extend_from_slice(reader.available());
                    reader.consume(reader.available().len());
                }
                Ok(false) => return Poll::Ready(Some(())),
                Err(_) => return Poll::Ready(None),
            }
        }
        client.deadline.poll_passed().map(|()| None)
    })
    .await?;
    let head = stored.head().view();
    let value = |name: &'static str| Some((name.as_bytes(), head.first(name)?.to_vec()));
    Some(FetchedPage { fields: KEPT.iter().copied().filter_map(value).collect(), body })
}

/// Waits for the page that another failure has fetched; `None` when the client leaves.
async fn wait_for<U>(
    context: &mut Context<'_, impl ClientStream, U>,
    mut wait: FetchWait,
    time: Duration,
) -> Option<FetchOutcome> {
    context.client.deadline.set(clock::now(), Some(time));
    poll_fn(|cx| {
        if let Poll::Ready(outcome) = wait.poll(cx) {
            return Poll::Ready(Some(outcome));
        }
        if context.stream.poll_gone(cx, context.client).is_some() {
            return Poll::Ready(None);
        }
        context.report(Activity::Cache);
        context.client.deadline.poll_passed().map(|()| None)
    })
    .await
}

/// Why a page was not fetched.
enum NoPage {
    /// The client that it was fetched for: that says nothing about the page.
    ClientLeft,
    /// Counted, and told in the log.
    NotFetched,
}

/// Fetches a page, and how it is kept.
async fn ask(
    context: &mut Context<'_, impl ClientStream, impl Servers>,
    scope: PageScope<'_>,
    remote: &RemotePage,
    mut inner: Box<Exchange>,
) -> Result<(FetchedPage, Option<Box<NewResponse>>), NoPage> {
    let route = scope.listener.page_route(remote).ok_or(NoPage::NotFetched)?;
    let began = clock::now();
    context.client.now = began;
    let mut taker = PageTaker::new(remote, &inner);
    let plans = Plans::new(scope.config, route, remote.upstream.0);
    let before = context.client.deadline.narrow(Some(began + remote.timeout));
    let outcome = subrequest::run(&mut context.beside(&mut inner), plans, &[], &mut taker).await;
    context.client.deadline.lift(before);
    context.client.now = clock::now();
    context.client.listener.shard.error_pages_fetched.increment();
    match (outcome, taker.status) {
        (Ok(()), 200) if !taker.is_over => Ok((taker.page, taker.plan)),
        (Err(Ended::Failed(Failure { party: Party::Client, .. })), _) => Err(NoPage::ClientLeft),
        (outcome, page_status) => {
            let reason = match outcome {
                Err(Ended::Failed(failure)) => failure.reason(),
                _ => "",
            };
            report(context.client, scope, (remote, page_status, reason));
            Err(NoPage::NotFetched)
        }
    }
}

/// Counts a page that could not be fetched; the log has the first ones, and then every second, fourth and so on.
fn report(client: &Client, scope: PageScope<'_>, (remote, status, reason): (&RemotePage, u16, &str)) {
    let counter = &client.listener.shard.error_pages_failed;
    counter.increment();
    let count = counter.value();
    if count.is_power_of_two() {
        tracing::warn!(
            listener = &*scope.listener.config.name,
            upstream = &*scope.config.snapshot.upstreams[remote.upstream.0].config.name,
            status,
            reason,
            count,
            "an error page could not be fetched: another one is sent"
        );
    }
}

/// The exchange of the request: a GET for the page.
fn inner_exchange<U>(
    context: &Context<'_, impl ClientStream, U>,
    scope: PageScope<'_>,
    (remote, status): (&RemotePage, u16),
) -> Result<Box<Exchange>, Failure> {
    let mut inner = subrequest::exchange_beside(context.exchange, remote.upstream.0, context.client);
    inner.record.trace = context.exchange.record.trace;
    // A page that has to wait would keep the client waiting that has waited already.
    inner.waits_for_slot = false;
    let values = TemplateValues::new(context, scope.route);
    let values = TemplateValues { status, ..values };
    let mut target = Vec::new();
    values.write_url(&remote.path, &mut target);
    let (request, text) = (&context.exchange.request, &context.exchange.request_text[..]);
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
    /// The request, and what makes the page one that is used again.
    request: StoredHead,
    sent: CacheTime,
    rules: StoreRules,
    /// How it is kept, if it is.
    plan: Option<Box<NewResponse>>,
}

impl PageTaker {
    fn new(remote: &RemotePage, inner: &Exchange) -> Self {
        Self {
            page: FetchedPage::default(),
            status: 0,
            is_over: false,
            len_max: remote.body_size.as_usize(),
            request: StoredHead::copy(inner.request_for_cache(), |_| true),
            sent: cache_now(),
            rules: page_rules(remote),
            plan: None,
        }
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
        let request = StoredRequest {
            method: Method::Get,
            head: self.request.view(),
            sent: self.sent,
            is_proven: false,
        };
        let head = HeadView { fields: response.fields(), text };
        let planned = plan_storing(&request, response.status(), head, &self.rules, cache_now());
        self.plan = planned.ok().filter(|_| response.status() == 200).map(|plan| {
            let head = plan.stored_head(head);
            let StorePlan { lifetime, vary, .. } = plan;
            Box::new(NewResponse { status: 200, head, lifetime, vary, len: None })
        });
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

    fn poll_write(&mut self, _cx: &mut task::Context<'_>, _data: &[u8]) -> Poll<Result<usize, RelayError>> {
        Poll::Ready(Err(RelayError::Write(io::ErrorKind::FileTooLarge.into())))
    }
}
